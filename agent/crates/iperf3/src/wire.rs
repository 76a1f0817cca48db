//! What the control connection carries, as two pure machines: bytes in, in any pieces, and what they mean out.
//!
//! Every length that a peer announces is checked against a limit before anything is kept for it.

use std::iter;

use serde_json::Value;

use crate::states::{Failure, Reason, State};

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
pub fn framed(document: &Value) -> Vec<u8> {
    let text = document.to_string();
    let length = u32::try_from(text.len()).expect("what is sent is far below 4 GiB");
    [&length.to_be_bytes(), text.as_bytes()].concat()
}

/// The state byte, iperf3's number of the error and the system's, which together refuse a test.
pub fn server_error(reason: Reason, errno: i32) -> [u8; ERROR_BYTES] {
    let mut bytes = [0; ERROR_BYTES];
    bytes[0] = State::ServerError.byte();
    bytes[1..5].copy_from_slice(&(reason as i32).to_be_bytes());
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
pub enum FromClient {
    Parameters(Value),
    TestEnd,
    Results(Value),
    Done,
    Terminated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientTurn {
    Parameters,
    /// Streams are being made: nothing may come.
    Nothing,
    TestEnd,
    Results,
    Done,
    Over,
}

/// The server's ear: what a client may say, in the order in which it may.
#[derive(Debug)]
pub struct ServerEar {
    turn: ClientTurn,
    bytes: Vec<u8>,
}

impl ServerEar {
    pub fn new() -> Self {
        Self {
            turn: ClientTurn::Parameters,
            bytes: Vec::new(),
        }
    }

    /// From here on the client may end the test.
    pub fn test_runs(&mut self) {
        if self.turn == ClientTurn::Nothing {
            self.turn = ClientTurn::TestEnd;
        }
    }

    pub fn hear(&mut self, bytes: &[u8]) -> Result<Vec<FromClient>, Failure> {
        self.bytes.extend_from_slice(bytes);
        iter::from_fn(|| self.next().transpose()).collect()
    }

    /// Bytes that are kept until the rest of their message comes.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.bytes.len()
    }

    fn next(&mut self) -> Result<Option<FromClient>, Failure> {
        match self.turn {
            ClientTurn::Parameters => {
                let document = take_document(&mut self.bytes, MAX_PARAMETERS_BYTES)
                    .map_err(|words| Failure::refused(Reason::ReceiveParameters, words))?;
                Ok(document.map(|document| {
                    self.turn = ClientTurn::Nothing;
                    FromClient::Parameters(document)
                }))
            }
            ClientTurn::Results => {
                let document = take_document(&mut self.bytes, MAX_CLIENT_RESULTS_BYTES)
                    .map_err(|words| Failure::refused(Reason::ReceiveResults, words))?;
                Ok(document.map(|document| {
                    self.turn = ClientTurn::Done;
                    FromClient::Results(document)
                }))
            }
            ClientTurn::Nothing | ClientTurn::TestEnd | ClientTurn::Done | ClientTurn::Over => {
                take_byte(&mut self.bytes)
                    .map(|byte| self.state(byte))
                    .transpose()
            }
        }
    }

    fn state(&mut self, byte: u8) -> Result<FromClient, Failure> {
        match (self.turn, State::from_byte(byte)) {
            (ClientTurn::Over, _) => Err(unknown(byte, "after the test")),
            (_, Some(State::ClientTerminated)) => {
                self.turn = ClientTurn::Over;
                Ok(FromClient::Terminated)
            }
            (ClientTurn::TestEnd, Some(State::TestEnd)) => {
                self.turn = ClientTurn::Results;
                Ok(FromClient::TestEnd)
            }
            (ClientTurn::Done, Some(State::Done)) => {
                self.turn = ClientTurn::Over;
                Ok(FromClient::Done)
            }
            (ClientTurn::Done, _) => Err(unknown(byte, "instead of the end of the test")),
            (ClientTurn::TestEnd, _) => Err(unknown(byte, "while the test runs")),
            _ => Err(unknown(byte, "while streams are made")),
        }
    }
}

fn unknown(byte: u8, when: &str) -> Failure {
    Failure::refused(
        Reason::UnknownMessage,
        format!("the client said {byte} {when}, which means nothing there"),
    )
}

/// What a server said.
#[derive(Debug, Clone, PartialEq)]
pub enum FromServer {
    State(State),
    Results(Value),
    Error { number: i32, errno: i32 },
}

/// The states that a server goes through, in this order.
const COURSE: [State; 6] = [
    State::ParameterExchange,
    State::CreateStreams,
    State::TestStart,
    State::TestRunning,
    State::ExchangeResults,
    State::DisplayResults,
];

/// The client's ear: what a server may say, in the order in which it may.
#[derive(Debug)]
pub struct ClientEar {
    /// How far along `COURSE`.
    passed: usize,
    results_come: bool,
    over: bool,
    bytes: Vec<u8>,
}

impl ClientEar {
    pub fn new() -> Self {
        Self {
            passed: 0,
            results_come: false,
            over: false,
            bytes: Vec::new(),
        }
    }

    pub fn hear(&mut self, bytes: &[u8]) -> Result<Vec<FromServer>, Failure> {
        self.bytes.extend_from_slice(bytes);
        iter::from_fn(|| self.next().transpose()).collect()
    }

    /// Bytes that are kept until the rest of their message comes.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.bytes.len()
    }

    fn next(&mut self) -> Result<Option<FromServer>, Failure> {
        let Some(&first) = self.bytes.first() else {
            return Ok(None);
        };
        let state = State::from_byte(first);
        if self.over {
            return Err(foreign(first, "after the test"));
        }
        match state {
            // No length begins with either of these two bytes: it would be far over the limit.
            Some(State::ServerError) => {
                let Some(bytes) = self.bytes.first_chunk::<ERROR_BYTES>() else {
                    return Ok(None);
                };
                let [_, a, b, c, d, e, f, g, h] = *bytes;
                self.over = true;
                self.bytes.drain(..ERROR_BYTES);
                return Ok(Some(FromServer::Error {
                    number: i32::from_be_bytes([a, b, c, d]),
                    errno: i32::from_be_bytes([e, f, g, h]),
                }));
            }
            Some(denied @ State::AccessDenied) => {
                self.over = true;
                self.bytes.remove(0);
                return Ok(Some(FromServer::State(denied)));
            }
            _ => {}
        }
        if self.results_come {
            let document =
                take_document(&mut self.bytes, MAX_SERVER_RESULTS_BYTES).map_err(|words| {
                    Failure::broken(format!("the server's results cannot be read: {words}"))
                })?;
            return Ok(document.map(|document| {
                self.results_come = false;
                FromServer::Results(document)
            }));
        }
        self.bytes.remove(0);
        match state {
            Some(State::ServerTerminated) => self.over = true,
            Some(state) if COURSE.get(self.passed) == Some(&state) => {
                self.passed += 1;
                self.results_come = state == State::ExchangeResults;
            }
            _ => return Err(foreign(first, "out of turn")),
        }
        Ok(state.map(FromServer::State))
    }
}

