//! What the generator's program is told before it runs, and what it keeps while it does (bpf/generate.bpf.c).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use aya::Pod;

use crate::bpf_programs::SharedWithPrograms;
use crate::parameters::{FrameParameters, MAX_MIX_FRAMES};
use crate::template::{FrameTemplate, SizeFields};
use vnetbench_streams::frame_pacing::{BURST_CLASSES, FrameGap};
use vnetbench_system::histogram::BUCKETS;

const HEADER_WORDS: usize = 10;

/// `struct plan` of bpf/generate.bpf.c.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct GeneratorConfig {
    start: [u64; HEADER_WORDS],
    most: u64,
    gap: u64,
    gap_fraction: u64,
    short_gap: u64,
    slack: u64,
    start_words: u32,
    ip_at: u32,
    udp_at: u32,
    is_ipv6: u32,
    varies_addresses: u32,
    flows: u32,
    sizes: u32,
    largest: u32,
    shapes: [SizeFields; MAX_MIX_FRAMES],
}

// SAFETY: integers only, laid out as C does it and without padding.
unsafe impl Pod for GeneratorConfig {}

/// `struct progress` of bpf/generate.bpf.c.
#[repr(C)]
#[derive(Debug)]
pub struct GeneratorState {
    pub stop: AtomicU64,
    pub first_number: AtomicU64,
    unused: [AtomicU64; 6],
    pub made: AtomicU64,
    pub made_bytes: AtomicU64,
    pub sent: AtomicU64,
    pub now: AtomicU64,
    pub due: AtomicU64,
    pub due_fraction: AtomicU64,
    pub gate: AtomicU64,
    pub flow: AtomicU32,
    pub size: AtomicU32,
    pub waiting: AtomicU32,
    pub cpu: AtomicU32,
    pub first_due: AtomicU64,
    pub late_sum: AtomicU64,
    pub late_max: AtomicU64,
    pub left_at: AtomicU64,
    pub burst: AtomicU64,
    pub burst_max: AtomicU64,
    pub bursts: [AtomicU64; BURST_CLASSES],
}

// SAFETY: all atomics, laid out as C does it.
unsafe impl SharedWithPrograms for GeneratorState {}

/// `struct late` of bpf/generate.bpf.c.
#[repr(C)]
#[derive(Debug)]
pub struct LatenessHistogram(pub [AtomicU64; BUCKETS]);

// SAFETY: as above.
unsafe impl SharedWithPrograms for LatenessHistogram {}

impl GeneratorState {
    /// As it was before any frame was made.
    pub fn reset(&self) {
        let counts = [
            &self.first_number,
            &self.made,
            &self.made_bytes,
            &self.sent,
            &self.due,
            &self.due_fraction,
            &self.gate,
            &self.late_sum,
            &self.late_max,
            &self.left_at,
            &self.burst,
            &self.burst_max,
        ];
        for count in counts.into_iter().chain(&self.bursts) {
            count.store(0, Ordering::Relaxed);
        }
        self.flow.store(0, Ordering::Relaxed);
        self.size.store(0, Ordering::Relaxed);
    }
}

pub fn build_config(
    parameters: &FrameParameters,
    template: &FrameTemplate,
    shapes: &[SizeFields],
    largest: usize,
) -> GeneratorConfig {
    let mut start = [0; HEADER_WORDS];
    // The number that follows is the program's to write, so that a word too long does no harm.
    let length = template.payload_offset() + 4;
    let first = template.frame(shapes[0].bytes.into(), 0, 0, 0);
    let mut bytes = first[..length].to_vec();
    bytes.resize(length.next_multiple_of(8), 0);
    for (word, bytes) in start.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    }
    let mut plan = GeneratorConfig {
        start,
        most: parameters.max_frames.unwrap_or(u64::MAX),
        gap: 0,
        gap_fraction: 0,
        short_gap: 0,
        slack: 0,
        start_words: length.div_ceil(8) as u32,
        ip_at: template.ip_offset as u32,
        udp_at: template.udp_offset() as u32,
        is_ipv6: template.is_ipv6.into(),
        varies_addresses: template.varies_addresses.into(),
        flows: parameters.flows,
        sizes: shapes.len() as u32,
        largest: largest as u32,
        shapes: [SizeFields::default(); MAX_MIX_FRAMES],
    };
    plan.shapes[..shapes.len()].copy_from_slice(shapes);
    if let Some(per_s) = parameters.frames_per_s {
        let gap = FrameGap::from_rate(per_s);
        plan.gap = gap.nanos;
        plan.gap_fraction = gap.fraction;
        plan.short_gap = gap.shortened;
        plan.slack = gap.slack;
    }
    plan
}
