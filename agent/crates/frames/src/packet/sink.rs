//! The packet sink: one thread reads a receive ring and keeps the same counters as the XDP program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::arrivals::StreamArrivals;
use crate::filter::{FIRST_SINK_ROLE, OWN_SOURCE_ROLE, TrialFrameFilter};
use crate::foreign::ForeignFrames;
use crate::frame_class::{
    FRAME_NUMBER_BITS, ForeignFrameClass, belongs_to_other_trial, find_udp_payload,
};
use crate::packet::ring::{BLOCK_COUNT, CapturedFrame, ReceiveRing};
use crate::parameters::FCS_BYTES;
use crate::port::Port;
use vnetbench_counters::load_thread::LoadThread;
use vnetbench_streams::datagram_header::{DatagramHeader, SMALL_PROBE_NUMBER};
use vnetbench_streams::jitter::JitterEstimator;
use vnetbench_streams::reception::SequenceTracker;
use vnetbench_system::clock::{monotonic_nanos, realtime_nanos};
use vnetbench_system::error::{RequestError, Result};
use vnetbench_system::histogram::{Histogram, HistogramCounts, MAX_RECORDED_DURATION};

/// Duplicates are detected among this many last numbers (WINDOW_BITS in bpf/arrivals.h).
const SEQUENCE_WINDOW_FRAMES: u64 = 1 << 20;
/// How often the thread checks whether to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Samples of the offset between two clocks.
const CLOCK_OFFSET_SAMPLE_COUNT: usize = 5;

/// Counts the frames at a port from a receive ring.
#[derive(Debug)]
pub struct PacketSink {
    counters: Arc<Mutex<PortCounters>>,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// The thread that reads the ring.
    pub load_thread: Arc<LoadThread>,
}

/// Counters of all frames at the port.
#[derive(Debug)]
struct PortCounters {
    secret: u32,
    stream_roles: Vec<u16>,
    streams: Vec<SinkStreamState>,
    delay: Histogram,
    foreign_frames: ForeignFrames,
    dropped: u64,
}

#[derive(Debug)]
struct SinkStreamState {
    sequence: SequenceTracker,
    jitter: JitterEstimator,
    bytes: u64,
    impossible_transits: u64,
}

/// To what a frame belongs.
enum FrameOwner {
    /// One of the sinks' streams.
    Sink {
        sink_index: usize,
        header: DatagramHeader,
    },
    /// A probe of the other endpoint.
    Probe,
    /// None of this trial's sinks and probes.
    Foreign(ForeignFrameClass),
}

impl PacketSink {
    /// Opens a receive ring at a port and starts its thread.
    pub fn open(port: &Port, filter: &TrialFrameFilter) -> Result<Self> {
        let ring_error =
            |error| RequestError::system(format!("open a receive ring at {}", port.name), error);
        let ring = ReceiveRing::open(port, BLOCK_COUNT).map_err(ring_error)?;
        let counters = Arc::new(Mutex::new(PortCounters::new(filter)));
        let is_stopping = Arc::new(AtomicBool::new(false));
        let load_thread = Arc::new(LoadThread::default());
        let thread_state = (Arc::clone(&counters), Arc::clone(&is_stopping));
        let thread_record = Arc::clone(&load_thread);
        let (started_sender, started_receiver) = channel();
        let thread = std::thread::Builder::new()
            .name("ring".into())
            .spawn(move || {
                let _running = thread_record.record_start();
                let _ = started_sender.send(());
                count_frames(ring, &thread_state.0, &thread_state.1);
            })
            .map_err(|error| RequestError::system("start a thread", error))?;
        let _ = started_receiver.recv();
        Ok(Self {
            counters,
            is_stopping,
            thread: Some(thread),
            load_thread,
        })
    }

    /// Returns the arrivals of one sink's stream.
    pub fn stream_arrivals(&self, sink_index: usize) -> StreamArrivals {
        let counters = lock_counters(&self.counters);
        let stream = &counters.streams[sink_index];
        StreamArrivals {
            frames: stream.sequence.unique,
            bytes: stream.bytes,
            duplicates: stream.sequence.duplicates,
            out_of_order: stream.sequence.reordered,
            before_window: stream.sequence.before_window,
            impossible_transits: stream.impossible_transits,
            highest_number: stream.sequence.highest_number(),
            jitter_nanos: stream.jitter.jitter_nanos() as u64,
        }
    }

    /// Returns the one-way delays of the frames of all sinks.
    pub fn one_way_delays(&self) -> HistogramCounts {
        HistogramCounts::sum(std::iter::once(&lock_counters(&self.counters).delay))
    }

    /// Returns the frames that belong to none of the sinks.
    pub fn foreign_frames(&self) -> ForeignFrames {
        lock_counters(&self.counters).foreign_frames.clone()
    }