fn foreign(byte: u8, when: &str) -> Failure {
    Failure::broken(format!(
        "the server does not speak iperf3's protocol as far as it is known here: it said {byte} {when}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn through_the_test() -> Vec<u8> {
        [
            framed(&json!({"tcp": true})),
            vec![State::TestEnd.byte()],
            framed(&json!({"streams": []})),
            vec![State::Done.byte()],
        ]
        .concat()
    }

    #[test]
    fn a_test_is_heard_whole_byte_by_byte() {
        let mut ear = ServerEar::new();
        let mut heard = Vec::new();
        for byte in through_the_test() {
            heard.extend(ear.hear(&[byte]).expect("it is right"));
            ear.test_runs();
        }
        assert_eq!(
            heard,
            [
                FromClient::Parameters(json!({"tcp": true})),
                FromClient::TestEnd,
                FromClient::Results(json!({"streams": []})),
                FromClient::Done,
            ]
        );
        assert_eq!(ear.kept(), 0);
    }

    #[test]
    fn an_announced_length_over_the_limit_is_refused_before_anything_is_kept_for_it() {
        let mut ear = ServerEar::new();
        let refused = ear.hear(&[0xff, 0xff, 0xff, 0xff]).expect_err("4 GiB");
        assert!(matches!(
            refused,
            Failure::Refused {
                reason: Reason::ReceiveParameters,
                ..
            }
        ));
        assert!(ServerEar::new().hear(&[0, 0, 0, 0]).is_err());
    }

    #[test]
    fn a_test_cannot_end_before_it_runs() {
        let mut ear = ServerEar::new();
        ear.hear(&framed(&json!({}))).expect("parameters");
        assert!(ear.hear(&[State::TestEnd.byte()]).is_err());
    }

    #[test]
    fn a_server_goes_through_its_states_and_may_refuse_at_any_of_them() {
        let mut ear = ClientEar::new();
        assert_eq!(ear.hear(&[9, 10, 1, 2, 13]).expect("its course").len(), 5);
        let refusal = server_error(Reason::Congestion, 2);
        assert_eq!(ear.hear(&refusal[..5]).expect("a part"), []);
        assert_eq!(
            ear.hear(&refusal[5..]).expect("the rest"),
            [FromServer::Error {
                number: 134,
                errno: 2
            }]
        );
        assert_eq!(ear.kept(), 0);
        assert!(ear.hear(&[14]).is_err());
    }

    #[test]
    fn another_protocol_is_recognised_by_its_first_byte() {
        let error = ClientEar::new().hear(b"SSH-2.0-OpenSSH").expect_err("SSH");
        assert!(error.to_string().contains("does not speak iperf3"));
    }
}
