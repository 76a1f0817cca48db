//! The sink by a receive ring: one thread looks at all that comes to a port, and keeps the same account as the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::arrivals::Arrived;
use crate::filter::{FIRST_SINK, OWN_SOURCE, Sought};
use crate::foreign::{Kind, NUMBER_BITS, Strangers, is_of_other_trial, payload_of};
use crate::packet::ring::{BLOCKS, Came, Ring};
use crate::parameters::FCS_BYTES;
use crate::port::Port;
use vnetbench_counters::load_thread::LoadThread;
use vnetbench_streams::datagram_header::{Head, SMALL_PROBE, now_nanos};
use vnetbench_streams::jitter::Jitter;
use vnetbench_streams::reception::Reception;
use vnetbench_system::clock::monotonic_nanos;
use vnetbench_system::error::{Error, Result};
use vnetbench_system::histogram::{Counts, Histogram, RANGE};

/// So many numbers back it is known which have come (WINDOW_BITS in bpf/arrivals.h).
const WINDOW: u64 = 1 << 20;
/// How often the thread looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Of reading two clocks at once.
const TRIES: usize = 5;

#[derive(Debug)]
pub struct PacketSink {
    account: Arc<Mutex<Account>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    pub counted: Arc<LoadThread>,
}

/// What has come to the port.
#[derive(Debug)]
struct Account {
    prefix: u32,
    places: Vec<u16>,
    streams: Vec<Stream>,
    delay: Histogram,
    strangers: Strangers,
    dropped: u64,
}

#[derive(Debug)]
struct Stream {
    reception: Reception,
    jitter: Jitter,
    bytes: u64,
    impossible_transits: u64,
}

impl PacketSink {
    pub fn open(port: &Port, sought: &Sought) -> Result<Self> {
        let refused = |error| Error::system(format!("open a receive ring at {}", port.name), error);
        let ring = Ring::open(port, BLOCKS).map_err(refused)?;
        let account = Arc::new(Mutex::new(Account::new(sought)));
        let is_over = Arc::new(AtomicBool::new(false));
        let counted = Arc::new(LoadThread::default());
        let counting = (Arc::clone(&account), Arc::clone(&is_over));
        let this = Arc::clone(&counted);
        let (here, is_counted) = channel();
        let thread = std::thread::Builder::new()
            .name("ring".into())
            .spawn(move || {
                let _running = this.note_start();
                let _ = here.send(());
                count(ring, &counting.0, &counting.1);
            })
            .map_err(|error| Error::system("start a thread", error))?;
        let _ = is_counted.recv();
        Ok(Self {
            account,
            is_over,
            thread: Some(thread),
            counted,
        })
    }

    pub fn arrived(&self, place: usize) -> Arrived {
        let account = lock(&self.account);
        let stream = &account.streams[place];
        Arrived {
            frames: stream.reception.unique,
            bytes: stream.bytes,
            duplicates: stream.reception.duplicates,
            out_of_order: stream.reception.reordered,
            before_window: stream.reception.before_window,
            impossible_transits: stream.impossible_transits,
            highest: stream.reception.highest(),
            jitter_nanos: stream.jitter.nanos() as u64,
        }
    }

    pub fn delay(&self) -> Counts {
        Counts::of(std::iter::once(&lock(&self.account).delay))
    }

    pub fn strangers(&self) -> Strangers {
        lock(&self.account).strangers.clone()
    }

    /// Frames that the ring had no room for.
    pub fn dropped(&self) -> u64 {
        lock(&self.account).dropped
    }
}

impl Drop for PacketSink {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Where it panicked it has said so, and there is nothing left of it.
            let _ = thread.join();
        }
    }
}

fn lock(account: &Mutex<Account>) -> MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread: takes what comes until nobody wants it any more.
fn count(mut ring: Ring, account: &Mutex<Account>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        // Fails only where there is no memory for it; then it is tried again.
        let _ = ring.wait(LOOK_EVERY);
        loop {
            // Not kept: that clock may be set at any time.
            let ahead_nanos = realtime_ahead_nanos();
            let mut account = lock(account);
            if !ring.take(|came| account.note(&came, came.at_nanos.wrapping_sub(ahead_nanos))) {
                account.dropped += ring.dropped().unwrap_or(0);
                break;
            }
        }
    }
}

/// By how much CLOCK_REALTIME is ahead of CLOCK_MONOTONIC: of some tries that which was disturbed least.
fn realtime_ahead_nanos() -> u64 {
    let tries = (0..TRIES).map(|_| {
        let before = monotonic_nanos();
        let realtime = now_nanos();
        let after = monotonic_nanos();
        (
            after - before,
            realtime.wrapping_sub(before.midpoint(after)),
        )
    });
    let (_, ahead) = tries.min().expect("there are some");
    ahead
}

impl Account {
    fn new(sought: &Sought) -> Self {
        let stream = |_: &u32| Stream {
            reception: Reception::new(WINDOW),
            jitter: Jitter::default(),
            bytes: 0,
            impossible_transits: 0,
        };
        Self {
            prefix: sought.prefix,
            places: sought.places(),
            streams: sought.sinks.iter().map(stream).collect(),
            delay: Histogram::new(),
            strangers: Strangers::default(),
            dropped: 0,
        }
    }

    /// Takes in a frame that came at that time of CLOCK_MONOTONIC.
    fn note(&mut self, came: &Came<'_>, now_nanos: u64) {
        match self.find(came.start, now_nanos) {
            Ok(Some((stream, head))) => {
                let transit = head.transit_nanos(now_nanos);
                let stream = &mut self.streams[stream];
                stream.jitter.note(transit);
                let delay = u64::try_from(transit).map(Duration::from_nanos);
                match delay {
                    Ok(delay) if delay < RANGE => self.delay.record(delay),
                    _ => stream.impossible_transits += 1,
                }
                let distinct = stream.reception.unique;
                stream.reception.note(head.number);
                if stream.reception.unique > distinct {
                    stream.bytes += (came.bytes + FCS_BYTES) as u64;
                }
            }
            Ok(None) => {}
            Err(kind) => self.strangers.add(kind, 1, came.start),
        }
    }

    /// Which of the streams a frame is of; `None` where it only makes a port known.
    fn find(
        &self,
        frame: &[u8],
        now_nanos: u64,
    ) -> std::result::Result<Option<(usize, Head)>, Kind> {
        let (payload, kind) = payload_of(frame)?;
        let head = Head::read(payload).ok_or(kind)?;
        let id = (head.key ^ self.prefix) as usize;
        match self.places.get(id).copied().unwrap_or(0) {
            // The far side's, named as a stream of this one, may have waited long in a slow device: it is no loop.
            OWN_SOURCE | FIRST_SINK.. if head.number >= SMALL_PROBE => Ok(None),
            OWN_SOURCE => Err(Kind::Own),
            place @ FIRST_SINK.. if head.number >> NUMBER_BITS == 0 => {
                Ok(Some((usize::from(place - FIRST_SINK), head)))
            }
            _ if is_of_other_trial(head, now_nanos) => Err(Kind::OtherTrial),
            _ => Err(kind),
        }
    }
}
