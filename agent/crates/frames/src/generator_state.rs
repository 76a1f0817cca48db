//! Configuration and state of the generator program (bpf/generate.bpf.c).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use aya::Pod;

use crate::parameters::{FrameParameters, MAX_MIX_SEQUENCE_FRAMES};
use crate::template::{FrameTemplate, SizeFields};
use vnetbench_bpf::SharedWithPrograms;
use vnetbench_streams::frame_pacing::{BURST_CLASSES, FrameGap};
use vnetbench_system::histogram::BUCKET_COUNT;

/// The object that build.rs compiles from bpf/generate.bpf.c.
pub static GENERATE: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/generate.bpf.o"));

const MAX_HEADER_WORDS: usize = 10;

/// Configuration of the generator: `struct generator_config` of bpf/generate.bpf.c, which documents the fields.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct GeneratorConfig {
    header_words: [u64; MAX_HEADER_WORDS],
    max_frames: u64,
    gap_nanos: u64,
    gap_nanos_fraction_32_bits: u64,
    catch_up_gap_nanos: u64,
    catch_up_without_gap_nanos: u64,
    header_word_count: u32,
    ip_offset: u32,
    udp_offset: u32,
    is_ipv6: u32,
    varies_addresses: u32,
    flow_count: u32,
    size_count: u32,
    largest_bytes: u32,
    size_fields: [SizeFields; MAX_MIX_SEQUENCE_FRAMES],
}

// SAFETY: all fields are integers, in C layout without padding.
unsafe impl Pod for GeneratorConfig {}

/// State of the generator: `struct generator_state` of bpf/generate.bpf.c, which documents the fields.
#[repr(C)]
#[derive(Debug)]
pub struct GeneratorState {
    pub stop: AtomicU64,
    pub first_number: AtomicU64,
    unused: [AtomicU64; 6],
    pub generated: AtomicU64,
    pub generated_bytes: AtomicU64,
    pub sent: AtomicU64,
    pub now_nanos: AtomicU64,
    pub due_nanos: AtomicU64,
    pub due_nanos_fraction_32_bits: AtomicU64,
    pub earliest_nanos: AtomicU64,
    pub flow: AtomicU32,
    pub size: AtomicU32,
    pub queued: AtomicU32,
    pub cpu: AtomicU32,
    pub first_due_nanos: AtomicU64,
    pub lateness_sum_nanos: AtomicU64,
    pub lateness_max_nanos: AtomicU64,
    pub last_transmit_nanos: AtomicU64,
    pub burst: AtomicU64,
    pub burst_max: AtomicU64,
    pub bursts: [AtomicU64; BURST_CLASSES],
}

// SAFETY: all fields are atomics, in C layout.
unsafe impl SharedWithPrograms for GeneratorState {}

/// How late the port got frames: `struct lateness_histogram` of bpf/generate.bpf.c.
#[repr(C)]
#[derive(Debug)]
pub struct LatenessHistogram(pub [AtomicU64; BUCKET_COUNT]);

// SAFETY: as above.
unsafe impl SharedWithPrograms for LatenessHistogram {}

impl GeneratorState {
    /// Resets the state to what it was before the first frame.
    pub fn reset(&self) {
        let counts = [
            &self.first_number,
            &self.generated,
            &self.generated_bytes,
            &self.sent,
            &self.due_nanos,
            &self.due_nanos_fraction_32_bits,
            &self.earliest_nanos,
            &self.lateness_sum_nanos,
            &self.lateness_max_nanos,
            &self.last_transmit_nanos,
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

/// Builds the configuration of the generator for one stream.
pub fn build_config(
    parameters: &FrameParameters,
    template: &FrameTemplate,
    size_fields: &[SizeFields],
    largest_bytes: usize,
) -> GeneratorConfig {
    let mut header_words = [0; MAX_HEADER_WORDS];
    // The last word may extend into the frame number, which the program writes afterwards.
    let length = template.payload_offset() + 4;
    let first_frame = template.build_frame(size_fields[0].frame_bytes.into(), 0, 0, 0);
    let mut bytes = first_frame[..length].to_vec();
    bytes.resize(length.next_multiple_of(8), 0);
    for (word, bytes) in header_words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().expect("a chunk has eight bytes"));
    }
    let mut config = GeneratorConfig {
        header_words,
        max_frames: parameters.max_frames.unwrap_or(u64::MAX),
        gap_nanos: 0,
        gap_nanos_fraction_32_bits: 0,
        catch_up_gap_nanos: 0,
        catch_up_without_gap_nanos: 0,
        header_word_count: length.div_ceil(8) as u32,
        ip_offset: template.ip_offset as u32,
        udp_offset: template.udp_offset() as u32,
        is_ipv6: template.is_ipv6.into(),
        varies_addresses: template.varies_addresses.into(),
        flow_count: parameters.flows,
        size_count: size_fields.len() as u32,
        largest_bytes: largest_bytes as u32,
        size_fields: [SizeFields::default(); MAX_MIX_SEQUENCE_FRAMES],
    };
    config.size_fields[..size_fields.len()].copy_from_slice(size_fields);
    if let Some(per_s) = parameters.frames_per_s {
        let gap = FrameGap::from_rate(per_s);
        config.gap_nanos = gap.nanos;
        config.gap_nanos_fraction_32_bits = gap.nanos_fraction_32_bits;
        config.catch_up_gap_nanos = gap.catch_up_gap_nanos;
        config.catch_up_without_gap_nanos = gap.catch_up_without_gap_nanos;
    }
    config
}
