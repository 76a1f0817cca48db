//! The workload `tcp_rr`: a source asks, a sink answers each request, and the source times the answers.
//!
//! In a closed loop a request follows the answer to the one before. In an open loop requests are due at set times,
//! answered or not, and an answer's latency counts from when its request was due: what a slow answer keeps waiting shows
//! in the latencies too (Tene, "How NOT to measure latency", 2013; the error is called coordinated omission).
//!
//! At its end a source closes its sending half and still takes the answers that come; the sink answers all that it was
//! asked, and only then closes its half.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::net::{Shutdown, shutdown};
use rustix::thread::set_current_timer_slack;
use serde::Deserialize;

use crate::request_response::{ReadOutcome, Requester, Responder};
use crate::send::make_message;
use crate::tcp_driver::StepOutcome;
use vnetbench_streams::threads::{self, StartedThread, ThreadPlan};
use vnetbench_streams::timing::RequestRate;
use vnetbench_streams::{Command, Commands, EndGuard, OnEnd, Role, Stream, StreamEnd};

/// The most that one call receives.
const RECEIVE_BYTES: usize = 64 << 10;

/// How a thread waits for what comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitMode {
    /// The kernel puts it to sleep.
    Block,
    /// It asks again and again.
    Spin,
    /// The kernel asks the interface for a while before it puts it to sleep (SO_BUSY_POLL, socket(7)).
    BusyPoll,
}

/// What is asked and answered.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeOptions {
    pub request_bytes: usize,
    pub response_bytes: usize,
    /// Of each connection; `None`: a closed loop.
    pub rate_per_s: Option<f64>,
    pub wait_mode: WaitMode,
}

impl ExchangeOptions {
    /// When connection number `place` of so many asks.
    pub fn request_rate(&self, place: usize, connections: usize) -> Option<RequestRate> {
        let per_s = self.rate_per_s?;
        Some(RequestRate::staggered(per_s, place, connections))
    }
}

/// Starts the threads; they wait for `Order::Go`. `on_end` is called once for each stream, when it has ended.
pub(crate) fn start(
    streams: &[Arc<Stream>],
    exchange: ExchangeOptions,
    threads: &ThreadPlan,
    orders: &Arc<Commands>,
    on_end: &OnEnd,
) -> io::Result<Vec<StartedThread>> {
    let request = make_message(exchange.request_bytes);
    let response = make_message(exchange.response_bytes);
    threads::start_threads(streams, threads, orders, |own| {
        // Where a call may wait, nothing else is waited for on this thread: no other stream, and no request to be due.
        let blocks = own.len() == 1
            && exchange.wait_mode != WaitMode::Spin
            && (exchange.rate_per_s.is_none() || own[0].role == Role::Sink);
        let mut sessions = Vec::with_capacity(own.len());
        for stream in own {
            stream.socket.set_nonblocking(!blocks)?;
            let talk = match &stream.timing {
                Some(_) => {
                    SessionRole::Requester(Requester::new(&request, exchange.response_bytes))
                }
                None => SessionRole::Responder(Responder::new(&response, exchange.request_bytes)),
            };
            sessions.push(Session {
                stream: Arc::clone(stream),
                role: talk,
                buffer: vec![0; RECEIVE_BYTES],
                blocks,
                _guard: EndGuard::new(stream, on_end),
            });
        }
        let spins = exchange.wait_mode == WaitMode::Spin;
        Ok(move |orders: &Commands| run_sessions(sessions, spins, orders))
    })
}

/// Returns when all sessions have ended.
fn run_sessions(mut sessions: Vec<Session>, spins: bool, orders: &Commands) {
    // Else the kernel may wake this thread 50 µs after a request is due.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let mut polled = Vec::with_capacity(sessions.len());
    while !sessions.is_empty() {
        let mut moved = false;
        sessions.retain_mut(|session| {
            let step = session.advance(orders);
            moved |= step != StepOutcome::WouldBlock;
            step != StepOutcome::Ended
        });
        if !moved && !spins {
            wait_for_any(&sessions, &mut polled, orders);
        }
    }
}

