//! Features of an interface, read and set by name (include/uapi/linux/ethtool.h, `ethtool -k`).

use std::io;

use crate::ethtool_strings::{StringSet, read_strings};
use crate::interface::Interface;

const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
/// Limit of features: three times what the kernel has.
const MAX_FEATURES: usize = 256;
const MAX_FEATURE_BLOCKS: usize = MAX_FEATURES / 32;

/// `struct ethtool_gfeatures`. Each block of 32 features has bits: available, requested, active, never changed.
#[repr(C)]
struct FeatureState {
    command: u32,
    block_count: u32,
    bits: [[u32; 4]; MAX_FEATURE_BLOCKS],
}

/// `struct ethtool_sfeatures`. Each block has the features to set, and their values.
#[repr(C)]
struct SetFeaturesRequest {
    command: u32,
    block_count: u32,
    bits: [[u32; 2]; MAX_FEATURE_BLOCKS],
}

/// Position of a feature, and the number of blocks.
struct FeaturePosition {
    block: usize,
    bit: u32,
    block_count: u32,
}

/// Returns whether a feature is on. Fails with EOPNOTSUPP if the kernel has no feature of this name.
pub fn is_feature_on(interface: &Interface, name: &str) -> io::Result<bool> {
    let position = find_feature(interface, name)?;
    let mut state = FeatureState {
        command: ETHTOOL_GFEATURES,
        block_count: position.block_count,
        bits: [[0; 4]; MAX_FEATURE_BLOCKS],
    };
    interface.run_ethtool_command(&mut state)?;
    let [_, _, active, _] = state.bits[position.block];
    Ok(active & position.bit != 0)
}

/// Turns a feature on or off. A driver may keep a feature fixed, so read it back.
pub fn set_feature(interface: &Interface, name: &str, is_on: bool) -> io::Result<()> {
    let position = find_feature(interface, name)?;
    let mut request = SetFeaturesRequest {
        command: ETHTOOL_SFEATURES,
        block_count: position.block_count,
        bits: [[0; 2]; MAX_FEATURE_BLOCKS],
    };
    request.bits[position.block] = [position.bit, if is_on { position.bit } else { 0 }];
    interface.run_ethtool_command(&mut request)
}

fn find_feature(interface: &Interface, name: &str) -> io::Result<FeaturePosition> {
    let unsupported = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
    let names = read_strings(interface, StringSet::Features)?;
    // More features would not fit the structures.
    if names.len() > MAX_FEATURES {
        return Err(unsupported());
    }
    let index = names.iter().position(|each| each == name);
    let at = index.ok_or_else(unsupported)?;
    Ok(FeaturePosition {
        block: at / 32,
        bit: 1 << (at % 32),
        block_count: names.len().div_ceil(32) as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_sizes_of_the_kernels() {
        assert_eq!(size_of::<FeatureState>(), 8 + 16 * MAX_FEATURE_BLOCKS);
        assert_eq!(size_of::<SetFeaturesRequest>(), 8 + 8 * MAX_FEATURE_BLOCKS);
    }

    #[test]
    fn features_are_found_by_their_exact_names() {
        let lo = Interface::open("lo").expect("lo");
        assert!(is_feature_on(&lo, "loopback").expect("lo always has this feature"));
        let unsupported =
            is_feature_on(&lo, "tx-no-such-thing").map_err(|error| error.raw_os_error());
        assert_eq!(unsupported, Err(Some(libc::EOPNOTSUPP)));
    }
}
