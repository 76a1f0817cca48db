//! The handshake of a stream's connection: 32 bytes that identify the stream, and 32 bytes that accept it.

use std::io;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use socket2::Socket;

use vnetbench_streams::Secret;

/// Length of each message; unused bytes are zero.
const HANDSHAKE_BYTES: usize = 32;
/// First bytes of the request, which the connecting endpoint sends.
const REQUEST_MARK: &[u8; 4] = b"VNB1";
/// First bytes of the response.
const RESPONSE_MARK: &[u8; 4] = b"VNBA";

type HandshakeBytes = [u8; HANDSHAKE_BYTES];

/// Returns a message with this mark.
fn encode_handshake(mark: &[u8; 4], id: u32, secret: &Secret) -> HandshakeBytes {
    let mut bytes = [0; HANDSHAKE_BYTES];
    bytes[..4].copy_from_slice(mark);
    bytes[4..8].copy_from_slice(&id.to_be_bytes());
    bytes[8..24].copy_from_slice(secret);
    bytes
}

/// Sends the request, if the connection is established.
///
/// # Errors
///
/// Connecting or sending failed.
pub(crate) fn send_request(socket: &Socket, id: u32, secret: &Secret) -> io::Result<()> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    // The empty buffer of a new connection takes the whole request.
    socket
        .send(&encode_handshake(REQUEST_MARK, id, secret))
        .map(drop)
}

/// Sends the response, which accepts the stream.
///
/// # Errors
///
/// Sending failed.
pub(crate) fn send_response(socket: &Socket, id: u32, secret: &Secret) -> io::Result<()> {
    socket
        .send(&encode_handshake(RESPONSE_MARK, id, secret))
        .map(drop)
}

/// Reads the handshake message of the other endpoint.
#[derive(Default)]
pub(crate) struct HandshakeReader(Vec<u8>);

/// The state of reading a handshake message.
pub(crate) enum ReadState {
    /// More bytes are missing.
    Incomplete,
    /// The message is complete.
    Complete,
    /// The other endpoint closed the connection, or it failed.
    Closed,
}

impl HandshakeReader {
    /// Reads available bytes of the message, and none beyond it.
    pub fn read(&mut self, socket: &Socket) -> ReadState {
        let mut bytes = [0; HANDSHAKE_BYTES];
        match rustix::net::recv(
            socket,
            &mut bytes[..HANDSHAKE_BYTES - self.0.len()],
            RecvFlags::empty(),
        ) {
            Ok((count @ 1.., _)) => self.0.extend_from_slice(&bytes[..count]),
            Err(Errno::AGAIN | Errno::INTR) => return ReadState::Incomplete,
            Ok(_) | Err(_) => return ReadState::Closed,
        }
        if self.0.len() == HANDSHAKE_BYTES {
            ReadState::Complete
        } else {
            ReadState::Incomplete
        }
    }

    /// Returns the number of the requested stream; `None` if the message is no request of this trial.
    pub fn requested_stream_id(&self, secret: &Secret) -> Option<u32> {
        let id = u32::from_be_bytes(self.0.get(4..8)?.try_into().ok()?);
        (self.0 == encode_handshake(REQUEST_MARK, id, secret)).then_some(id)
    }

    /// Returns whether the message accepts the stream.
    pub fn is_response_to(&self, id: u32, secret: &Secret) -> bool {
        self.0 == encode_handshake(RESPONSE_MARK, id, secret)
    }

    /// Returns the received bytes, escaped and in quotes, for messages.
    pub fn quote_received_bytes(&self) -> String {
        format!("\"{}\"", self.0.escape_ascii())
    }
}
