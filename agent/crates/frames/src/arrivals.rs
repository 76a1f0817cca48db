//! What the sink program counts, as it stands in its maps (bpf/arrivals.h), added up over the CPUs that received.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

use aya::Ebpf;

use crate::bpf_programs::{Able, SharedArray, SharedWithPrograms};
use crate::foreign::{EXAMPLE_BYTES, Kind, Strangers};
use vnetbench_system::histogram::{BUCKETS, Counts};

/// The words of one stream (WORDS in bpf/arrivals.h).
pub const WORDS: u32 = 1 << 15;

/// `struct account`: of one stream on one CPU.
#[derive(Debug)]
#[repr(C)]
struct Account {
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
struct Order {
    next: AtomicU64,
    unused: [AtomicU64; 15],
}

/// `struct receiver`: of one CPU.
#[derive(Debug)]
#[repr(C)]
struct Receiver {
    foreign: [AtomicU64; Kind::ALL.len()],
    examples: [[AtomicU8; EXAMPLE_BYTES]; Kind::ALL.len()],
    touched: AtomicU64,
    delay: [AtomicU64; BUCKETS],
}

// SAFETY: all atomics, laid out as C does it.
unsafe impl SharedWithPrograms for Account {}
// SAFETY: as above.
unsafe impl SharedWithPrograms for Order {}
// SAFETY: as above.
unsafe impl SharedWithPrograms for Receiver {}

/// What has come of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrived {
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
    pub highest: Option<u64>,
    /// RFC 3550's (section 6.4.1); where several CPUs receive, the mean of theirs, by the frames of each.
    pub jitter_nanos: u64,
}

/// The maps of a sink program.
#[derive(Debug)]
pub struct Arrivals {
    accounts: SharedArray<Account>,
    orders: SharedArray<Order>,
    receivers: SharedArray<Receiver>,
    cpus: usize,
}

impl Arrivals {
    pub fn of(program: &Ebpf, sinks: usize, cpus: usize) -> Able<Self> {
        Ok(Self {
            accounts: SharedArray::of(program, "accounts", sinks * cpus)?,
            orders: SharedArray::of(program, "orders", sinks)?,
            receivers: SharedArray::of(program, "receivers", cpus)?,
            cpus,
        })
    }

    pub fn of_stream(&self, place: usize) -> Arrived {
        let mut sum = Arrived {
            highest: load(&self.orders[place].next).checked_sub(1),
            ..Arrived::default()
        };
        let mut jitters = 0.0;
        for account in &self.accounts[place * self.cpus..][..self.cpus] {
            let frames = load(&account.frames);
            sum.frames += frames;
            sum.bytes += load(&account.bytes);
            sum.duplicates += load(&account.duplicates);
            sum.out_of_order += load(&account.out_of_order);
            sum.before_window += load(&account.before_window);
            sum.impossible_transits += load(&account.impossible_transits);
            jitters += frames as f64 * account.jitter.load(Ordering::Relaxed) as f64 / 16.0;
        }
        sum.jitter_nanos = (jitters / sum.frames.max(1) as f64) as u64;
        sum
    }

    /// How long the frames of all streams were under way.
    pub fn delay(&self) -> Counts {
        let mut sum = Counts::none();
        for receiver in self.receivers.iter() {
            sum.add(&receiver.delay, &receiver.touched);
        }
        sum
    }

    pub fn strangers(&self) -> Strangers {
        let mut sum = Strangers::default();
        for receiver in self.receivers.iter() {
            for (place, kind) in Kind::ALL.into_iter().enumerate() {
                let example = receiver.examples[place].each_ref();
                let example = example.map(|byte| byte.load(Ordering::Relaxed));
                sum.add(kind, load(&receiver.foreign[place]), &example);
            }
        }
        sum
    }
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
