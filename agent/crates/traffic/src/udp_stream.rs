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

use crate::receive::GATHERING;
use crate::udp_calls::{Incoming, Outgoing, Received};
use vnetbench_streams::datagram_header::{Head, SMALL_PROBE, now_nanos};
use vnetbench_streams::datagrams::{DatagramCounts, Datagrams, Gaps};
use vnetbench_streams::jitter::Jitter;
use vnetbench_streams::reception::Reception;
use vnetbench_streams::threads::{self, Started, Threads};
use vnetbench_streams::timing::{Pace, Pacing};
use vnetbench_streams::{End, Guard, OnEnd, Order, Orders, Role, Stream};

/// How often a call that waits looks whether the trial is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// After the source has said how many it sent, a sink waits for the missing until none has come for so long.
const QUIET: Duration = Duration::from_millis(250);
/// So many numbers back a sink knows which have come.
const WINDOW: u64 = 1 << 17;
/// Messages of one call by which a flow is fast enough to let more gather before the next one, and not so fast that they
/// would overflow the socket's buffer meanwhile.
const GATHERED: Range<usize> = 2..32;
/// Before a datagram is due its source stops sleeping so long: a sleep may end that much late.
const SPUN: Duration = Duration::from_micros(100);

/// How a source waits until a datagram is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// Awake for the last part: exact, and takes a whole CPU at high rates.
    Spin,
    Sleep,
}

/// What each stream sends, and how.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    pub datagram_bytes: usize,
    /// On each stream; `None`: as fast as it goes.
    pub rate_per_s: Option<f64>,
    pub waiting: Waiting,
    /// UDP_SEGMENT: the kernel, or the interface, cuts large messages into datagrams.
    pub segmented: bool,
    /// UDP_GRO: the kernel hands over many datagrams as one message.
    pub aggregated: bool,
    /// Whether a datagram larger than the path's MTU is sent in fragments, or refused.
    pub fragmented: bool,
    pub buffer_bytes: Option<usize>,
}

impl Flow {
    /// When stream number `place` of so many sends. Their datagrams are spread evenly over the time between two.
    pub fn pacing(&self, place: usize, streams: usize) -> Option<Pacing> {
        let per_s = self.rate_per_s?;
        Some(Pacing::new(Pace::spread(per_s, place, streams)))
    }
}

/// Starts the threads; they wait for `Order::Go`. `on_end` is called once for each stream, when it has ended.
pub(crate) fn start(
    streams: &[Arc<Stream>],
    flow: Flow,
    threads: &Threads,
    orders: &Arc<Orders>,
    on_end: &OnEnd,
) -> io::Result<Vec<Started>> {
    threads::start(streams, threads, orders, |own| {
        let stream = &own[0];
        let socket = &datagrams_of(stream).socket;
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(LOOK_EVERY))?;
        socket.set_write_timeout(Some(LOOK_EVERY))?;
        stream.socket.set_nonblocking(false)?;
        stream.socket.set_read_timeout(Some(LOOK_EVERY))?;
        let guard = Guard::new(stream, on_end);
        Ok(move |orders: &Orders| {
            let stream = &*guard.stream;
            let end = match stream.role {
                Role::Source => send_on(stream, flow, orders),
                Role::Sink => receive_on(stream, flow, orders),
            };
            stream.note_end(match end {
                Ok(end) => end,
                Err(_) if orders.current() == Order::EndAll => End::Cut,
                Err(error) => End::Broken(error),
            });
        })
    })
}

fn datagrams_of(stream: &Stream) -> &Datagrams {
    stream.datagrams.as_ref().expect("the flow was opened")
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS)
    )
}

