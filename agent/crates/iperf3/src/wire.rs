//! Encodes and decodes the messages of the control connection.
//!
//! The decoders accept bytes in any pieces and do no I/O. They check every announced length against a limit before they
//! buffer the document.

use std::iter;

use serde_json::Value;

use crate::states::{ErrorCode, State, TestError};

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

const LENGTH_BYTES: usize = 4;
const ERROR_BYTES: usize = 9;

/// Encodes a JSON document: its length in network byte order, then the text.
pub fn encode_document(document: &Value) -> Vec<u8> {
    let text = document.to_string();
    let length = u32::try_from(text.len()).expect("documents are far smaller than 4 GiB");
    [&length.to_be_bytes(), text.as_bytes()].concat()
}

/// Encodes an error: the state byte, iperf3's error code and the system's error number.
pub fn encode_server_error(code: ErrorCode, errno: i32) -> [u8; ERROR_BYTES] {
    let mut bytes = [0; ERROR_BYTES];
    bytes[0] = State::ServerError.byte();
    bytes[1..5].copy_from_slice(&(code as i32).to_be_bytes());
    bytes[5..].copy_from_slice(&errno.to_be_bytes());
    bytes
}

/// Removes a document from the start of `bytes`; returns `None` until it is complete.
fn take_document(bytes: &mut Vec<u8>, limit: usize) -> Result<Option<Value>, String> {
    let Some(prefix) = bytes.first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*prefix) as usize;
    if length == 0 || length > limit {
        return Err(format!(
            "the peer announced a document of {length} bytes; the limit is {limit}"
        ));
    }
    let end = LENGTH_BYTES + length;
    if bytes.len() < end {
        return Ok(None);
    }
    let document =
        serde_json::from_slice(&bytes[LENGTH_BYTES..end]).map_err(|error| error.to_string())?;
    bytes.drain(..end);
    Ok(Some(document))
}

fn take_byte(bytes: &mut Vec<u8>) -> Option<u8> {
    (!bytes.is_empty()).then(|| bytes.remove(0))
}

/// A message from a client.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientMessage {
    /// The parameters of the test.
    Parameters(Value),
    /// The end of the load.
    TestEnd,
    /// The client's results.
    Results(Value),
    /// The end of the test.
    Done,
    /// The client aborts the test.
    Terminated,
}

/// The next message that the protocol allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedMessage {
    Parameters,
    /// No message while the client opens its streams.
    Nothing,
    TestEnd,
    Results,
    Done,
    Finished,
}

/// Decodes a client's messages and checks their order.
#[derive(Debug)]
pub struct ClientMessageDecoder {
    expected: ExpectedMessage,
    buffer: Vec<u8>,
}

impl ClientMessageDecoder {
    /// Creates a decoder that expects the parameters.
    pub fn new() -> Self {
        Self {
            expected: ExpectedMessage::Parameters,
            buffer: Vec::new(),
        }
    }

    /// Allows the message that ends the test.
    pub fn allow_test_end(&mut self) {
        if self.expected == ExpectedMessage::Nothing {
            self.expected = ExpectedMessage::TestEnd;
        }
    }

