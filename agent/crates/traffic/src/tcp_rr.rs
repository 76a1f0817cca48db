//! The workload `tcp_rr`: a source sends requests, a sink responds to each, and the source times the responses.
//!
//! In a closed loop, each request follows the previous response. In an open loop, requests are due at fixed times, and
//! the latency of a response counts from the due time of its request. The latencies therefore include the delay of
//! requests behind a slow response. Without it, they suffer from coordinated omission (Tene, "How NOT to measure
//! latency", 2013).
//!
//! At the end, a source closes its sending half and receives the remaining responses. The sink responds to all received
//! requests before it closes its half.

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

/// Maximum bytes that one call receives.
const MAX_RECEIVE_BYTES: usize = 64 << 10;

/// How a thread waits for data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitMode {
    /// The thread sleeps in the kernel.
    Block,
    /// The thread polls the socket continuously.
    Spin,
    /// The kernel polls the interface before the thread sleeps (SO_BUSY_POLL, socket(7)).
    BusyPoll,
}

/// The options of requests and responses.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeOptions {
    /// Size of a request.
    pub request_bytes: usize,
    /// Size of a response.
    pub response_bytes: usize,
    /// Requests per second of each connection; `None` for a closed loop.
    pub rate_per_s: Option<f64>,
    /// How threads wait for data.
    pub wait_mode: WaitMode,
}

impl ExchangeOptions {
    /// Returns the request rate of the connection at `index`, staggered against the others; `None` in a closed loop.
    pub fn staggered_request_rate(&self, index: usize, connections: usize) -> Option<RequestRate> {
        let per_s = self.rate_per_s?;
        Some(RequestRate::staggered(per_s, index, connections))
    }
}

/// Starts the threads, which wait for `Command::Go`. Each stream calls `on_end` once, at its end.
///
/// # Errors
///
/// The system refuses a thread, its CPUs or a socket option.
pub(crate) fn start(
    streams: &[Arc<Stream>],
    options: ExchangeOptions,
    threads: &ThreadPlan,
    commands: &Arc<Commands>,
    on_end: &OnEnd,
) -> io::Result<Vec<StartedThread>> {
    let request = make_message(options.request_bytes);
    let response = make_message(options.response_bytes);
    threads::start_threads(streams, threads, commands, |thread_streams| {
        // A call may block only if its thread waits for nothing else: no other stream, and no due request.
        let is_blocking = thread_streams.len() == 1
            && options.wait_mode != WaitMode::Spin
            && (options.rate_per_s.is_none() || thread_streams[0].role == Role::Sink);
        let mut sessions = Vec::with_capacity(thread_streams.len());
        for stream in thread_streams {
            stream.socket.set_nonblocking(!is_blocking)?;
            let role = match &stream.timing {
                Some(_) => SessionRole::Requester(Requester::new(&request, options.response_bytes)),
                None => SessionRole::Responder(Responder::new(&response, options.request_bytes)),
            };
            sessions.push(ExchangeSession {
                stream: Arc::clone(stream),
                role,
                buffer: vec![0; MAX_RECEIVE_BYTES],
                is_blocking,
                _guard: EndGuard::new(stream, on_end),
            });
        }
        let is_spinning = options.wait_mode == WaitMode::Spin;
        Ok(move |commands: &Commands| run_sessions(sessions, is_spinning, commands))
    })
}

/// Drives the sessions until all have ended; `is_spinning` to poll continuously.
fn run_sessions(mut sessions: Vec<ExchangeSession>, is_spinning: bool, commands: &Commands) {
    // Otherwise, the kernel may wake this thread 50 µs after a request is due.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let mut polled = Vec::with_capacity(sessions.len());
    while !sessions.is_empty() {
        let mut has_progress = false;
        sessions.retain_mut(|session| {
            let outcome = session.advance(commands);
            has_progress |= outcome != StepOutcome::WouldBlock;
            outcome != StepOutcome::Ended
        });
        if !has_progress && !is_spinning {
            wait_for_any_session(&sessions, &mut polled, commands);
        }
    }
}

