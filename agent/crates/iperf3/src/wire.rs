//! The parts of messages on the control connection: documents, errors, and their limits.
//!
//! The decoders accept bytes in any pieces and do no I/O. They check every announced length against a limit before they
//! buffer the document.

use serde_json::Value;

use crate::states::{ErrorCode, State};

/// Length of a cookie: 36 characters and a zero byte.
pub const COOKIE_BYTES: usize = 37;
/// The identifier that every connection of a test sends first.
pub type Cookie = [u8; COOKIE_BYTES];

/// Maximum length of a parameter document; those of a stock client have about 200 bytes.
pub const MAX_PARAMETERS_BYTES: usize = 64 << 10;
/// Maximum length of a client's results; 128 streams in each direction need about 50 KiB.
pub const MAX_CLIENT_RESULTS_BYTES: usize = 1 << 20;
/// Maximum length of a server's results; with `--get-server-output` they contain all output of the server.
pub const MAX_SERVER_RESULTS_BYTES: usize = 16 << 20;

const LENGTH_PREFIX_BYTES: usize = 4;
/// Length of an encoded error.
pub const SERVER_ERROR_BYTES: usize = 9;

/// Encodes a JSON document: its length in network byte order, then the text.
pub fn encode_document(document: &Value) -> Vec<u8> {
    let text = document.to_string();
    let length = u32::try_from(text.len()).expect("documents are far smaller than 4 GiB");
    [&length.to_be_bytes(), text.as_bytes()].concat()
}

/// Encodes an error: the state byte, iperf3's error code and the system's error number.
pub fn encode_server_error(code: ErrorCode, errno: i32) -> [u8; SERVER_ERROR_BYTES] {
    let mut bytes = [0; SERVER_ERROR_BYTES];
    bytes[0] = State::ServerError.byte();
    bytes[1..5].copy_from_slice(&(code as i32).to_be_bytes());
    bytes[5..].copy_from_slice(&errno.to_be_bytes());
    bytes
}

/// Removes a document from the start of `bytes`; returns `None` until it is complete.
pub fn take_document(bytes: &mut Vec<u8>, limit: usize) -> Result<Option<Value>, String> {
    let Some(prefix) = bytes.first_chunk::<LENGTH_PREFIX_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*prefix) as usize;
    if length == 0 || length > limit {
        return Err(format!(
            "the peer announced a document of {length} bytes, but the limit is {limit} bytes"
        ));
    }
    let end = LENGTH_PREFIX_BYTES + length;
    if bytes.len() < end {
        return Ok(None);
    }
    let document = serde_json::from_slice(&bytes[LENGTH_PREFIX_BYTES..end])
        .map_err(|error| error.to_string())?;
    bytes.drain(..end);
    Ok(Some(document))
}

/// Removes the first byte.
pub fn take_byte(bytes: &mut Vec<u8>) -> Option<u8> {
    (!bytes.is_empty()).then(|| bytes.remove(0))
}
