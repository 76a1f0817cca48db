//! The workload `udp_stream`: numbered, stamped datagrams one way, as fast as they go or at a rate.
//!
//! The stream's own connection opens the flow (`udp_handshake.rs`), and at the end carries how many datagrams were sent. A
//! thread drives one stream, with calls that wait.

use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags, Shutdown, shutdown};
use rustix::thread::set_current_timer_slack;
use serde::Deserialize;

use crate::receive::COALESCING_TIME;
use crate::udp_calls::{ReceiveBatch, ReceivedMessage, SendBatch};
use vnetbench_streams::datagram_header::{DatagramHeader, SMALL_PROBE_NUMBER, now_nanos};
use vnetbench_streams::datagrams::{DatagramCounts, DatagramFlow, GapDeviation};
use vnetbench_streams::jitter::JitterEstimator;
use vnetbench_streams::reception::SequenceTracker;
use vnetbench_streams::threads::{self, StartedThread, ThreadPlan};
use vnetbench_streams::timing::{Pacing, RequestRate};
use vnetbench_streams::{Command, Commands, EndGuard, OnEnd, Role, Stream, StreamEnd};

/// How often a call that waits looks whether the trial is over.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// After the source has said how many it sent, a sink waits for the missing until none has come for so long.
const DRAIN_QUIET_TIME: Duration = Duration::from_millis(250);
/// So many numbers back a sink knows which have come.
const SEQUENCE_WINDOW: u64 = 1 << 17;
/// Messages of one call by which a flow is fast enough to let more gather before the next one, and not so fast that they
/// would overflow the socket's buffer meanwhile.
const COALESCING_BYTES: Range<usize> = 2..32;
/// Before a datagram is due its source stops sleeping so long: a sleep may end that much late.
const SPIN_BEFORE_DUE: Duration = Duration::from_micros(100);

/// How a source waits until a datagram is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PacingWait {
    /// Awake for the last part: exact, and takes a whole CPU at high rates.
    Spin,
    Sleep,
}

/// What each stream sends, and how.
#[derive(Debug, Clone, Copy)]
pub struct FlowOptions {
    pub datagram_bytes: usize,
    /// On each stream; `None`: as fast as it goes.
    pub rate_per_s: Option<f64>,
    pub pacing_wait: PacingWait,
    /// UDP_SEGMENT: the kernel, or the interface, cuts large messages into datagrams.
    pub is_segmented: bool,
    /// UDP_GRO: the kernel hands over many datagrams as one message.
    pub is_aggregated: bool,
    /// Whether a datagram larger than the path's MTU is sent in fragments, or refused.
    pub can_fragment: bool,
    pub buffer_bytes: Option<usize>,
}

impl FlowOptions {
    /// When stream number `place` of so many sends. Their datagrams are spread evenly over the time between two.
    pub fn pacing(&self, place: usize, streams: usize) -> Option<Pacing> {
        let per_s = self.rate_per_s?;
        Some(Pacing::new(RequestRate::staggered(per_s, place, streams)))
    }
}

/// Starts the threads; they wait for `Order::Go`. `on_end` is called once for each stream, when it has ended.
pub(crate) fn start(
    streams: &[Arc<Stream>],
    flow: FlowOptions,
    threads: &ThreadPlan,
    orders: &Arc<Commands>,
    on_end: &OnEnd,
) -> io::Result<Vec<StartedThread>> {
    threads::start_threads(streams, threads, orders, |own| {
        let stream = &own[0];
        let socket = &datagram_flow(stream).socket;
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
        socket.set_write_timeout(Some(STOP_CHECK_INTERVAL))?;
        stream.socket.set_nonblocking(false)?;
        stream.socket.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
        let guard = EndGuard::new(stream, on_end);
        Ok(move |orders: &Commands| {
            let stream = &*guard.stream;
            let end = match stream.role {
                Role::Source => run_source(stream, flow, orders),
                Role::Sink => run_sink(stream, flow, orders),
            };
            stream.record_end(match end {
                Ok(end) => end,
                Err(_) if orders.current() == Command::EndAll => StreamEnd::Cut,
                Err(error) => StreamEnd::Broken(error),
            });
        })
    })
}

