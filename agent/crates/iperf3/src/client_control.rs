//! The client's side of the control connection: what it says to a server, and the answers in their turn.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::control_connection::Control;
use crate::parameters::Parameters;
use crate::results::Results;
use crate::sockets::connect;
use crate::states::{Failure, State, words_for};
use crate::wire::{COOKIE_BYTES, ClientEar, Cookie, FromServer, framed};
use vnetbench_system::waiting::Waker;

const COOKIE_LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// One test's conversation with a server. Dropped before the test is over, it tells the server so.
pub struct Conversation {
    /// Shared with whoever may have to end the test.
    pub control: Arc<Control>,
    pub cookie: Cookie,
    /// For each answer of the server.
    patience: Duration,
    /// For all of them together.
    until: Option<Instant>,
    ear: ClientEar,
    heard: VecDeque<FromServer>,
    is_over: bool,
}

impl Conversation {
    /// Connects to the server, within the time; nothing is said yet.
    pub fn open(
        to: SocketAddr,
        from: Option<IpAddr>,
        connect_timeout: Duration,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let socket = connect(to, from, connect_timeout, |_| Ok(()))?;
        // A client is ended by its load, never in the midst of what it says.
        let control = Waker::new().and_then(|quiet| Control::new(socket, Arc::new(quiet)));
        Ok(Self {
            control: control
                .map(Arc::new)
                .map_err(|error| Failure::broken(format!("{to}: {error}")))?,
            cookie: new_cookie()?,
            patience,
            until: None,
            ear: ClientEar::new(),
            heard: VecDeque::new(),
            is_over: false,
        })
    }

    /// Tells the server what is asked; it then waits for the streams.
    pub fn agree(&mut self, asked: &Parameters) -> Result<(), Failure> {
        self.control
            .send(&self.cookie)
            .and_then(|()| self.expect(State::ParameterExchange, "answer"))
            .map_err(|failure| match failure {
                // A stock server does not listen for a moment after each test, and drops who comes then.
                Failure::Lost(words) => Failure::Unreachable(words),
                other => other,
            })?;
        self.control.send(&framed(&asked.to_json()))?;
        self.expect(State::CreateStreams, "take the parameters")
    }

    /// Says whose a stream is.
    pub fn show_cookie(&self, stream: &Socket) -> Result<(), Failure> {
        // All of it: a new connection's buffer is empty, and no smaller than this.
        stream
            .send(&self.cookie)
            .map(drop)
            .map_err(|error| Failure::broken(format!("a stream cannot be opened: {error}")))
    }

    /// Waits until the server has all streams and begins.
    pub fn expect_begin(&mut self) -> Result<(), Failure> {
        self.expect(State::TestStart, "take the streams")?;
        self.expect(State::TestRunning, "start the test")
    }

    /// While the test runs the server says nothing: whatever it says is why it came to nothing.
    pub fn hear(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self.ear.hear(bytes)?.into_iter().next() {
            None => Ok(()),
            Some(said) => Err(failure_of(&said)),
        }
    }

    /// Has the server end its part of the load.
    pub fn end_load(&mut self) -> Result<(), Failure> {
        self.control.say(State::TestEnd)?;
        self.expect(State::ExchangeResults, "end the test")
    }

    /// Exchanges results; both sides have then all that they need of each other.
    pub fn exchange_results(
        &mut self,
        own: &Results,
        retransmits_known: i32,
    ) -> Result<Results, Failure> {
        self.control
            .send(&framed(&own.to_json(retransmits_known)))?;
        let theirs = match self.next("send its results")? {
            FromServer::Results(document) => {
                Results::from_json(&document).map_err(Failure::Broken)?
            }
            other => return Err(failure_of(&other)),
        };
        self.expect(State::DisplayResults, "end the test")?;
        Ok(theirs.completed_by(own))
    }

    pub fn be_done(&mut self) -> Result<(), Failure> {
        self.is_over = true;
        self.control.say(State::Done)
    }

    /// From here on no answer is waited for longer than until then.
    pub fn be_over_by(&mut self, until: Instant) {
        self.until = Some(until);
    }

    fn next(&mut self, what: &str) -> Result<FromServer, Failure> {
        let left = self.until.map_or(Duration::MAX, |until| {
            until.saturating_duration_since(Instant::now())
        });
        let (ear, heard) = (&mut self.ear, &mut self.heard);
        self.control
            .await_message(self.patience.min(left), what, |bytes| {
                heard.extend(ear.hear(bytes)?);
                Ok(heard.pop_front())
            })
    }

    fn expect(&mut self, state: State, what: &str) -> Result<(), Failure> {
        match self.next(what)? {
            FromServer::State(said) if said == state => Ok(()),
            other => Err(failure_of(&other)),
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        if !self.is_over {
            // It may be gone, and then needs not be told.
            let _ = self.control.say(State::ClientTerminated);
        }
    }
}

fn new_cookie() -> Result<Cookie, Failure> {
    let mut cookie = [0; COOKIE_BYTES];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut cookie))
        .map_err(|error| Failure::broken(format!("no random numbers can be had: {error}")))?;
    for byte in &mut cookie {
        *byte = COOKIE_LETTERS[usize::from(*byte) % COOKIE_LETTERS.len()];
    }
    cookie[COOKIE_BYTES - 1] = 0;
    Ok(cookie)
}

fn failure_of(said: &FromServer) -> Failure {
    match said {
        FromServer::Error { number, errno: 0 } => Failure::TurnedDown(format!(
            "the server refused the test: {}",
            words_for(*number)
        )),
        FromServer::Error { number, errno } => Failure::TurnedDown(format!(
            "the server refused the test: {}: {}",
            words_for(*number),
            std::io::Error::from_raw_os_error(*errno)
        )),
        FromServer::State(State::AccessDenied) => {
            Failure::Busy("the server is busy running a test; try again later".into())
        }
        FromServer::State(State::ServerTerminated) => Failure::broken("the server has terminated"),
        FromServer::State(_) | FromServer::Results(_) => Failure::broken(
            "the server does not speak iperf3's protocol as far as it is known here: it spoke out of turn",
        ),
    }
}
