//! Decodes the messages of a client and checks their order.

use std::iter;

use serde_json::Value;

use crate::states::{ErrorCode, State, TestError};
use crate::wire::{MAX_CLIENT_RESULTS_BYTES, MAX_PARAMETERS_BYTES, take_byte, take_document};

/// A message from a client.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientControlMessage {
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
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<ClientControlMessage>, TestError> {
        self.buffer.extend_from_slice(bytes);
        iter::from_fn(|| self.next_message().transpose()).collect()
    }

    /// Returns the number of buffered bytes of an incomplete message.
    #[cfg(test)]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn next_message(&mut self) -> Result<Option<ClientControlMessage>, TestError> {
        match self.expected {
            ExpectedMessage::Parameters => {
                let document = take_document(&mut self.buffer, MAX_PARAMETERS_BYTES)
                    .map_err(|message| TestError::refused(ErrorCode::ReceiveParameters, message))?;
                Ok(document.map(|document| {
                    self.expected = ExpectedMessage::Nothing;
                    ClientControlMessage::Parameters(document)
                }))
            }
            ExpectedMessage::Results => {
                let document = take_document(&mut self.buffer, MAX_CLIENT_RESULTS_BYTES)
                    .map_err(|message| TestError::refused(ErrorCode::ReceiveResults, message))?;
                Ok(document.map(|document| {
                    self.expected = ExpectedMessage::Done;
                    ClientControlMessage::Results(document)
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

    fn decode_state(&mut self, byte: u8) -> Result<ClientControlMessage, TestError> {
        match (self.expected, State::from_byte(byte)) {
            (ExpectedMessage::Finished, _) => {
                Err(unexpected_client_byte_error(byte, "after the test"))
            }
            (_, Some(State::ClientTerminated)) => {
                self.expected = ExpectedMessage::Finished;
                Ok(ClientControlMessage::Terminated)
            }
            (ExpectedMessage::TestEnd, Some(State::TestEnd)) => {
                self.expected = ExpectedMessage::Results;
                Ok(ClientControlMessage::TestEnd)
            }
            (ExpectedMessage::Done, Some(State::Done)) => {
                self.expected = ExpectedMessage::Finished;
                Ok(ClientControlMessage::Done)
            }
            (ExpectedMessage::Done, _) => Err(unexpected_client_byte_error(
                byte,
                "instead of the end of the test",
            )),
            (ExpectedMessage::TestEnd, _) => {
                Err(unexpected_client_byte_error(byte, "while the test runs"))
            }
            _ => Err(unexpected_client_byte_error(
                byte,
                "while the client opens its streams",
            )),
        }
    }
}

fn unexpected_client_byte_error(byte: u8, when: &str) -> TestError {
    TestError::refused(
        ErrorCode::UnknownMessage,
        format!("the client sent the unexpected byte {byte} {when}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::encode_document;
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
                ClientControlMessage::Parameters(json!({"tcp": true})),
                ClientControlMessage::TestEnd,
                ClientControlMessage::Results(json!({"streams": []})),
                ClientControlMessage::Done,
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
}