    /// Adds received bytes; returns all messages that are complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<ClientMessage>, TestError> {
        self.buffer.extend_from_slice(bytes);
        iter::from_fn(|| self.next_message().transpose()).collect()
    }

    /// Returns the number of buffered bytes of an incomplete message.
    #[cfg(test)]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn next_message(&mut self) -> Result<Option<ClientMessage>, TestError> {
        match self.expected {
            ExpectedMessage::Parameters => {
                let document = take_document(&mut self.buffer, MAX_PARAMETERS_BYTES)
                    .map_err(|message| TestError::refused(ErrorCode::ReceiveParameters, message))?;
                Ok(document.map(|document| {
                    self.expected = ExpectedMessage::Nothing;
                    ClientMessage::Parameters(document)
                }))
            }
            ExpectedMessage::Results => {
                let document = take_document(&mut self.buffer, MAX_CLIENT_RESULTS_BYTES)
                    .map_err(|message| TestError::refused(ErrorCode::ReceiveResults, message))?;
                Ok(document.map(|document| {
                    self.expected = ExpectedMessage::Done;
                    ClientMessage::Results(document)
                }))
            }
            ExpectedMessage::Nothing
            | ExpectedMessage::TestEnd
            | ExpectedMessage::Done
            | ExpectedMessage::Finished => take_byte(&mut self.buffer)
                .map(|byte| self.decode_state(byte))
                .transpose(),
        }
    }

    fn decode_state(&mut self, byte: u8) -> Result<ClientMessage, TestError> {
        match (self.expected, State::from_byte(byte)) {
            (ExpectedMessage::Finished, _) => Err(unexpected_client_byte(byte, "after the test")),
            (_, Some(State::ClientTerminated)) => {
                self.expected = ExpectedMessage::Finished;
                Ok(ClientMessage::Terminated)
            }
            (ExpectedMessage::TestEnd, Some(State::TestEnd)) => {
                self.expected = ExpectedMessage::Results;
                Ok(ClientMessage::TestEnd)
            }
            (ExpectedMessage::Done, Some(State::Done)) => {
                self.expected = ExpectedMessage::Finished;
                Ok(ClientMessage::Done)
            }
            (ExpectedMessage::Done, _) => Err(unexpected_client_byte(
                byte,
                "instead of the end of the test",
            )),
            (ExpectedMessage::TestEnd, _) => {
                Err(unexpected_client_byte(byte, "while the test runs"))
            }
            _ => Err(unexpected_client_byte(
                byte,
                "while the client opens its streams",
            )),
        }
    }
}

fn unexpected_client_byte(byte: u8, when: &str) -> TestError {
    TestError::refused(
        ErrorCode::UnknownMessage,
        format!("the client sent the unexpected byte {byte} {when}"),
    )
}

/// A message from a server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerMessage {
    /// A new state.
    State(State),
    /// The server's results.
    Results(Value),
    /// An error.
    Error {
        /// iperf3's error code.
        code: i32,
        /// The system's error number, or 0.
        errno: i32,
    },
}

/// The states of a server, in order.
const SERVER_STATES: [State; 6] = [
    State::ParameterExchange,
    State::CreateStreams,
    State::TestStart,
    State::TestRunning,
    State::ExchangeResults,
    State::DisplayResults,
];

/// Decodes a server's messages and checks their order.
#[derive(Debug)]
pub struct ServerMessageDecoder {
    /// Index of the next state in `SERVER_STATES`.
    next_state: usize,
    expects_results: bool,
    is_finished: bool,
    buffer: Vec<u8>,
}

impl ServerMessageDecoder {
    /// Creates a decoder that expects the first state.
    pub fn new() -> Self {
        Self {
            next_state: 0,
            expects_results: false,
            is_finished: false,
            buffer: Vec::new(),
        }
    }

    /// Adds received bytes; returns all messages that are complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<ServerMessage>, TestError> {
        self.buffer.extend_from_slice(bytes);
        iter::from_fn(|| self.next_message().transpose()).collect()
    }

    /// Returns the number of buffered bytes of an incomplete message.
    #[cfg(test)]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn next_message(&mut self) -> Result<Option<ServerMessage>, TestError> {
        let Some(&first) = self.buffer.first() else {
            return Ok(None);
        };
        let state = State::from_byte(first);
        if self.is_finished {
            return Err(unexpected_server_byte(first, "after the test"));
        }
        match state {
            // No valid length starts with 0xfe or 0xff: it would exceed the limit.
            Some(State::ServerError) => {
                let Some(bytes) = self.buffer.first_chunk::<ERROR_BYTES>() else {
                    return Ok(None);
                };
                let [_, a, b, c, d, e, f, g, h] = *bytes;
                self.is_finished = true;
                self.buffer.drain(..ERROR_BYTES);
                return Ok(Some(ServerMessage::Error {
                    code: i32::from_be_bytes([a, b, c, d]),
                    errno: i32::from_be_bytes([e, f, g, h]),
                }));
            }
            Some(denied @ State::AccessDenied) => {
                self.is_finished = true;
                self.buffer.remove(0);
                return Ok(Some(ServerMessage::State(denied)));
            }
            _ => {}
        }
        if self.expects_results {
            let document =
                take_document(&mut self.buffer, MAX_SERVER_RESULTS_BYTES).map_err(|message| {
                    TestError::failed(format!("cannot parse the server's results: {message}"))
                })?;
            return Ok(document.map(|document| {
                self.expects_results = false;
                ServerMessage::Results(document)
            }));
        }
        self.buffer.remove(0);
        match state {
            Some(State::ServerTerminated) => self.is_finished = true,
            Some(state) if SERVER_STATES.get(self.next_state) == Some(&state) => {
                self.next_state += 1;
                self.expects_results = state == State::ExchangeResults;
            }
            _ => return Err(unexpected_server_byte(first, "out of turn")),
        }
        Ok(state.map(ServerMessage::State))
    }
}