/// A source: datagrams until the end of the load, and then how many they were.
fn send_on(stream: &Stream, flow: Flow, orders: &Orders) -> io::Result<End> {
    let mut outgoing = Outgoing::new(flow.datagram_bytes, flow.segmented);
    let sent = match &datagrams_of(stream).pacing {
        None => send_unpaced(stream, &mut outgoing, orders)?,
        Some(pacing) => send_paced(stream, &mut outgoing, pacing, flow.waiting, orders)?,
    };
    // All of it: nothing else has been sent on it since it was opened.
    rustix::net::send(&stream.socket, &sent.to_be_bytes(), SendFlags::NOSIGNAL)?;
    shutdown(&stream.socket, Shutdown::Write)?;
    let mut unexpected = [0; 64];
    loop {
        match rustix::net::recv(&stream.socket, &mut unexpected[..], RecvFlags::empty()) {
            _ if orders.current() == Order::EndAll => return Ok(End::Cut),
            Ok((0, _)) => return Ok(End::Drained),
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Hands the kernel up to so many datagrams from that number on; returns how many it took.
fn send_some(
    stream: &Stream,
    outgoing: &mut Outgoing,
    number: u64,
    count: usize,
) -> io::Result<usize> {
    let datagrams = datagrams_of(stream);
    let first = Head {
        key: datagrams.key,
        number,
        sent_nanos: now_nanos(),
    };
    let took = match outgoing.send(datagrams.socket.as_fd(), first, count) {
        Ok(took) => took,
        Err(error) if is_passing(&error) => return Ok(0),
        Err(error) => return Err(error),
    };
    stream.tally.sent.add(took * outgoing.datagram_bytes());
    datagrams.tally.set(DatagramCounts {
        moved: number + took as u64,
        ..DatagramCounts::default()
    });
    Ok(took)
}

fn send_unpaced(stream: &Stream, outgoing: &mut Outgoing, orders: &Orders) -> io::Result<u64> {
    let most = outgoing.most();
    let mut number = 0;
    while orders.current() == Order::Go {
        number += send_some(stream, outgoing, number, most)? as u64;
    }
    Ok(number)
}

/// One datagram at a time, when it is due; what is due already goes out in one call.
fn send_paced(
    stream: &Stream,
    outgoing: &mut Outgoing,
    pacing: &Pacing,
    waiting: Waiting,
    orders: &Orders,
) -> io::Result<u64> {
    // Else the kernel may wake this thread 50 µs late, to save itself some work.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let most = outgoing.most() as u64;
    let gap = pacing.schedule.gap();
    let mut gaps = Gaps::default();
    let mut number = 0;
    while let Some(now) = wait_until(pacing.schedule.due(number), waiting, orders) {
        let due = pacing
            .schedule
            .due_until(now)
            .saturating_sub(number)
            .clamp(1, most);
        let took = send_some(stream, outgoing, number, due as usize)?;
        for sent in number..number + took as u64 {
            let late = now.saturating_duration_since(pacing.schedule.due(sent));
            pacing.late.record(late);
        }
        if took > 0 {
            gaps.note(now, took, gap);
        }
        number += took as u64;
    }
    // Set once, here.
    let _ = datagrams_of(stream).gaps.set(gaps);
    Ok(number)
}

/// The time, once it is past that moment; `None` where the load ended before.
fn wait_until(moment: Instant, waiting: Waiting, orders: &Orders) -> Option<Instant> {
    let spun = match waiting {
        Waiting::Spin => SPUN,
        Waiting::Sleep => Duration::ZERO,
    };
    while orders.current() == Order::Go {
        let now = Instant::now();
        let left = moment.saturating_duration_since(now);
        if left.is_zero() {
            return Some(now);
        }
        if left > spun {
            std::thread::sleep((left - spun).min(LOOK_EVERY));
        } else {
            std::hint::spin_loop();
        }
    }
    None
}

/// A sink's account of its stream.
struct Account<'a> {
    datagrams: &'a Datagrams,
    datagram_bytes: usize,
    reception: Reception,
    jitter: Jitter,
    foreign: u64,
}

impl Account<'_> {
    /// Counts the datagrams of one message; returns the bytes that are the stream's.
    fn note(&mut self, message: &Received<'_>) -> usize {
        let at = message.at_nanos.unwrap_or_else(now_nanos);
        let mut bytes = 0;
        for run in message.runs() {
            let own = run.first.filter(|head| head.key == self.datagrams.key);
            match own {
                // One that was still under way when the path had been proved.
                Some(head) if head.number >= SMALL_PROBE => {}
                Some(head) if run.length == self.datagram_bytes => {
                    bytes += run.length * run.datagrams as usize;
                    for number in head.number..=head.number + (run.datagrams - 1) {
                        self.reception.note(number);
                    }
                    let transit = head.transit_nanos(at);
                    self.jitter.note(transit);
                    self.jitter.note_alike(run.datagrams - 1);
                    if let (Some(delay), Ok(nanos)) = (&self.datagrams.delay, transit.try_into()) {
                        delay.record_alike(Duration::from_nanos(nanos), run.datagrams);
                    }
                }
                _ => self.foreign += run.datagrams,
            }
        }
        bytes
    }

    /// `sent`: how many the source has sent, once it has said so.
    fn tell(&self, sent: Option<u64>) {
        self.datagrams.tally.set(DatagramCounts {
            moved: self.reception.unique + self.reception.duplicates,
            lost: self.reception.lost(sent),
            duplicates: self.reception.duplicates,
            reordered: self.reception.reordered,
            foreign: self.foreign,
            jitter_nanos: self.jitter.nanos() as u64,
        });
    }
}

/// A sink: takes datagrams until it has all that were sent, or no more come.
fn receive_on(stream: &Stream, flow: Flow, orders: &Orders) -> io::Result<End> {
    let datagrams = datagrams_of(stream);
    let mut incoming = Incoming::new(flow.aggregated);
    let mut account = Account {
        datagrams,
        datagram_bytes: flow.datagram_bytes,
        reception: Reception::new(WINDOW),
        jitter: Jitter::default(),
        foreign: 0,
    };
    let mut said = Said::default();
    let mut last_came = Instant::now();
    loop {
        let came = match incoming.receive(datagrams.socket.as_fd()) {
            Ok(messages) => {
                let count = messages.len();
                let bytes = messages.map(|message| account.note(&message)).sum();
                stream.tally.received.add(bytes);
                if GATHERED.contains(&count) {
                    std::thread::sleep(GATHERING);
                }
                true
            }
            Err(error) if is_passing(&error) => false,
            Err(error) => return Err(error),
        };
        // Before anything can end the stream: these datagrams are among its bytes already.
        account.tell(said.sent);
        let order = orders.current();
        if order == Order::EndAll {
            return Ok(End::Cut);
        }
        if said.sent.is_none() && (order == Order::EndSources || !came) {
            said.hear(stream)?;
            account.tell(said.sent);
        }
        if came {
            last_came = Instant::now();
        }
        if let Some(sent) = said.sent
            && (account.reception.unique >= sent || last_came.elapsed() > QUIET)
        {
            // Fails only where the source is gone, and then nobody waits for this.
            let _ = shutdown(&stream.socket, Shutdown::Write);
            return Ok(End::Drained);
        }
    }
}

/// What the source has said of how many it sent.
#[derive(Default)]
struct Said {
    bytes: [u8; 8],
    count: usize,
    sent: Option<u64>,
}

impl Said {
    fn hear(&mut self, stream: &Stream) -> io::Result<()> {
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
