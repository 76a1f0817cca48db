//! Features of an interface that have a name but no command of their own (include/uapi/linux/ethtool.h, "ethtool -k").

use std::io;

use crate::ethtool_strings::{StringSet, names};
use crate::interface::Interface;

const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
/// Of the kernel's; it has a third of that.
const MAX_FEATURES: usize = 256;
const MAX_BLOCKS: usize = MAX_FEATURES / 32;

/// `struct ethtool_gfeatures`; of each block of 32 features bits: available, requested, active, never changed.
#[repr(C)]
struct FeatureState {
    command: u32,
    blocks: u32,
    bits: [[u32; 4]; MAX_BLOCKS],
}

/// `struct ethtool_sfeatures`; of each block: which to set, and to what.
#[repr(C)]
struct FeatureRequest {
    command: u32,
    blocks: u32,
    bits: [[u32; 2]; MAX_BLOCKS],
}

/// Where a feature is, and how many blocks there are.
struct FeaturePosition {
    block: usize,
    bit: u32,
    blocks: u32,
}

/// Whether it is on; EOPNOTSUPP where this kernel has none of that name.
pub fn read(interface: &Interface, name: &str) -> io::Result<bool> {
    let place = find(interface, name)?;
    let mut found = FeatureState {
        command: ETHTOOL_GFEATURES,
        blocks: place.blocks,
        bits: [[0; 4]; MAX_BLOCKS],
    };
    interface.ethtool(&mut found)?;
    let [_, _, active, _] = found.bits[place.block];
    Ok(active & place.bit != 0)
}

/// Asks for it; a driver may have it fixed, which shows when it is read back.
pub fn set(interface: &Interface, name: &str, on: bool) -> io::Result<()> {
    let place = find(interface, name)?;
    let mut wanted = FeatureRequest {
        command: ETHTOOL_SFEATURES,
        blocks: place.blocks,
        bits: [[0; 2]; MAX_BLOCKS],
    };
    wanted.bits[place.block] = [place.bit, if on { place.bit } else { 0 }];
    interface.ethtool(&mut wanted)
}

fn find(interface: &Interface, name: &str) -> io::Result<FeaturePosition> {
    let absent = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
    let names = names(interface, StringSet::Features)?;
    // More would not fit what is asked next.
    if names.len() > MAX_FEATURES {
        return Err(absent());
    }
    let at = names.iter().position(|each| each == name);
    let at = at.ok_or_else(absent)?;
    Ok(FeaturePosition {
        block: at / 32,
        bit: 1 << (at % 32),
        blocks: names.len().div_ceil(32) as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_are_as_large_as_the_kernels() {
        assert_eq!(size_of::<FeatureState>(), 8 + 16 * MAX_BLOCKS);
        assert_eq!(size_of::<FeatureRequest>(), 8 + 8 * MAX_BLOCKS);
    }

    #[test]
    fn a_feature_is_found_by_its_name_and_no_other_is() {
        let lo = Interface::open("lo").expect("lo");
        assert!(read(&lo, "loopback").expect("it always is one"));
        let absent = read(&lo, "tx-no-such-thing").map_err(|error| error.raw_os_error());
        assert_eq!(absent, Err(Some(libc::EOPNOTSUPP)));
    }
}