fn unexpected_server_byte(byte: u8, when: &str) -> TestError {
    TestError::failed(format!(
        "the server does not speak iperf3's protocol: it sent the byte {byte} {when}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn client_bytes() -> Vec<u8> {
        [
            encode_document(&json!({"tcp": true})),
            vec![State::TestEnd.byte()],
            encode_document(&json!({"streams": []})),
            vec![State::Done.byte()],
        ]
        .concat()
    }

    #[test]
    fn all_messages_of_a_client_are_decoded_byte_by_byte() {
        let mut decoder = ClientMessageDecoder::new();
        let mut messages = Vec::new();
        for byte in client_bytes() {
            messages.extend(decoder.feed(&[byte]).expect("the messages are valid"));
            decoder.allow_test_end();
        }
        assert_eq!(
            messages,
            [
                ClientMessage::Parameters(json!({"tcp": true})),
                ClientMessage::TestEnd,
                ClientMessage::Results(json!({"streams": []})),
                ClientMessage::Done,
            ]
        );
        assert_eq!(decoder.buffered_bytes(), 0);
    }

    #[test]
    fn an_announced_length_over_the_limit_is_refused_before_the_document_is_buffered() {
        let mut decoder = ClientMessageDecoder::new();
        let error = decoder.feed(&[0xff, 0xff, 0xff, 0xff]).expect_err("4 GiB");
        assert!(matches!(
            error,
            TestError::Refused {
                code: ErrorCode::ReceiveParameters,
                ..
            }
        ));
        assert!(ClientMessageDecoder::new().feed(&[0, 0, 0, 0]).is_err());
    }

    #[test]
    fn a_test_cannot_end_before_it_runs() {
        let mut decoder = ClientMessageDecoder::new();
        decoder
            .feed(&encode_document(&json!({})))
            .expect("parameters");
        assert!(decoder.feed(&[State::TestEnd.byte()]).is_err());
    }

    #[test]
    fn a_server_can_refuse_a_test_in_any_state() {
        let mut decoder = ServerMessageDecoder::new();
        assert_eq!(
            decoder
                .feed(&[9, 10, 1, 2, 13])
                .expect("the states are in order")
                .len(),
            5
        );
        let refusal = encode_server_error(ErrorCode::Congestion, 2);
        assert_eq!(
            decoder.feed(&refusal[..5]).expect("an incomplete error"),
            []
        );
        assert_eq!(
            decoder.feed(&refusal[5..]).expect("the complete error"),
            [ServerMessage::Error {
                code: 134,
                errno: 2
            }]
        );
        assert_eq!(decoder.buffered_bytes(), 0);
        assert!(decoder.feed(&[14]).is_err());
    }

    #[test]
    fn another_protocol_is_refused_at_its_first_byte() {
        let error = ServerMessageDecoder::new()
            .feed(b"SSH-2.0-OpenSSH")
            .expect_err("SSH");
        assert!(error.to_string().contains("does not speak iperf3"));
    }
}