fn datagram_flow(stream: &Stream) -> &DatagramFlow {
    stream.datagrams.as_ref().expect("the flow was opened")
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS)
    )
}

/// A source: datagrams until the end of the load, and then how many they were.
fn run_source(stream: &Stream, flow: FlowOptions, orders: &Commands) -> io::Result<StreamEnd> {
    let mut outgoing = SendBatch::new(flow.datagram_bytes, flow.is_segmented);
    let sent = match &datagram_flow(stream).pacing {
        None => send_unpaced(stream, &mut outgoing, orders)?,
        Some(pacing) => send_paced(stream, &mut outgoing, pacing, flow.pacing_wait, orders)?,
    };
    // All of it: nothing else has been sent on it since it was opened.
    rustix::net::send(&stream.socket, &sent.to_be_bytes(), SendFlags::NOSIGNAL)?;
    shutdown(&stream.socket, Shutdown::Write)?;
    let mut unexpected = [0; 64];
    loop {
        match rustix::net::recv(&stream.socket, &mut unexpected[..], RecvFlags::empty()) {
            _ if orders.current() == Command::EndAll => return Ok(StreamEnd::Cut),
            Ok((0, _)) => return Ok(StreamEnd::Drained),
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Hands the kernel up to so many datagrams from that number on; returns how many it took.
fn send_batch(
    stream: &Stream,
    outgoing: &mut SendBatch,
    number: u64,
    count: usize,
) -> io::Result<usize> {
    let datagrams = datagram_flow(stream);
    let first = DatagramHeader {
        key: datagrams.key,
        number,
        sent_nanos: now_nanos(),
    };
    let took = match outgoing.send(datagrams.socket.as_fd(), first, count) {
        Ok(took) => took,
        Err(error) if is_transient(&error) => return Ok(0),
        Err(error) => return Err(error),
    };
    stream.counters.sent.add(took * outgoing.datagram_bytes());
    datagrams.counters.set(DatagramCounts {
        datagrams: number + took as u64,
        ..DatagramCounts::default()
    });
    Ok(took)
}

fn send_unpaced(stream: &Stream, outgoing: &mut SendBatch, orders: &Commands) -> io::Result<u64> {
    let most = outgoing.max_datagrams();
    let mut number = 0;
    while orders.current() == Command::Go {
        number += send_batch(stream, outgoing, number, most)? as u64;
    }
    Ok(number)
}

/// One datagram at a time, when it is due; what is due already goes out in one call.
fn send_paced(
    stream: &Stream,
    outgoing: &mut SendBatch,
    pacing: &Pacing,
    waiting: PacingWait,
    orders: &Commands,
) -> io::Result<u64> {
    // Else the kernel may wake this thread 50 µs late, to save itself some work.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let most = outgoing.max_datagrams() as u64;
    let gap = pacing.schedule.gap();
    let mut gaps = GapDeviation::default();
    let mut number = 0;
    while let Some(now) = wait_until(pacing.schedule.due_at(number), waiting, orders) {
        let due = pacing
            .schedule
            .count_due_until(now)
            .saturating_sub(number)
            .clamp(1, most);
        let took = send_batch(stream, outgoing, number, due as usize)?;
        for sent in number..number + took as u64 {
            let late = now.saturating_duration_since(pacing.schedule.due_at(sent));
            pacing.lateness.record(late);
        }
        if took > 0 {
            gaps.record(now, took, gap);
        }
        number += took as u64;
    }
    // Set once, here.
    let _ = datagram_flow(stream).gaps.set(gaps);
    Ok(number)
}

/// The time, once it is past that moment; `None` where the load ended before.
fn wait_until(moment: Instant, waiting: PacingWait, orders: &Commands) -> Option<Instant> {
    let spun = match waiting {
        PacingWait::Spin => SPIN_BEFORE_DUE,
        PacingWait::Sleep => Duration::ZERO,
    };
    while orders.current() == Command::Go {
        let now = Instant::now();
        let left = moment.saturating_duration_since(now);
        if left.is_zero() {
            return Some(now);
        }
        if left > spun {
            std::thread::sleep((left - spun).min(STOP_CHECK_INTERVAL));
        } else {
            std::hint::spin_loop();
        }
    }
    None
}

/// A sink's account of its stream.
struct SinkCounters<'a> {
    datagrams: &'a DatagramFlow,
    datagram_bytes: usize,
    reception: SequenceTracker,
    jitter: JitterEstimator,
    foreign: u64,
}

impl SinkCounters<'_> {
    /// Counts the datagrams of one message; returns the bytes that are the stream's.
    fn record(&mut self, message: &ReceivedMessage<'_>) -> usize {
        let at = message.received_at_nanos.unwrap_or_else(now_nanos);
        let mut bytes = 0;
        for run in message.runs() {
            let own = run.first.filter(|head| head.key == self.datagrams.key);
            match own {
                // One that was still under way when the path had been proved.
                Some(head) if head.number >= SMALL_PROBE_NUMBER => {}
                Some(head) if run.length == self.datagram_bytes => {
                    bytes += run.length * run.datagrams as usize;
                    for number in head.number..=head.number + (run.datagrams - 1) {
                        self.reception.record(number);
                    }
                    let transit = head.transit_nanos(at);
                    self.jitter.record(transit);
                    self.jitter.record_equal_transits(run.datagrams - 1);
                    if let (Some(delay), Ok(nanos)) = (&self.datagrams.delay, transit.try_into()) {
                        delay.record_many(Duration::from_nanos(nanos), run.datagrams);
                    }
                }
                _ => self.foreign += run.datagrams,
            }
        }
        bytes
    }

    /// `sent`: how many the source has sent, once it has said so.
    fn publish(&self, sent: Option<u64>) {
        self.datagrams.counters.set(DatagramCounts {
            datagrams: self.reception.unique + self.reception.duplicates,
            lost: self.reception.lost_packets(sent),
            duplicates: self.reception.duplicates,
            reordered: self.reception.reordered,
            foreign: self.foreign,
            jitter_nanos: self.jitter.nanos() as u64,
        });
    }
}

/// A sink: takes datagrams until it has all that were sent, or no more come.
fn run_sink(stream: &Stream, flow: FlowOptions, orders: &Commands) -> io::Result<StreamEnd> {
    let datagrams = datagram_flow(stream);
    let mut incoming = ReceiveBatch::new(flow.is_aggregated);
    let mut account = SinkCounters {
        datagrams,
        datagram_bytes: flow.datagram_bytes,
        reception: SequenceTracker::new(SEQUENCE_WINDOW),
        jitter: JitterEstimator::default(),
        foreign: 0,
    };
    let mut said = SourceTotal::default();
    let mut last_came = Instant::now();
    loop {
        let came = match incoming.receive(datagrams.socket.as_fd()) {
            Ok(messages) => {
                let count = messages.len();
                let bytes = messages.map(|message| account.record(&message)).sum();
                stream.counters.received.add(bytes);
                if COALESCING_BYTES.contains(&count) {
                    std::thread::sleep(COALESCING_TIME);
                }
                true
            }
            Err(error) if is_transient(&error) => false,
            Err(error) => return Err(error),
        };
        // Before anything can end the stream: these datagrams are among its bytes already.
        account.publish(said.sent);
        let order = orders.current();
        if order == Command::EndAll {
            return Ok(StreamEnd::Cut);
        }
        if said.sent.is_none() && (order == Command::EndSources || !came) {
            said.receive(stream)?;
            account.publish(said.sent);
        }
        if came {
            last_came = Instant::now();
        }
        if let Some(sent) = said.sent
            && (account.reception.unique >= sent || last_came.elapsed() > DRAIN_QUIET_TIME)
        {
            // Fails only where the source is gone, and then nobody waits for this.
            let _ = shutdown(&stream.socket, Shutdown::Write);
            return Ok(StreamEnd::Drained);
        }
    }
}

/// What the source has said of how many it sent.
#[derive(Default)]
struct SourceTotal {
    bytes: [u8; 8],
    count: usize,
    sent: Option<u64>,
}

impl SourceTotal {
    fn receive(&mut self, stream: &Stream) -> io::Result<()> {
        let rest = &mut self.bytes[self.count..];
        match rustix::net::recv(&stream.socket, rest, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((count, _)) => self.count += count,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if self.count == self.bytes.len() {
            self.sent = Some(u64::from_be_bytes(self.bytes));
        }
        Ok(())
    }
}
