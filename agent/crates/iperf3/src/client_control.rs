//! The client's steps of the protocol on the control connection.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::control_connection::ControlConnection;
use crate::parameters::TestParameters;
use crate::results::{RetransmitReporting, TestResults};
use crate::server_messages::{ServerControlMessage, ServerMessageDecoder};
use crate::sockets::connect_tcp;
use crate::states::{State, TestError, error_message};
use crate::wire::{COOKIE_BYTES, Cookie, encode_document};
use vnetbench_system::waiting::Waker;

const COOKIE_LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The client's end of one test's control connection.
///
/// Dropping it before the test is finished sends `ClientTerminated` to the server.
pub struct ClientControl {
    /// Shared with the thread that can abort the test.
    pub connection: Arc<ControlConnection>,
    /// Cookie of the test.
    pub cookie: Cookie,
    /// Time limit for each reply of the server.
    reply_timeout: Duration,
    /// Time limit for all further replies together.
    deadline: Option<Instant>,
    decoder: ServerMessageDecoder,
    messages: VecDeque<ServerControlMessage>,
    is_finished: bool,
}

impl ClientControl {
    /// Connects to the server; sends nothing yet.
    pub fn open_connection(
        to: SocketAddr,
        from: Option<IpAddr>,
        connect_timeout: Duration,
        reply_timeout: Duration,
    ) -> Result<Self, TestError> {
        let from = from.map(|from| SocketAddr::new(from, 0));
        let socket = connect_tcp(to, from, connect_timeout, |_| Ok(()))?;
        // Ctrl-C ends a client's load, never one of its messages: this waker is never used.
        let connection =
            Waker::new().and_then(|waker| ControlConnection::new(socket, Arc::new(waker)));
        Ok(Self {
            connection: connection
                .map(Arc::new)
                .map_err(|error| TestError::failed(format!("{to}: {error}")))?,
            cookie: generate_cookie()?,
            reply_timeout,
            deadline: None,
            decoder: ServerMessageDecoder::new(),
            messages: VecDeque::new(),
            is_finished: false,
        })
    }

    /// Sends the cookie and the parameters; afterwards the server waits for the streams.
    pub fn send_cookie_and_parameters(
        &mut self,
        parameters: &TestParameters,
    ) -> Result<(), TestError> {
        self.connection
            .send(&self.cookie)
            .and_then(|()| self.expect_state(State::ParameterExchange, "answer"))
            .map_err(|error| match error {
                // A stock server does not listen for a moment after each test and resets connections made then.
                TestError::ConnectionLost(message) => TestError::Unreachable(message),
                other => other,
            })?;
        self.connection
            .send(&encode_document(&parameters.to_json()))?;
        self.expect_state(State::CreateStreams, "take the parameters")
    }

    /// Sends the cookie on a stream, which assigns the stream to this test.
    pub fn send_cookie(&self, stream: &Socket) -> Result<(), TestError> {
        // One call sends the whole cookie: the buffer of a new connection is empty and larger than this.
        stream
            .send(&self.cookie)
            .map(drop)
            .map_err(|error| TestError::failed(format!("cannot open a stream: {error}")))
    }

    /// Waits until the server has all streams and starts the test.
    pub fn await_start(&mut self) -> Result<(), TestError> {
        self.expect_state(State::TestStart, "take the streams")?;
        self.expect_state(State::TestRunning, "start the test")
    }

    /// Decodes bytes that arrive while the test runs.
    ///
    /// # Errors
    ///
    /// The server sends nothing during a test, so any message is the reason why it failed.
    pub fn reject_message_during_load(&mut self, bytes: &[u8]) -> Result<(), TestError> {
        match self.decoder.feed(bytes)?.into_iter().next() {
            None => Ok(()),
            Some(message) => Err(unexpected_message_error(&message)),
        }
    }

    /// Requests the server to end the test.
    pub fn request_test_end(&mut self) -> Result<(), TestError> {
        self.connection.send_state(State::TestEnd)?;
        self.expect_state(State::ExchangeResults, "end the test")
    }

    /// Sends the local results and returns the server's.
    pub fn exchange_results(
        &mut self,
        local_results: &TestResults,
        retransmit_reporting: RetransmitReporting,
    ) -> Result<TestResults, TestError> {
        self.connection.send(&encode_document(
            &local_results.to_json(retransmit_reporting),
        ))?;
        let peer_results = match self.next_message("send its results")? {
            ServerControlMessage::Results(document) => {
                TestResults::from_json(&document).map_err(TestError::Failed)?
            }
            other => return Err(unexpected_message_error(&other)),
        };
        self.expect_state(State::DisplayResults, "end the test")?;
        Ok(peer_results.fill_missing_from(local_results))
    }

    /// Sends the final state: the test is finished.
    pub fn send_final_state(&mut self) -> Result<(), TestError> {
        self.is_finished = true;
        self.connection.send_state(State::Done)
    }

    /// Limits all further waits for replies to this time.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = Some(deadline);
    }

    fn next_message(&mut self, action: &str) -> Result<ServerControlMessage, TestError> {
        let remaining = self.deadline.map_or(Duration::MAX, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        let (decoder, messages) = (&mut self.decoder, &mut self.messages);
        self.connection
            .await_message(self.reply_timeout.min(remaining), action, |bytes| {
                messages.extend(decoder.feed(bytes)?);
                Ok(messages.pop_front())
            })
    }

    fn expect_state(&mut self, state: State, action: &str) -> Result<(), TestError> {
        match self.next_message(action)? {
            ServerControlMessage::State(received) if received == state => Ok(()),
            other => Err(unexpected_message_error(&other)),
        }
    }
}

impl Drop for ClientControl {
    fn drop(&mut self) {
        if !self.is_finished {
            // Fails only if the server is gone.
            let _ = self.connection.send_state(State::ClientTerminated);
        }
    }
}

fn generate_cookie() -> Result<Cookie, TestError> {
    let mut cookie = [0; COOKIE_BYTES];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut cookie))
        .map_err(|error| TestError::failed(format!("cannot read /dev/urandom: {error}")))?;
    for byte in &mut cookie {
        *byte = COOKIE_LETTERS[usize::from(*byte) % COOKIE_LETTERS.len()];
    }
    cookie[COOKIE_BYTES - 1] = 0;
    Ok(cookie)
}

fn unexpected_message_error(message: &ServerControlMessage) -> TestError {
    match message {
        ServerControlMessage::Error { code, errno: 0 } => TestError::RefusedByServer(format!(
            "the server refused the test: {}",
            error_message(*code)
        )),
        ServerControlMessage::Error { code, errno } => TestError::RefusedByServer(format!(
            "the server refused the test: {}: {}",
            error_message(*code),
            std::io::Error::from_raw_os_error(*errno)
        )),
        ServerControlMessage::State(State::AccessDenied) => {
            TestError::Busy("the server is busy with another test. Try again later".into())
        }
        ServerControlMessage::State(State::ServerTerminated) => {
            TestError::failed("the server has terminated")
        }
        ServerControlMessage::State(_) | ServerControlMessage::Results(_) => TestError::failed(
            "the server does not speak iperf3's protocol: it sent a message out of turn",
        ),
    }
}
