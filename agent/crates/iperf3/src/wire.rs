//! What the control connection carries, as two pure machines: bytes in, in any pieces, and what they mean out.
//!
//! Every length that a peer announces is checked against a limit before anything is kept for it.

use std::iter;

use serde_json::Value;

use crate::states::{ErrorCode, State, TestError};

/// What opens every connection of a test: 36 characters and a zero byte, the same for all its connections.
pub const COOKIE_BYTES: usize = 37;
pub type Cookie = [u8; COOKIE_BYTES];

/// The longest parameters that are read; a stock client's are some 200 bytes.
pub const MAX_PARAMETERS_BYTES: usize = 64 << 10;
/// The longest results that a server reads: 128 streams both ways need some 50 KiB.
pub const MAX_CLIENT_RESULTS_BYTES: usize = 1 << 20;
/// The longest results that a client reads: with `--get-server-output` all that the server printed is in them.
pub const MAX_SERVER_RESULTS_BYTES: usize = 16 << 20;

const LENGTH_BYTES: usize = 4;
const ERROR_BYTES: usize = 9;

/// A JSON document as the protocol carries it: its length in network byte order before it.
pub fn encode_document(document: &Value) -> Vec<u8> {
    let text = document.to_string();
    let length = u32::try_from(text.len()).expect("what is sent is far below 4 GiB");
    [&length.to_be_bytes(), text.as_bytes()].concat()
}

/// The state byte, iperf3's number of the error and the system's, which together refuse a test.
pub fn encode_server_error(code: ErrorCode, errno: i32) -> [u8; ERROR_BYTES] {
    let mut bytes = [0; ERROR_BYTES];
    bytes[0] = State::ServerError.byte();
    bytes[1..5].copy_from_slice(&(code as i32).to_be_bytes());
    bytes[5..].copy_from_slice(&errno.to_be_bytes());
    bytes
}

/// A whole document at the head of `bytes`, taken out of them; `None` until it is all there.
fn take_document(bytes: &mut Vec<u8>, limit: usize) -> Result<Option<Value>, String> {
    let Some(prefix) = bytes.first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*prefix) as usize;
    if length == 0 || length > limit {
        return Err(format!(
            "a document of {length} bytes was announced, the limit is {limit}"
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

/// What a client said.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientMessage {
    Parameters(Value),
    TestEnd,
    Results(Value),
    Done,
    Terminated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedMessage {
    Parameters,
    /// Streams are being made: nothing may come.
    Nothing,
    TestEnd,
    Results,
    Done,
    Finished,
}

/// The server's ear: what a client may say, in the order in which it may.
#[derive(Debug)]
pub struct ClientMessageDecoder {
    expected: ExpectedMessage,
    buffer: Vec<u8>,
}

impl ClientMessageDecoder {
    pub fn new() -> Self {
        Self {
            expected: ExpectedMessage::Parameters,
            buffer: Vec::new(),
        }
    }

    /// From here on the client may end the test.
    pub fn allow_test_end(&mut self) {
        if self.expected == ExpectedMessage::Nothing {
            self.expected = ExpectedMessage::TestEnd;
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<ClientMessage>, TestError> {
        self.buffer.extend_from_slice(bytes);
        iter::from_fn(|| self.next().transpose()).collect()
    }

    /// Bytes that are kept until the rest of their message comes.
    #[cfg(test)]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn next(&mut self) -> Result<Option<ClientMessage>, TestError> {
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
            _ => Err(unexpected_client_byte(byte, "while streams are made")),
        }
    }
}

fn unexpected_client_byte(byte: u8, when: &str) -> TestError {
    TestError::refused(
        ErrorCode::UnknownMessage,
        format!("the client said {byte} {when}, which means nothing there"),
    )
}

/// What a server said.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerMessage {
    State(State),
    Results(Value),
    Error { number: i32, errno: i32 },
}

/// The states that a server goes through, in this order.
const SERVER_STATES: [State; 6] = [
    State::ParameterExchange,
    State::CreateStreams,
    State::TestStart,
    State::TestRunning,
    State::ExchangeResults,
    State::DisplayResults,
];

/// The client's ear: what a server may say, in the order in which it may.
#[derive(Debug)]
pub struct ServerMessageDecoder {
    /// How far along `COURSE`.
    next_state: usize,
    expects_results: bool,
    is_finished: bool,
    buffer: Vec<u8>,
}

impl ServerMessageDecoder {
    pub fn new() -> Self {
        Self {
            next_state: 0,
            expects_results: false,
            is_finished: false,
            buffer: Vec::new(),
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<ServerMessage>, TestError> {
        self.buffer.extend_from_slice(bytes);
        iter::from_fn(|| self.next().transpose()).collect()
    }

    /// Bytes that are kept until the rest of their message comes.
    #[cfg(test)]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn next(&mut self) -> Result<Option<ServerMessage>, TestError> {
        let Some(&first) = self.buffer.first() else {
            return Ok(None);
        };
        let state = State::from_byte(first);
        if self.is_finished {
            return Err(unexpected_server_byte(first, "after the test"));
        }
        match state {
            // No length begins with either of these two bytes: it would be far over the limit.
            Some(State::ServerError) => {
                let Some(bytes) = self.buffer.first_chunk::<ERROR_BYTES>() else {
                    return Ok(None);
                };
                let [_, a, b, c, d, e, f, g, h] = *bytes;
                self.is_finished = true;
                self.buffer.drain(..ERROR_BYTES);
                return Ok(Some(ServerMessage::Error {
                    number: i32::from_be_bytes([a, b, c, d]),
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
                    TestError::failed(format!("the server's results cannot be read: {message}"))
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
        "the server does not speak iperf3's protocol as far as it is known here: it said {byte} {when}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn through_the_test() -> Vec<u8> {
        [
            encode_document(&json!({"tcp": true})),
            vec![State::TestEnd.byte()],
            encode_document(&json!({"streams": []})),
            vec![State::Done.byte()],
        ]
        .concat()
    }

    #[test]
    fn a_test_is_heard_whole_byte_by_byte() {
        let mut decoder = ClientMessageDecoder::new();
        let mut messages = Vec::new();
        for byte in through_the_test() {
            messages.extend(decoder.feed(&[byte]).expect("it is right"));
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
    fn an_announced_length_over_the_limit_is_refused_before_anything_is_kept_for_it() {
        let mut decoder = ClientMessageDecoder::new();
        let refused = decoder.feed(&[0xff, 0xff, 0xff, 0xff]).expect_err("4 GiB");
        assert!(matches!(
            refused,
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
    fn a_server_goes_through_its_states_and_may_refuse_at_any_of_them() {
        let mut decoder = ServerMessageDecoder::new();
        assert_eq!(
            decoder.feed(&[9, 10, 1, 2, 13]).expect("its course").len(),
            5
        );
        let refusal = encode_server_error(ErrorCode::Congestion, 2);
        assert_eq!(decoder.feed(&refusal[..5]).expect("a part"), []);
        assert_eq!(
            decoder.feed(&refusal[5..]).expect("the rest"),
            [ServerMessage::Error {
                number: 134,
                errno: 2
            }]
        );
        assert_eq!(decoder.buffered_bytes(), 0);
        assert!(decoder.feed(&[14]).is_err());
    }

    #[test]
    fn another_protocol_is_recognised_by_its_first_byte() {
        let error = ServerMessageDecoder::new()
            .feed(b"SSH-2.0-OpenSSH")
            .expect_err("SSH");
        assert!(error.to_string().contains("does not speak iperf3"));
    }
}
