//! The two sides of requests on one connection: asking and timing the answers, and answering.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use rustix::net::{RecvFlags, SendFlags};

use vnetbench_streams::timing::RequestTiming;
use vnetbench_streams::{Command, Commands, Stream};

/// What a step came to.
pub(crate) enum ReadOutcome {
    More,
    Nothing,
    Closed,
}

/// Counts whole messages in a stream of bytes.
struct MessageCounter {
    bytes: usize,
    part: usize,
}

impl MessageCounter {
    /// How many messages so many further bytes complete.
    fn count_completed(&mut self, count: usize) -> u64 {
        self.part += count;
        let completed = self.part / self.bytes;
        self.part %= self.bytes;
        completed as u64
    }
}

fn receive(stream: &Stream, buffer: &mut [u8], waits: bool) -> io::Result<Option<usize>> {
    let flags = if waits {
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

/// How much the kernel took of it, which may be nothing.
fn send(stream: &Stream, bytes: &[u8]) -> io::Result<usize> {
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

/// The side that asks, and times the answers.
pub(crate) struct Requester {
    request: Arc<[u8]>,
    requests: u64,
    /// Bytes of the last request that the kernel has not taken yet.
    unsent: usize,
    /// When the last request was begun.
    requested_at: Instant,
    answers: MessageCounter,
    answered: u64,
}

impl Requester {
    pub fn new(request: &Arc<[u8]>, response_bytes: usize) -> Self {
        Self {
            request: Arc::clone(request),
            requests: 0,
            unsent: 0,
            requested_at: Instant::now(),
            answers: MessageCounter {
                bytes: response_bytes,
                part: 0,
            },
            answered: 0,
        }
    }

    pub fn advance(
        &mut self,
        stream: &Stream,
        buffer: &mut [u8],
        blocks: bool,
        orders: &Commands,
    ) -> io::Result<ReadOutcome> {
        let timing = stream.timing.as_ref().expect("a source times its answers");
        match self.send_request(stream, timing, orders) {
            // The order to end came and closed the sending half under the call.
            Err(error)
                if error.raw_os_error() == Some(libc::EPIPE)
                    && orders.current() == Command::EndSources =>
            {
                self.unsent = 0;
            }
            request => request?,
        }
        match receive(stream, buffer, blocks && self.unsent == 0)? {
            None => Ok(ReadOutcome::Nothing),
            Some(0) => Ok(ReadOutcome::Closed),
            Some(count) => {
                let now = Instant::now();
                let answered = self.answered + self.answers.count_completed(count);
                if answered > self.requests {
                    return Err(io::Error::other("an answer came that nobody had asked for"));
                }
                for number in self.answered..answered {
                    let from = match &timing.pacing {
                        Some(pacing) => pacing.schedule.due_at(number),
                        None => self.requested_at,
                    };
                    timing.latency.record(now.saturating_duration_since(from));
                }
                self.answered = answered;
                Ok(ReadOutcome::More)
            }
        }
    }

    /// Whether a request waits for the kernel to take the rest of it.
    pub fn is_sending(&self) -> bool {
        self.unsent > 0
    }

    /// When the next request is due; `None` in a closed loop, and where none may be begun.
    pub fn next_due(&self, timing: &RequestTiming, orders: &Commands) -> Option<Instant> {
        let pacing = timing.pacing.as_ref()?;
        (self.unsent == 0 && orders.current() == Command::Go)
            .then(|| pacing.schedule.due_at(self.requests))
    }

    /// Sends what there is to ask now.
    fn send_request(
        &mut self,
        stream: &Stream,
        timing: &RequestTiming,
        orders: &Commands,
    ) -> io::Result<()> {
        loop {
            if self.unsent == 0 && !self.begin(timing, orders) {
                return Ok(());
            }
            let count = send(stream, &self.request[self.request.len() - self.unsent..])?;
            if count == 0 {
                return Ok(());
            }
            self.unsent -= count;
        }
    }

    /// Whether there is another request to make now.
    fn begin(&mut self, timing: &RequestTiming, orders: &Commands) -> bool {
        if orders.current() != Command::Go {
            return false;
        }
        match &timing.pacing {
            None if self.requests > self.answered => return false,
            None => self.requested_at = Instant::now(),
            Some(pacing) => {
                let due = pacing.schedule.due_at(self.requests);
                let Some(late) = Instant::now().checked_duration_since(due) else {
                    return false;
                };
                pacing.lateness.record(late);
            }
        }
        self.requests += 1;
        timing.count_request();
        self.unsent = self.request.len();
        true
    }
}

/// The side that answers.
pub(crate) struct Responder {
    response: Arc<[u8]>,
    requests: MessageCounter,
    /// Answers that the kernel has not taken whole yet, and bytes of the first of them that it has.
    unsent_responses: u64,
    sent: usize,
}

impl Responder {
    pub fn new(response: &Arc<[u8]>, request_bytes: usize) -> Self {
        Self {
            response: Arc::clone(response),
            requests: MessageCounter {
                bytes: request_bytes,
                part: 0,
            },
            unsent_responses: 0,
            sent: 0,
        }
    }

    /// Whether an answer waits for the kernel to take the rest of it.
    pub fn is_sending(&self) -> bool {
        self.unsent_responses > 0
    }

    pub fn advance(
        &mut self,
        stream: &Stream,
        buffer: &mut [u8],
        blocks: bool,
    ) -> io::Result<ReadOutcome> {
        if self.unsent_responses == 0 {
            match receive(stream, buffer, blocks)? {
                None => return Ok(ReadOutcome::Nothing),
                Some(0) => return Ok(ReadOutcome::Closed),
                Some(count) => self.unsent_responses = self.requests.count_completed(count),
            }
        }
        while self.unsent_responses > 0 {
            let count = send(stream, &self.response[self.sent..])?;
            if count == 0 {
                return Ok(ReadOutcome::Nothing);
            }
            self.sent += count;
            if self.sent == self.response.len() {
                self.sent = 0;
                self.unsent_responses -= 1;
            }
        }
        Ok(ReadOutcome::More)
    }
}
