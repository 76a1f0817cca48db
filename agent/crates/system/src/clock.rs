//! The monotonic clock of this endpoint, and its identity: endpoints can compare times only if their identities are equal.

use std::sync::{PoisonError, RwLock};

use rustix::time::{ClockId, clock_gettime};

/// Identifies one boot of one kernel (random(4)): endpoints with the same boot id share its clock.
const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// Hash of the name of a clock; the bench may choose any name.
pub type ClockIdHash = [u8; 16];

enum ClockIdentitySource {
    /// The boot id, which this kernel reports.
    KernelBootId,
    /// `None`: unknown, so the clock equals no other.
    NamedByBench(Option<ClockIdHash>),
}

static CLOCK_IDENTITY: RwLock<ClockIdentitySource> = RwLock::new(ClockIdentitySource::KernelBootId);

/// Sets the identity of the clock in place of the boot id. Guests resumed from one snapshot have the same boot id, but
/// different clocks.
pub fn set_identity(clock_name: Option<&str>) {
    *CLOCK_IDENTITY
        .write()
        .unwrap_or_else(PoisonError::into_inner) =
        ClockIdentitySource::NamedByBench(clock_name.map(hash_clock_name));
}

/// Returns the identity of this endpoint's clock; `None` if it is unknown.
pub fn identity_hash() -> Option<ClockIdHash> {
    match *CLOCK_IDENTITY
        .read()
        .unwrap_or_else(PoisonError::into_inner)
    {
        ClockIdentitySource::NamedByBench(identity) => identity,
        ClockIdentitySource::KernelBootId => {
            let text = std::fs::read_to_string(BOOT_ID_FILE).ok()?;
            Some(hash_clock_name(&text))
        }
    }
}

/// Returns CLOCK_MONOTONIC in nanoseconds, the clock of bpf_ktime_get_ns.
pub fn monotonic_nanos() -> u64 {
    read_nanos(ClockId::Monotonic)
}

/// Returns CLOCK_REALTIME in nanoseconds, the clock of the kernel's receive timestamps.
pub fn realtime_nanos() -> u64 {
    read_nanos(ClockId::Realtime)
}

fn read_nanos(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CLOCK_REALTIME minus CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealtimeOffset {
    /// The difference in nanoseconds.
    pub nanos: i64,
    /// Its maximum error in nanoseconds.
    pub error_nanos: u64,
}

impl RealtimeOffset {
    /// Converts a time of CLOCK_REALTIME to CLOCK_MONOTONIC, both in nanoseconds.
    pub fn to_monotonic(self, realtime_nanos: u64) -> u64 {
        realtime_nanos.saturating_add_signed(self.nanos.saturating_neg())
    }
}

/// Compares the two clocks: of several readings of one between two of the other, the one with the closest two.
pub fn read_realtime_offset() -> RealtimeOffset {
    const READINGS: usize = 9;
    let read = |_| {
        let before = monotonic_nanos();
        let realtime = realtime_nanos();
        let after = monotonic_nanos();
        RealtimeOffset {
            nanos: realtime.wrapping_sub(before.midpoint(after)) as i64,
            error_nanos: (after - before).div_ceil(2),
        }
    };
    let readings = (0..READINGS).map(read);
    readings
        .min_by_key(|reading| reading.error_nanos)
        .expect("at least one reading")
}

/// Hashes the name of a clock without surrounding white space: 128-bit FNV-1a (draft-eastlake-fnv).
fn hash_clock_name(clock_name: &str) -> ClockIdHash {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0100_0000_0000_0000_0000_013b;
    let fold = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(PRIME);
    clock_name.trim().bytes().fold(BASIS, fold).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_equal_if_their_names_are() {
        assert_eq!(hash_clock_name("a host"), hash_clock_name("a host\n"));
        assert_ne!(hash_clock_name("a1"), hash_clock_name("b1"));
        let published = 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964_u128;
        assert_eq!(hash_clock_name("a"), published.to_be_bytes());
    }

    #[test]
    fn the_identity_of_a_kernel_is_stable() {
        assert!(identity_hash().is_some());
        assert_eq!(identity_hash(), identity_hash());
    }
}
