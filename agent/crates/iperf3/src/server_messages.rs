//! Decodes the messages of a server and checks their order.

use std::iter;

use serde_json::Value;

use crate::states::{State, TestError};
use crate::wire::{MAX_SERVER_RESULTS_BYTES, SERVER_ERROR_BYTES, take_document};

/// A message from a server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerControlMessage {
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
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<ServerControlMessage>, TestError> {
        self.buffer.extend_from_slice(bytes);
        iter::from_fn(|| self.next_message().transpose()).collect()
    }

    /// Returns the number of buffered bytes of an incomplete message.
    #[cfg(test)]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn next_message(&mut self) -> Result<Option<ServerControlMessage>, TestError> {
        let Some(&first) = self.buffer.first() else {
            return Ok(None);
        };
        let state = State::from_byte(first);
        if self.is_finished {
            return Err(unexpected_server_byte_error(first, "after the test"));
        }
        match state {
            // No valid length starts with 0xfe or 0xff: it would exceed the limit.
            Some(State::ServerError) => {
                let Some(bytes) = self.buffer.first_chunk::<SERVER_ERROR_BYTES>() else {
                    return Ok(None);
                };
                let [_, a, b, c, d, e, f, g, h] = *bytes;
                self.is_finished = true;
                self.buffer.drain(..SERVER_ERROR_BYTES);
                return Ok(Some(ServerControlMessage::Error {
                    code: i32::from_be_bytes([a, b, c, d]),
                    errno: i32::from_be_bytes([e, f, g, h]),
                }));
            }
            Some(denied @ State::AccessDenied) => {
                self.is_finished = true;
                self.buffer.remove(0);
                return Ok(Some(ServerControlMessage::State(denied)));
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
                ServerControlMessage::Results(document)
            }));
        }
        self.buffer.remove(0);
        match state {
            Some(State::ServerTerminated) => self.is_finished = true,
            Some(state) if SERVER_STATES.get(self.next_state) == Some(&state) => {
                self.next_state += 1;
                self.expects_results = state == State::ExchangeResults;
            }
            _ => return Err(unexpected_server_byte_error(first, "out of turn")),
        }
        Ok(state.map(ServerControlMessage::State))
    }
}

fn unexpected_server_byte_error(byte: u8, when: &str) -> TestError {
    TestError::failed(format!(
        "the server does not speak iperf3's protocol: it sent the byte {byte} {when}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::ErrorCode;
    use crate::wire::encode_server_error;

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
            [ServerControlMessage::Error {
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