/// Sleeps until a session can advance or has a due request.
///
/// The end of the load shuts the connections down, which wakes the thread.
fn wait_for_any_session(
    sessions: &[ExchangeSession],
    polled: &mut Vec<libc::pollfd>,
    commands: &Commands,
) {
    polled.clear();
    polled.extend(sessions.iter().map(|session| libc::pollfd {
        fd: session.stream.socket.as_raw_fd(),
        events: session.awaited_events(),
        revents: 0,
    }));
    let due = sessions
        .iter()
        .filter_map(|session| session.next_due(commands))
        .min();
    let remaining = due.map(|due| due.saturating_duration_since(Instant::now()));
    let timeout = remaining.map(|remaining| libc::timespec {
        tv_sec: remaining.as_secs() as libc::time_t,
        tv_nsec: remaining.subsec_nanos().into(),
    });
    let timeout = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the pointers refer to `polled`, with its length, and to a timespec that outlives the call, or null for no
    // timeout. After an error (EINTR), the caller only checks the sessions again.
    unsafe {
        libc::ppoll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            timeout,
            std::ptr::null(),
        )
    };
}

/// The role of a session on its connection.
enum SessionRole {
    Requester(Requester),
    Responder(Responder),
}

/// A running connection; dropping it ends the stream.
struct ExchangeSession {
    stream: Arc<Stream>,
    role: SessionRole,
    buffer: Vec<u8>,
    /// Whether receiving waits for data. Sending never waits: on a full connection, both endpoints would wait forever.
    is_blocking: bool,
    _guard: EndGuard,
}

impl ExchangeSession {
    /// Advances the session once.
    fn advance(&mut self, commands: &Commands) -> StepOutcome {
        let outcome = match &mut self.role {
            SessionRole::Requester(requester) => {
                requester.advance(&self.stream, &mut self.buffer, self.is_blocking, commands)
            }
            SessionRole::Responder(responder) => {
                responder.advance(&self.stream, &mut self.buffer, self.is_blocking)
            }
        };
        match outcome {
            // A sink whose peer continues to send requests would never end otherwise.
            Ok(ReadOutcome::More) if commands.current() == Command::EndAll => {
                self.record_end(StreamEnd::Cut)
            }
            Ok(ReadOutcome::More) => StepOutcome::Progress,
            Ok(ReadOutcome::Nothing) if commands.current() == Command::EndAll => {
                self.record_end(StreamEnd::Cut)
            }
            Ok(ReadOutcome::Nothing) => StepOutcome::WouldBlock,
            Ok(ReadOutcome::Closed) => self.handle_end_of_data(commands),
            Err(error) => match (error.raw_os_error(), commands.current()) {
                (Some(libc::EINTR), _) => StepOutcome::Progress,
                (_, Command::EndAll) => self.record_end(StreamEnd::Cut),
                _ => self.record_end(StreamEnd::Broken(error)),
            },
        }
    }

    /// Ends the stream after the last byte.
    fn handle_end_of_data(&self, commands: &Commands) -> StepOutcome {
        match (commands.current(), self.stream.role) {
            (Command::EndAll, _) => self.record_end(StreamEnd::Cut),
            (Command::EndSources, Role::Source) => self.record_end(StreamEnd::Drained),
            (_, Role::Source) => {
                self.record_end(StreamEnd::Broken(io::ErrorKind::UnexpectedEof.into()))
            }
            (_, Role::Sink) => {
                // Fails only if the source is gone, which then does not wait for it.
                let _ = shutdown(&self.stream.socket, Shutdown::Write);
                self.record_end(StreamEnd::Drained)
            }
        }
    }

    /// Records the end of the stream.
    fn record_end(&self, end: StreamEnd) -> StepOutcome {
        self.stream.record_end(end);
        StepOutcome::Ended
    }

    /// Returns the events that can advance the session.
    ///
    /// They always include the end of the connection, even if a sink that cannot send reads no further requests.
    fn awaited_events(&self) -> libc::c_short {
        match &self.role {
            SessionRole::Requester(requester) if requester.has_unsent_bytes() => {
                libc::POLLIN | libc::POLLOUT
            }
            SessionRole::Responder(responder) if responder.has_unsent_bytes() => {
                libc::POLLOUT | libc::POLLRDHUP
            }
            _ => libc::POLLIN,
        }
    }

    /// Returns when the next request is due, if the session is a requester in an open loop.
    fn next_due(&self, commands: &Commands) -> Option<Instant> {
        match &self.role {
            SessionRole::Requester(requester) => {
                requester.next_due(self.stream.timing.as_ref()?, commands)
            }
            SessionRole::Responder(_) => None,
        }
    }
}