    /// Returns the frames dropped because the ring was full.
    pub fn ring_dropped_count(&self) -> u64 {
        lock_counters(&self.counters).dropped
    }
}

impl Drop for PacketSink {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been reported.
            let _ = thread.join();
        }
    }
}

fn lock_counters(counters: &Mutex<PortCounters>) -> MutexGuard<'_, PortCounters> {
    counters.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts frames until the sink stops; the body of the thread.
fn count_frames(mut ring: ReceiveRing, counters: &Mutex<PortCounters>, is_stopping: &AtomicBool) {
    while !is_stopping.load(Ordering::Relaxed) {
        // This fails only for lack of memory; the next turn tries again.
        let _ = ring.wait_for_block(STOP_CHECK_INTERVAL);
        loop {
            // Computed for each block, because CLOCK_REALTIME may be set at any time.
            let offset_nanos = measure_realtime_offset_nanos();
            let mut counters = lock_counters(counters);
            if !ring.consume_next_block(|frame| {
                counters.record(&frame, frame.received_nanos.wrapping_sub(offset_nanos))
            }) {
                counters.dropped += ring.take_dropped_count().unwrap_or(0);
                break;
            }
        }
    }
}

/// Returns CLOCK_REALTIME minus CLOCK_MONOTONIC, from the quickest of several samples.
fn measure_realtime_offset_nanos() -> u64 {
    let samples = (0..CLOCK_OFFSET_SAMPLE_COUNT).map(|_| {
        let before = monotonic_nanos();
        let realtime = realtime_nanos();
        let after = monotonic_nanos();
        (
            after - before,
            realtime.wrapping_sub(before.midpoint(after)),
        )
    });
    let (_, offset) = samples
        .min()
        .expect("the number of clock samples is positive");
    offset
}

impl PortCounters {
    fn new(filter: &TrialFrameFilter) -> Self {
        let stream = |_: &u32| SinkStreamState {
            sequence: SequenceTracker::new(SEQUENCE_WINDOW_FRAMES),
            jitter: JitterEstimator::default(),
            bytes: 0,
            impossible_transits: 0,
        };
        Self {
            secret: filter.secret,
            stream_roles: filter.stream_roles(),
            streams: filter.sinks.iter().map(stream).collect(),
            delay: Histogram::new(),
            foreign_frames: ForeignFrames::default(),
            dropped: 0,
        }
    }

    /// Counts a frame that arrived at `now_nanos` (CLOCK_MONOTONIC).
    fn record(&mut self, frame: &CapturedFrame<'_>, now_nanos: u64) {
        match self.find_owner(frame.header_bytes, now_nanos) {
            FrameOwner::Sink { sink_index, header } => {
                let transit = header.transit_nanos(now_nanos);
                let stream = &mut self.streams[sink_index];
                stream.jitter.record(transit);
                let delay = u64::try_from(transit).map(Duration::from_nanos);
                match delay {
                    Ok(delay) if delay < MAX_RECORDED_DURATION => self.delay.record(delay),
                    _ => stream.impossible_transits += 1,
                }
                let distinct = stream.sequence.unique;
                stream.sequence.record(header.number);
                if stream.sequence.unique > distinct {
                    stream.bytes += (frame.frame_bytes + FCS_BYTES) as u64;
                }
            }
            FrameOwner::Probe => {}
            FrameOwner::Foreign(class) => self.foreign_frames.add(class, 1, frame.header_bytes),
        }
    }

    fn find_owner(&self, frame: &[u8], now_nanos: u64) -> FrameOwner {
        let payload = match find_udp_payload(frame) {
            Ok(payload) => payload,
            Err(class) => return FrameOwner::Foreign(class),
        };
        let Some(header) = DatagramHeader::read(payload.bytes) else {
            return FrameOwner::Foreign(payload.ip_class);
        };
        let id = (header.key ^ self.secret) as usize;
        match self.stream_roles.get(id).copied().unwrap_or(0) {
            // A probe of the other endpoint carries a stream id of this one. A slow device may deliver it late; it is no loop.
            OWN_SOURCE_ROLE | FIRST_SINK_ROLE.. if header.number >= SMALL_PROBE_NUMBER => {
                FrameOwner::Probe
            }
            OWN_SOURCE_ROLE => FrameOwner::Foreign(ForeignFrameClass::OwnReturned),
            role @ FIRST_SINK_ROLE.. if header.number >> FRAME_NUMBER_BITS == 0 => {
                FrameOwner::Sink {
                    sink_index: usize::from(role - FIRST_SINK_ROLE),
                    header,
                }
            }
            _ if belongs_to_other_trial(header, now_nanos) => {
                FrameOwner::Foreign(ForeignFrameClass::OtherTrial)
            }
            _ => FrameOwner::Foreign(payload.ip_class),
        }
    }
}
