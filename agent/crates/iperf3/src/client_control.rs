//! The client's side of the control connection: what it says to a server, and the answers in their turn.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::control_connection::ControlConnection;
use crate::parameters::TestParameters;
use crate::results::TestResults;
use crate::sockets::connect_tcp;
use crate::states::{State, TestError, error_message};
use crate::wire::{COOKIE_BYTES, Cookie, ServerMessage, ServerMessageDecoder, encode_document};
use vnetbench_system::waiting::Waker;

const COOKIE_LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// One test's conversation with a server. Dropped before the test is over, it tells the server so.
pub struct ClientControl {
    /// Shared with whoever may have to end the test.
    pub connection: Arc<ControlConnection>,
    pub cookie: Cookie,
    /// For each answer of the server.
    reply_timeout: Duration,
    /// For all of them together.
    deadline: Option<Instant>,
    decoder: ServerMessageDecoder,
    messages: VecDeque<ServerMessage>,
    is_finished: bool,
}

impl ClientControl {
    /// Connects to the server, within the time; nothing is said yet.
    pub fn connect(
        to: SocketAddr,
        from: Option<IpAddr>,
        connect_timeout: Duration,
        reply_timeout: Duration,
    ) -> Result<Self, TestError> {
        let socket = connect_tcp(to, from, connect_timeout, |_| Ok(()))?;
        // A client is ended by its load, never in the midst of what it says.
        let control =
            Waker::new().and_then(|waker| ControlConnection::new(socket, Arc::new(waker)));
        Ok(Self {
            connection: control
                .map(Arc::new)
                .map_err(|error| TestError::failed(format!("{to}: {error}")))?,
            cookie: generate_cookie()?,
            reply_timeout: reply_timeout,
            deadline: None,
            decoder: ServerMessageDecoder::new(),
            messages: VecDeque::new(),
            is_finished: false,
        })
    }

    /// Tells the server what is asked; it then waits for the streams.
    pub fn send_parameters(&mut self, parameters: &TestParameters) -> Result<(), TestError> {
        self.connection
            .send(&self.cookie)
            .and_then(|()| self.expect_state(State::ParameterExchange, "answer"))
            .map_err(|failure| match failure {
                // A stock server does not listen for a moment after each test, and drops who comes then.
                TestError::ConnectionLost(message) => TestError::Unreachable(message),
                other => other,
            })?;
        self.connection
            .send(&encode_document(&parameters.to_json()))?;
        self.expect_state(State::CreateStreams, "take the parameters")
    }

    /// Says whose a stream is.
    pub fn send_cookie(&self, stream: &Socket) -> Result<(), TestError> {
        // All of it: a new connection's buffer is empty, and no smaller than this.
        stream
            .send(&self.cookie)
            .map(drop)
            .map_err(|error| TestError::failed(format!("a stream cannot be opened: {error}")))
    }

    /// Waits until the server has all streams and begins.
    pub fn await_start(&mut self) -> Result<(), TestError> {
        self.expect_state(State::TestStart, "take the streams")?;
        self.expect_state(State::TestRunning, "start the test")
    }

    /// While the test runs the server says nothing: whatever it says is why it came to nothing.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), TestError> {
        match self.decoder.feed(bytes)?.into_iter().next() {
            None => Ok(()),
            Some(message) => Err(unexpected_message(&message)),
        }
    }

    /// Has the server end its part of the load.
    pub fn end_test(&mut self) -> Result<(), TestError> {
        self.connection.send_state(State::TestEnd)?;
        self.expect_state(State::ExchangeResults, "end the test")
    }

    /// Exchanges results; both sides have then all that they need of each other.
    pub fn exchange_results(
        &mut self,
        local_results: &TestResults,
        retransmits_known: i32,
    ) -> Result<TestResults, TestError> {
        self.connection
            .send(&encode_document(&local_results.to_json(retransmits_known)))?;
        let peer_results = match self.next_message("send its results")? {
            ServerMessage::Results(document) => {
                TestResults::from_json(&document).map_err(TestError::Failed)?
            }
            other => return Err(unexpected_message(&other)),
        };
        self.expect_state(State::DisplayResults, "end the test")?;
        Ok(peer_results.fill_missing_from(local_results))
    }

    pub fn finish(&mut self) -> Result<(), TestError> {
        self.is_finished = true;
        self.connection.send_state(State::Done)
    }

    /// From here on no answer is waited for longer than until then.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = Some(deadline);
    }

    fn next_message(&mut self, action: &str) -> Result<ServerMessage, TestError> {
        let left = self.deadline.map_or(Duration::MAX, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        let (decoder, messages) = (&mut self.decoder, &mut self.messages);
        self.connection
            .await_message(self.reply_timeout.min(left), action, |bytes| {
                messages.extend(decoder.feed(bytes)?);
                Ok(messages.pop_front())
            })
    }

    fn expect_state(&mut self, state: State, action: &str) -> Result<(), TestError> {
        match self.next_message(action)? {
            ServerMessage::State(message) if message == state => Ok(()),
            other => Err(unexpected_message(&other)),
        }
    }
}

impl Drop for ClientControl {
    fn drop(&mut self) {
        if !self.is_finished {
            // It may be gone, and then needs not be told.
            let _ = self.connection.send_state(State::ClientTerminated);
        }
    }
}

fn generate_cookie() -> Result<Cookie, TestError> {
    let mut cookie = [0; COOKIE_BYTES];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut cookie))
        .map_err(|error| TestError::failed(format!("no random numbers can be had: {error}")))?;
    for byte in &mut cookie {
        *byte = COOKIE_LETTERS[usize::from(*byte) % COOKIE_LETTERS.len()];
    }
    cookie[COOKIE_BYTES - 1] = 0;
    Ok(cookie)
}

fn unexpected_message(message: &ServerMessage) -> TestError {
    match message {
        ServerMessage::Error { number, errno: 0 } => TestError::RefusedByServer(format!(
            "the server refused the test: {}",
            error_message(*number)
        )),
        ServerMessage::Error { number, errno } => TestError::RefusedByServer(format!(
            "the server refused the test: {}: {}",
            error_message(*number),
            std::io::Error::from_raw_os_error(*errno)
        )),
        ServerMessage::State(State::AccessDenied) => {
            TestError::Busy("the server is busy running a test; try again later".into())
        }
        ServerMessage::State(State::ServerTerminated) => {
            TestError::failed("the server has terminated")
        }
        ServerMessage::State(_) | ServerMessage::Results(_) => TestError::failed(
            "the server does not speak iperf3's protocol as far as it is known here: it spoke out of turn",
        ),
    }
}
