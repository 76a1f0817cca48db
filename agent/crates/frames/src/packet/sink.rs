//! The sink by a receive ring: one thread looks at all that comes to a port, and keeps the same account as the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::arrivals::StreamArrivals;
use crate::filter::{FIRST_SINK_INDEX, FrameFilter, OWN_SOURCE_MARK};
use crate::foreign::{ForeignFrames, FrameClass, NUMBER_BITS, belongs_to_other_trial, udp_payload};
use crate::packet::ring::{BLOCKS, CapturedFrame, ReceiveRing};
use crate::parameters::FCS_BYTES;
use crate::port::Port;
use vnetbench_counters::load_thread::LoadThread;
use vnetbench_streams::datagram_header::{DatagramHeader, SMALL_PROBE_NUMBER, now_nanos};
use vnetbench_streams::jitter::JitterEstimator;
use vnetbench_streams::reception::SequenceTracker;
use vnetbench_system::clock::monotonic_nanos;
use vnetbench_system::error::{Error, Result};
use vnetbench_system::histogram::{Histogram, HistogramCounts, RANGE};

/// So many numbers back it is known which have come (WINDOW_BITS in bpf/arrivals.h).
const SEQUENCE_WINDOW: u64 = 1 << 20;
/// How often the thread looks whether it is still wanted.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Of reading two clocks at once.
const CLOCK_READINGS: usize = 5;

#[derive(Debug)]
pub struct PacketSink {
    counters: Arc<Mutex<PortCounters>>,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    pub load_thread: Arc<LoadThread>,
}

/// What has come to the port.
#[derive(Debug)]
struct PortCounters {
    prefix: u32,
    stream_table: Vec<u16>,
    streams: Vec<StreamCounters>,
    delay: Histogram,
    foreign_frames: ForeignFrames,
    dropped: u64,
}

#[derive(Debug)]
struct StreamCounters {
    reception: SequenceTracker,
    jitter: JitterEstimator,
    bytes: u64,
    impossible_transits: u64,
}

impl PacketSink {
    pub fn open(port: &Port, filter: &FrameFilter) -> Result<Self> {
        let refused = |error| Error::system(format!("open a receive ring at {}", port.name), error);
        let ring = ReceiveRing::open(port, BLOCKS).map_err(refused)?;
        let account = Arc::new(Mutex::new(PortCounters::new(filter)));
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
                count_frames(ring, &counting.0, &counting.1);
            })
            .map_err(|error| Error::system("start a thread", error))?;
        let _ = is_counted.recv();
        Ok(Self {
            counters: account,
            is_stopping: is_over,
            thread: Some(thread),
            load_thread: counted,
        })
    }

    pub fn stream(&self, place: usize) -> StreamArrivals {
        let account = lock(&self.counters);
        let stream = &account.streams[place];
        StreamArrivals {
            frames: stream.reception.unique,
            bytes: stream.bytes,
            duplicates: stream.reception.duplicates,
            out_of_order: stream.reception.reordered,
            before_window: stream.reception.before_window,
            impossible_transits: stream.impossible_transits,
            highest_number: stream.reception.highest_number(),
            jitter_nanos: stream.jitter.nanos() as u64,
        }
    }

    pub fn delay(&self) -> HistogramCounts {
        HistogramCounts::sum(std::iter::once(&lock(&self.counters).delay))
    }

    pub fn foreign_frames(&self) -> ForeignFrames {
        lock(&self.counters).foreign_frames.clone()
    }

    /// Frames that the ring had no room for.
    pub fn dropped(&self) -> u64 {
        lock(&self.counters).dropped
    }
}

impl Drop for PacketSink {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Where it panicked it has said so, and there is nothing left of it.
            let _ = thread.join();
        }
    }
}

fn lock(account: &Mutex<PortCounters>) -> MutexGuard<'_, PortCounters> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread: takes what comes until nobody wants it any more.
fn count_frames(mut ring: ReceiveRing, account: &Mutex<PortCounters>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        // Fails only where there is no memory for it; then it is tried again.
        let _ = ring.wait(STOP_CHECK_INTERVAL);
        loop {
            // Not kept: that clock may be set at any time.
            let ahead_nanos = realtime_offset_nanos();
            let mut account = lock(account);
            if !ring.drain(|came| account.record(&came, came.at_nanos.wrapping_sub(ahead_nanos))) {
                account.dropped += ring.dropped().unwrap_or(0);
                break;
            }
        }
    }
}

/// By how much CLOCK_REALTIME is ahead of CLOCK_MONOTONIC: of some tries that which was disturbed least.
fn realtime_offset_nanos() -> u64 {
    let tries = (0..CLOCK_READINGS).map(|_| {
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

impl PortCounters {
    fn new(filter: &FrameFilter) -> Self {
        let stream = |_: &u32| StreamCounters {
            reception: SequenceTracker::new(SEQUENCE_WINDOW),
            jitter: JitterEstimator::default(),
            bytes: 0,
            impossible_transits: 0,
        };
        Self {
            prefix: filter.prefix,
            stream_table: filter.stream_table(),
            streams: filter.sinks.iter().map(stream).collect(),
            delay: Histogram::new(),
            foreign_frames: ForeignFrames::default(),
            dropped: 0,
        }
    }

    /// Takes in a frame that came at that time of CLOCK_MONOTONIC.
    fn record(&mut self, came: &CapturedFrame<'_>, now_nanos: u64) {
        match self.classify(came.header_bytes, now_nanos) {
            Ok(Some((stream, head))) => {
                let transit = head.transit_nanos(now_nanos);
                let stream = &mut self.streams[stream];
                stream.jitter.record(transit);
                let delay = u64::try_from(transit).map(Duration::from_nanos);
                match delay {
                    Ok(delay) if delay < RANGE => self.delay.record(delay),
                    _ => stream.impossible_transits += 1,
                }
                let distinct = stream.reception.unique;
                stream.reception.record(head.number);
                if stream.reception.unique > distinct {
                    stream.bytes += (came.bytes + FCS_BYTES) as u64;
                }
            }
            Ok(None) => {}
            Err(kind) => self.foreign_frames.add(kind, 1, came.header_bytes),
        }
    }

    /// Which of the streams a frame is of; `None` where it only makes a port known.
    fn classify(
        &self,
        frame: &[u8],
        now_nanos: u64,
    ) -> std::result::Result<Option<(usize, DatagramHeader)>, FrameClass> {
        let (payload, kind) = udp_payload(frame)?;
        let head = DatagramHeader::read(payload).ok_or(kind)?;
        let id = (head.key ^ self.prefix) as usize;
        match self.stream_table.get(id).copied().unwrap_or(0) {
            // The far side's, named as a stream of this one, may have waited long in a slow device: it is no loop.
            OWN_SOURCE_MARK | FIRST_SINK_INDEX.. if head.number >= SMALL_PROBE_NUMBER => Ok(None),
            OWN_SOURCE_MARK => Err(FrameClass::OwnReturned),
            place @ FIRST_SINK_INDEX.. if head.number >> NUMBER_BITS == 0 => {
                Ok(Some((usize::from(place - FIRST_SINK_INDEX), head)))
            }
            _ if belongs_to_other_trial(head, now_nanos) => Err(FrameClass::OtherTrial),
            _ => Err(kind),
        }
    }
}
