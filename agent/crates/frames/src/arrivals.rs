//! What the sink program counts, as it stands in its maps (bpf/arrivals.h), added up over the CPUs that received.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

use aya::Ebpf;

use crate::bpf_programs::{ProbeResult, SharedArray, SharedWithPrograms};
use crate::foreign::{EXAMPLE_BYTES, ForeignFrames, FrameClass};
use vnetbench_system::histogram::{BUCKETS, HistogramCounts};

/// The words of one stream (WORDS in bpf/arrivals.h).
pub const BITMAP_WORDS: u32 = 1 << 15;

/// `struct account`: of one stream on one CPU.
#[derive(Debug)]
#[repr(C)]
struct StreamCounters {
    frames: AtomicU64,
    bytes: AtomicU64,
    duplicates: AtomicU64,
    out_of_order: AtomicU64,
    before_window: AtomicU64,
    impossible_transits: AtomicU64,
    last_transit: AtomicI64,
    jitter: AtomicI64,
}

/// `struct order`: of one stream.
#[derive(Debug)]
#[repr(C)]
struct SequenceState {
    next_number: AtomicU64,
    unused: [AtomicU64; 15],
}

/// `struct receiver`: of one CPU.
#[derive(Debug)]
#[repr(C)]
struct CpuCounters {
    foreign: [AtomicU64; FrameClass::ALL.len()],
    examples: [[AtomicU8; EXAMPLE_BYTES]; FrameClass::ALL.len()],
    touched: AtomicU64,
    delay: [AtomicU64; BUCKETS],
}

// SAFETY: all atomics, laid out as C does it.
unsafe impl SharedWithPrograms for StreamCounters {}
// SAFETY: as above.
unsafe impl SharedWithPrograms for SequenceState {}
// SAFETY: as above.
unsafe impl SharedWithPrograms for CpuCounters {}

/// What has come of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamArrivals {
    /// For the first time.
    pub frames: u64,
    /// Of these, with FCS.
    pub bytes: u64,
    pub duplicates: u64,
    /// Those that came after a higher number (RFC 4737, section 3.3).
    pub out_of_order: u64,
    /// Of these, those so late that they may be duplicates, though they are counted as frames.
    pub before_window: u64,
    /// Those that cannot have been under way as long as their time says: the sender's clock is another.
    pub impossible_transits: u64,
    pub highest_number: Option<u64>,
    /// RFC 3550's (section 6.4.1); where several CPUs receive, the mean of theirs, by the frames of each.
    pub jitter_nanos: u64,
}

/// The maps of a sink program.
#[derive(Debug)]
pub struct Arrivals {
    stream_counters: SharedArray<StreamCounters>,
    sequence_states: SharedArray<SequenceState>,
    cpu_counters: SharedArray<CpuCounters>,
    cpus: usize,
}

impl Arrivals {
    pub fn open(program: &Ebpf, sinks: usize, cpus: usize) -> ProbeResult<Self> {
        Ok(Self {
            stream_counters: SharedArray::map(program, "accounts", sinks * cpus)?,
            sequence_states: SharedArray::map(program, "orders", sinks)?,
            cpu_counters: SharedArray::map(program, "receivers", cpus)?,
            cpus,
        })
    }

    pub fn stream(&self, place: usize) -> StreamArrivals {
        let mut sum = StreamArrivals {
            highest_number: read(&self.sequence_states[place].next_number).checked_sub(1),
            ..StreamArrivals::default()
        };
        let mut jitters = 0.0;
        for account in &self.stream_counters[place * self.cpus..][..self.cpus] {
            let frames = read(&account.frames);
            sum.frames += frames;
            sum.bytes += read(&account.bytes);
            sum.duplicates += read(&account.duplicates);
            sum.out_of_order += read(&account.out_of_order);
            sum.before_window += read(&account.before_window);
            sum.impossible_transits += read(&account.impossible_transits);
            jitters += frames as f64 * account.jitter.load(Ordering::Relaxed) as f64 / 16.0;
        }
        sum.jitter_nanos = (jitters / sum.frames.max(1) as f64) as u64;
        sum
    }

    /// How long the frames of all streams were under way.
    pub fn delay(&self) -> HistogramCounts {
        let mut sum = HistogramCounts::empty();
        for receiver in self.cpu_counters.iter() {
            sum.add(&receiver.delay, &receiver.touched);
        }
        sum
    }

    pub fn foreign_frames(&self) -> ForeignFrames {
        let mut sum = ForeignFrames::default();
        for receiver in self.cpu_counters.iter() {
            for (place, kind) in FrameClass::ALL.into_iter().enumerate() {
                let example = receiver.examples[place].each_ref();
                let example = example.map(|byte| byte.load(Ordering::Relaxed));
                sum.add(kind, read(&receiver.foreign[place]), &example);
            }
        }
        sum
    }
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