/// Sleeps until a session can move or has a request due. What ends streams shuts their connections down, which wakes it.
fn wait_for_any(sessions: &[Session], polled: &mut Vec<libc::pollfd>, orders: &Commands) {
    polled.clear();
    polled.extend(sessions.iter().map(|session| libc::pollfd {
        fd: session.stream.socket.as_raw_fd(),
        events: session.awaited_events(),
        revents: 0,
    }));
    let due = sessions.iter().filter_map(|s| s.next_due(orders)).min();
    let left = due.map(|due| due.saturating_duration_since(Instant::now()));
    let timeout = left.map(|left| libc::timespec {
        tv_sec: left.as_secs() as libc::time_t,
        tv_nsec: left.subsec_nanos().into(),
    });
    let timeout = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the pointers are to `polled`, of that length, and to a timespec that lives until the call returns (or null:
    // no limit). An error (EINTR) only means that the sessions are asked again.
    unsafe {
        libc::ppoll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            timeout,
            std::ptr::null(),
        )
    };
}

enum SessionRole {
    Requester(Requester),
    Responder(Responder),
}

/// One connection that is being driven; dropping it ends the stream.
struct Session {
    stream: Arc<Stream>,
    role: SessionRole,
    buffer: Vec<u8>,
    /// Receiving waits until something comes. Sending never waits: both sides of a full connection would do so for ever.
    blocks: bool,
    _guard: EndGuard,
}

impl Session {
    fn advance(&mut self, orders: &Commands) -> StepOutcome {
        let outcome = match &mut self.role {
            SessionRole::Requester(asking) => {
                asking.advance(&self.stream, &mut self.buffer, self.blocks, orders)
            }
            SessionRole::Responder(answering) => {
                answering.advance(&self.stream, &mut self.buffer, self.blocks)
            }
        };
        match outcome {
            // A sink whose peer goes on asking would otherwise never come to its end.
            Ok(ReadOutcome::More) if orders.current() == Command::EndAll => {
                self.end(StreamEnd::Cut)
            }
            Ok(ReadOutcome::More) => StepOutcome::Progress,
            Ok(ReadOutcome::Nothing) if orders.current() == Command::EndAll => {
                self.end(StreamEnd::Cut)
            }
            Ok(ReadOutcome::Nothing) => StepOutcome::WouldBlock,
            Ok(ReadOutcome::Closed) => self.end_of_data(orders),
            Err(error) => match (error.raw_os_error(), orders.current()) {
                (Some(libc::EINTR), _) => StepOutcome::Progress,
                (_, Command::EndAll) => self.end(StreamEnd::Cut),
                _ => self.end(StreamEnd::Broken(error)),
            },
        }
    }

    fn end_of_data(&self, orders: &Commands) -> StepOutcome {
        match (orders.current(), self.stream.role) {
            (Command::EndAll, _) => self.end(StreamEnd::Cut),
            (Command::EndSources, Role::Source) => self.end(StreamEnd::Drained),
            (_, Role::Source) => self.end(StreamEnd::Broken(io::ErrorKind::UnexpectedEof.into())),
            (_, Role::Sink) => {
                // Fails only where the source is gone, and then nobody waits for this.
                let _ = shutdown(&self.stream.socket, Shutdown::Write);
                self.end(StreamEnd::Drained)
            }
        }
    }

    fn end(&self, end: StreamEnd) -> StepOutcome {
        self.stream.record_end(end);
        StepOutcome::Ended
    }

    /// Also where nothing shall be received now (a sink that cannot answer takes no further request) the end of the
    /// connection wakes.
    fn awaited_events(&self) -> libc::c_short {
        match &self.role {
            SessionRole::Requester(asking) if asking.is_sending() => libc::POLLIN | libc::POLLOUT,
            SessionRole::Responder(answering) if answering.is_sending() => {
                libc::POLLOUT | libc::POLLRDHUP
            }
            _ => libc::POLLIN,
        }
    }

    fn next_due(&self, orders: &Commands) -> Option<Instant> {
        match &self.role {
            SessionRole::Requester(asking) => asking.next_due(self.stream.timing.as_ref()?, orders),
            SessionRole::Responder(_) => None,
        }
    }
}
