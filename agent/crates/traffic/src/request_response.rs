//! The two roles of requests on one connection: the requester, which times responses, and the responder.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use rustix::net::{RecvFlags, SendFlags};

use vnetbench_streams::timing::RequestTiming;
use vnetbench_streams::{Command, Commands, Stream};

/// The outcome of reading from the connection.
pub(crate) enum ReadOutcome {
    /// Data arrived.
    More,
    /// No data is available, or the connection takes no more responses.
    Nothing,
    /// The other endpoint closed its half.
    Closed,
}

/// Counts whole messages in a stream of bytes.
struct MessageCounter {
    message_bytes: usize,
    /// Bytes of an incomplete message.
    partial_bytes: usize,
}

impl MessageCounter {
    /// Adds received bytes and returns the number of messages that they complete.
    fn count_messages_completed_by(&mut self, received_bytes: usize) -> u64 {
        self.partial_bytes += received_bytes;
        let completed = self.partial_bytes / self.message_bytes;
        self.partial_bytes %= self.message_bytes;
        completed as u64
    }
}

/// Receives bytes; returns `None` if none are available.
fn receive_available(
    stream: &Stream,
    buffer: &mut [u8],
    is_blocking: bool,
) -> io::Result<Option<usize>> {
    let flags = if is_blocking {
        RecvFlags::empty()
    } else {
        RecvFlags::DONTWAIT
    };
    match rustix::net::recv(&stream.socket, buffer, flags) {
        Ok((count, _)) => {
            stream.counters.received.add(count);
            Ok(Some(count))
        }
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sends bytes without waiting; returns how many the kernel accepted.
fn send_available(stream: &Stream, bytes: &[u8]) -> io::Result<usize> {
    match rustix::net::send(
        &stream.socket,
        bytes,
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    ) {
        Ok(count) => {
            stream.counters.sent.add(count);
            Ok(count)
        }
        Err(rustix::io::Errno::AGAIN) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Sends requests and times their responses.
pub(crate) struct Requester {
    request: Arc<[u8]>,
    /// Number of started requests.
    request_count: u64,
    /// Bytes of the last request that the kernel has not accepted yet.
    unsent_bytes: usize,
    /// Start of the last request.
    requested_at: Instant,
    responses: MessageCounter,
    /// Number of received responses.
    response_count: u64,
}

impl Requester {
    /// Creates a requester that sends `request` and expects responses of `response_bytes`.
    pub fn new(request: &Arc<[u8]>, response_bytes: usize) -> Self {
        Self {
            request: Arc::clone(request),
            request_count: 0,
            unsent_bytes: 0,
            requested_at: Instant::now(),
            responses: MessageCounter {
                message_bytes: response_bytes,
                partial_bytes: 0,
            },
            response_count: 0,
        }
    }

    /// Sends due requests and receives responses once.
    pub fn advance(
        &mut self,
        stream: &Stream,
        buffer: &mut [u8],
        is_blocking: bool,
        commands: &Commands,
    ) -> io::Result<ReadOutcome> {
        let timing = stream
            .timing
            .as_ref()
            .expect("every source stream has a timing");
        match self.send_due_requests(stream, timing, commands) {
            // The end of the load closed the sending half during the call.
            Err(error)
                if error.raw_os_error() == Some(libc::EPIPE)
                    && commands.current() == Command::EndSources =>
            {
                self.unsent_bytes = 0;
            }
            result => result?,
        }
        match receive_available(stream, buffer, is_blocking && self.unsent_bytes == 0)? {
            None => Ok(ReadOutcome::Nothing),
            Some(0) => Ok(ReadOutcome::Closed),
            Some(count) => {
                let now = Instant::now();
                let response_count =
                    self.response_count + self.responses.count_messages_completed_by(count);
                if response_count > self.request_count {
                    return Err(io::Error::other("received a response without a request"));
                }
                for number in self.response_count..response_count {
                    let start = match &timing.pacing {
                        Some(pacing) => pacing.schedule.due_at(number),
                        None => self.requested_at,
                    };
                    timing.latency.record(now.saturating_duration_since(start));
                }
                self.response_count = response_count;
                Ok(ReadOutcome::More)
            }
        }
    }

    /// Returns whether a request is partly sent.
    pub fn has_unsent_bytes(&self) -> bool {
        self.unsent_bytes > 0
    }

    /// Returns when the next request is due; `None` in a closed loop, or if no request can start.
    pub fn next_due(&self, timing: &RequestTiming, commands: &Commands) -> Option<Instant> {
        let pacing = timing.pacing.as_ref()?;
        (self.unsent_bytes == 0 && commands.current() == Command::Go)
            .then(|| pacing.schedule.due_at(self.request_count))
    }

    /// Sends the requests that are due.
    fn send_due_requests(
        &mut self,
        stream: &Stream,
        timing: &RequestTiming,
        commands: &Commands,
    ) -> io::Result<()> {
        loop {
            if self.unsent_bytes == 0 && !self.start_due_request(timing, commands) {
                return Ok(());
            }
            let count = send_available(
                stream,
                &self.request[self.request.len() - self.unsent_bytes..],
            )?;
            if count == 0 {
                return Ok(());
            }
            self.unsent_bytes -= count;
        }
    }

    /// Starts the next request if it is due; returns whether it did.
    fn start_due_request(&mut self, timing: &RequestTiming, commands: &Commands) -> bool {
        if commands.current() != Command::Go {
            return false;
        }
        match &timing.pacing {
            None if self.request_count > self.response_count => return false,
            None => self.requested_at = Instant::now(),
            Some(pacing) => {
                let due = pacing.schedule.due_at(self.request_count);
                let Some(lateness) = Instant::now().checked_duration_since(due) else {
                    return false;
                };
                pacing.lateness.record(lateness);
            }
        }
        self.request_count += 1;
        timing.count_sent_request();
        self.unsent_bytes = self.request.len();
        true
    }
}

/// Answers requests.
pub(crate) struct Responder {
    response: Arc<[u8]>,
    requests: MessageCounter,
    /// Responses that the kernel has not fully accepted yet.
    unsent_responses: u64,
    /// Bytes of the first of them that are sent already.
    sent_bytes: usize,
}

impl Responder {
    /// Creates a responder that expects requests of `request_bytes` and sends `response`.
    pub fn new(response: &Arc<[u8]>, request_bytes: usize) -> Self {
        Self {
            response: Arc::clone(response),
            requests: MessageCounter {
                message_bytes: request_bytes,
                partial_bytes: 0,
            },
            unsent_responses: 0,
            sent_bytes: 0,
        }
    }

    /// Returns whether responses wait to be sent.
    pub fn has_unsent_bytes(&self) -> bool {
        self.unsent_responses > 0
    }

    /// Receives requests once and sends their responses.
    pub fn advance(
        &mut self,
        stream: &Stream,
        buffer: &mut [u8],
        is_blocking: bool,
    ) -> io::Result<ReadOutcome> {
        if self.unsent_responses == 0 {
            match receive_available(stream, buffer, is_blocking)? {
                None => return Ok(ReadOutcome::Nothing),
                Some(0) => return Ok(ReadOutcome::Closed),
                Some(count) => {
                    self.unsent_responses = self.requests.count_messages_completed_by(count)
                }
            }
        }
        while self.unsent_responses > 0 {
            let count = send_available(stream, &self.response[self.sent_bytes..])?;
            if count == 0 {
                return Ok(ReadOutcome::Nothing);
            }
            self.sent_bytes += count;
            if self.sent_bytes == self.response.len() {
                self.sent_bytes = 0;
                self.unsent_responses -= 1;
            }
        }
        Ok(ReadOutcome::More)
    }
}
