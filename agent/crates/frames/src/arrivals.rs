//! Counters of the sink program, read from its maps (bpf/arrivals.h) and summed over CPUs.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

use aya::Ebpf;

use crate::foreign::{EXAMPLE_BYTES, ForeignFrames};
use crate::frame_class::ForeignFrameClass;
use vnetbench_bpf::{ProbeResult, SharedArray, SharedWithPrograms};
use vnetbench_system::histogram::{BUCKET_COUNT, HistogramCounts};

/// Words of one stream's duplicate bitmap (BITMAP_WORDS in bpf/arrivals.h).
pub const BITMAP_WORDS: u32 = 1 << 15;

/// Counters of one stream on one CPU (`struct stream_counters`).
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

/// Sequence state of one stream (`struct sequence_state`).
#[derive(Debug)]
#[repr(C)]
struct SequenceState {
    next_number: AtomicU64,
    unused: [AtomicU64; 15],
}

/// Counters of one CPU (`struct cpu_counters`).
#[derive(Debug)]
#[repr(C)]
struct CpuCounters {
    foreign: [AtomicU64; ForeignFrameClass::ALL.len()],
    examples: [[AtomicU8; EXAMPLE_BYTES]; ForeignFrameClass::ALL.len()],
    nonempty_octaves: AtomicU64,
    delay_buckets: [AtomicU64; BUCKET_COUNT],
}

// SAFETY: all fields are atomics, in C layout.
unsafe impl SharedWithPrograms for StreamCounters {}
// SAFETY: as above.
unsafe impl SharedWithPrograms for SequenceState {}
// SAFETY: as above.
unsafe impl SharedWithPrograms for CpuCounters {}

/// Frames of one stream that arrived at the sink.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamArrivals {
    /// Distinct frames; duplicates are not included.
    pub frames: u64,
    /// Bytes of these frames, with FCS.
    pub bytes: u64,
    /// Repeated arrivals of a frame.
    pub duplicates: u64,
    /// Frames that arrived after a higher number (RFC 4737, section 3.3).
    pub out_of_order: u64,
    /// Frames so late that they may be duplicates. `frames` includes them.
    pub before_window: u64,
    /// Frames with a negative or excessive transit time: the sender uses another clock.
    pub impossible_transits: u64,
    /// The highest frame number received.
    pub highest_number: Option<u64>,
    /// Interarrival jitter (RFC 3550, section 6.4.1); with several receiving CPUs, their mean weighted by frames.
    pub jitter_nanos: u64,
}

/// The memory-mapped maps of a sink program.
#[derive(Debug)]
pub struct SinkProgramMaps {
    stream_counters: SharedArray<StreamCounters>,
    sequence_states: SharedArray<SequenceState>,
    cpu_counters: SharedArray<CpuCounters>,
    cpus: usize,
}

impl SinkProgramMaps {
    /// Maps the counters of a loaded sink program.
    pub fn open(program: &Ebpf, sink_count: usize, cpu_count: usize) -> ProbeResult<Self> {
        Ok(Self {
            stream_counters: SharedArray::mmap_bpf_array(
                program,
                "stream_counters",
                sink_count * cpu_count,
            )?,
            sequence_states: SharedArray::mmap_bpf_array(program, "sequence_states", sink_count)?,
            cpu_counters: SharedArray::mmap_bpf_array(program, "cpu_counters", cpu_count)?,
            cpus: cpu_count,
        })
    }

    /// Returns the arrivals of one sink's stream.
    pub fn stream_arrivals(&self, sink_index: usize) -> StreamArrivals {
        let mut sum = StreamArrivals {
            highest_number: load_relaxed(&self.sequence_states[sink_index].next_number)
                .checked_sub(1),
            ..StreamArrivals::default()
        };
        let mut weighted_jitter_nanos = 0.0;
        for counters in &self.stream_counters[sink_index * self.cpus..][..self.cpus] {
            let frames = load_relaxed(&counters.frames);
            sum.frames += frames;
            sum.bytes += load_relaxed(&counters.bytes);
            sum.duplicates += load_relaxed(&counters.duplicates);
            sum.out_of_order += load_relaxed(&counters.out_of_order);
            sum.before_window += load_relaxed(&counters.before_window);
            sum.impossible_transits += load_relaxed(&counters.impossible_transits);
            weighted_jitter_nanos +=
                frames as f64 * counters.jitter.load(Ordering::Relaxed) as f64 / 16.0;
        }
        sum.jitter_nanos = (weighted_jitter_nanos / sum.frames.max(1) as f64) as u64;
        sum
    }

    /// Returns the one-way delays of the frames of all streams.
    pub fn one_way_delays(&self) -> HistogramCounts {
        let mut sum = HistogramCounts::empty();
        for cpu in self.cpu_counters.iter() {
            sum.add(&cpu.delay_buckets, &cpu.nonempty_octaves);
        }
        sum
    }

    /// Returns the frames that belong to none of the sinks.
    pub fn foreign_frames(&self) -> ForeignFrames {
        let mut sum = ForeignFrames::default();
        for cpu in self.cpu_counters.iter() {
            for (class_index, class) in ForeignFrameClass::ALL.into_iter().enumerate() {
                let example = cpu.examples[class_index].each_ref();
                let example = example.map(|byte| byte.load(Ordering::Relaxed));
                sum.add(class, load_relaxed(&cpu.foreign[class_index]), &example);
            }
        }
        sum
    }
}

fn load_relaxed(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
