//! The clock that this endpoint reads, and whose it is: two that name the same one can compare times, and no others can.

use std::sync::{PoisonError, RwLock};

use rustix::time::{ClockId, clock_gettime};

/// Tells one start of one kernel from every other (random(4)): two sides that read the same share its clock.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Fits any text, so that a bench can name clocks as it likes.
pub type Identity = [u8; 16];

enum ClockIdentity {
    ByKernel,
    /// `None`: by nobody, so that no other clock is the same.
    ByBench(Option<Identity>),
}

static CLOCK_IDENTITY: RwLock<ClockIdentity> = RwLock::new(ClockIdentity::ByKernel);

/// From now on it is the bench that says which clock this is. A guest that was resumed from a snapshot has the boot id of
/// all others that were.
pub fn set(text: Option<&str>) {
    *CLOCK_IDENTITY
        .write()
        .unwrap_or_else(PoisonError::into_inner) = ClockIdentity::ByBench(text.map(parse_identity));
}

/// `None` where it cannot be told.
pub fn identity() -> Option<Identity> {
    match *CLOCK_IDENTITY
        .read()
        .unwrap_or_else(PoisonError::into_inner)
    {
        ClockIdentity::ByBench(identity) => identity,
        ClockIdentity::ByKernel => {
            let text = std::fs::read_to_string(BOOT_ID).ok()?;
            Some(parse_identity(&text))
        }
    }
}

/// CLOCK_MONOTONIC in nanoseconds, which BPF programs read too (bpf_ktime_get_ns).
pub fn monotonic_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// FNV-1a of 128 bits (draft-eastlake-fnv), of the text without the blanks around it.
fn parse_identity(text: &str) -> Identity {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0100_0000_0000_0000_0000_013b;
    let fold = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(PRIME);
    text.trim().bytes().fold(BASIS, fold).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_one_name_are_the_same_and_of_others_are_not() {
        assert_eq!(parse_identity("a host"), parse_identity("a host\n"));
        assert_ne!(parse_identity("a1"), parse_identity("b1"));
        let published = 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964_u128;
        assert_eq!(parse_identity("a"), published.to_be_bytes());
    }

    #[test]
    fn what_shares_a_kernel_shares_its_clock() {
        assert!(identity().is_some());
        assert_eq!(identity(), identity());
    }
}
