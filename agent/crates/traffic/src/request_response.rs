//! The two sides of requests on one connection: asking and timing the answers, and answering.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use rustix::net::{RecvFlags, SendFlags};

use vnetbench_streams::timing::Timing;
use vnetbench_streams::{Order, Orders, Stream};

/// What a step came to.
pub(crate) enum Heard {
    More,
    Nothing,
    End,
}

/// Counts whole messages in a stream of bytes.
struct Messages {
    bytes: usize,
    part: usize,
}

impl Messages {
    /// How many messages so many further bytes complete.
    fn completed_by(&mut self, count: usize) -> u64 {
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
            stream.tally.received.add(count);
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
            stream.tally.sent.add(count);
            Ok(count)
        }
        Err(rustix::io::Errno::AGAIN) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// The side that asks, and times the answers.
pub(crate) struct Asking {
    request: Arc<[u8]>,
    asked: u64,
    /// Bytes of the last request that the kernel has not taken yet.
    unsent: usize,
    /// When the last request was begun.
    asked_at: Instant,
    answers: Messages,
    answered: u64,
}

impl Asking {
    pub fn new(request: &Arc<[u8]>, response_bytes: usize) -> Self {
        Self {
            request: Arc::clone(request),
            asked: 0,
            unsent: 0,
            asked_at: Instant::now(),
            answers: Messages {
                bytes: response_bytes,
                part: 0,
            },
            answered: 0,
        }
    }

    pub fn step(
        &mut self,
        stream: &Stream,
        buffer: &mut [u8],
        blocks: bool,
        orders: &Orders,
    ) -> io::Result<Heard> {
        let timing = stream.timing.as_ref().expect("a source times its answers");
        match self.ask(stream, timing, orders) {
            // The order to end came and closed the sending half under the call.
            Err(error)
                if error.raw_os_error() == Some(libc::EPIPE)
                    && orders.current() == Order::EndSources =>
            {
                self.unsent = 0;
            }
            asked => asked?,
        }
        match receive(stream, buffer, blocks && self.unsent == 0)? {
            None => Ok(Heard::Nothing),
            Some(0) => Ok(Heard::End),
            Some(count) => {
                let now = Instant::now();
                let answered = self.answered + self.answers.completed_by(count);
                if answered > self.asked {
                    return Err(io::Error::other("an answer came that nobody had asked for"));
                }
                for number in self.answered..answered {
                    let from = match &timing.pacing {
                        Some(pacing) => pacing.schedule.due(number),
                        None => self.asked_at,
                    };
                    timing.latency.record(now.saturating_duration_since(from));
                }
                self.answered = answered;
                Ok(Heard::More)
            }
        }
    }

    /// Whether a request waits for the kernel to take the rest of it.
    pub fn is_sending(&self) -> bool {
        self.unsent > 0
    }

    /// When the next request is due; `None` in a closed loop, and where none may be begun.
    pub fn next_due(&self, timing: &Timing, orders: &Orders) -> Option<Instant> {
        let pacing = timing.pacing.as_ref()?;
        (self.unsent == 0 && orders.current() == Order::Go).then(|| pacing.schedule.due(self.asked))
    }

    /// Sends what there is to ask now.
    fn ask(&mut self, stream: &Stream, timing: &Timing, orders: &Orders) -> io::Result<()> {
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
    fn begin(&mut self, timing: &Timing, orders: &Orders) -> bool {
        if orders.current() != Order::Go {
            return false;
        }
        match &timing.pacing {
            None if self.asked > self.answered => return false,
            None => self.asked_at = Instant::now(),
            Some(pacing) => {
                let due = pacing.schedule.due(self.asked);
                let Some(late) = Instant::now().checked_duration_since(due) else {
                    return false;
                };
                pacing.late.record(late);
            }
        }
        self.asked += 1;
        timing.add_asked();
        self.unsent = self.request.len();
        true
    }
}

/// The side that answers.
pub(crate) struct Answering {
    response: Arc<[u8]>,
    requests: Messages,
    /// Answers that the kernel has not taken whole yet, and bytes of the first of them that it has.
    owed: u64,
    sent: usize,
}

impl Answering {
    pub fn new(response: &Arc<[u8]>, request_bytes: usize) -> Self {
        Self {
            response: Arc::clone(response),
            requests: Messages {
                bytes: request_bytes,
                part: 0,
            },
            owed: 0,
            sent: 0,
        }
    }

    /// Whether an answer waits for the kernel to take the rest of it.
    pub fn is_sending(&self) -> bool {
        self.owed > 0
    }

    pub fn step(&mut self, stream: &Stream, buffer: &mut [u8], blocks: bool) -> io::Result<Heard> {
        if self.owed == 0 {
            match receive(stream, buffer, blocks)? {
                None => return Ok(Heard::Nothing),
                Some(0) => return Ok(Heard::End),
                Some(count) => self.owed = self.requests.completed_by(count),
            }
        }
        while self.owed > 0 {
            let count = send(stream, &self.response[self.sent..])?;
            if count == 0 {
                return Ok(Heard::Nothing);
            }
            self.sent += count;
            if self.sent == self.response.len() {
                self.sent = 0;
                self.owed -= 1;
            }
        }
        Ok(Heard::More)
    }
}
