//! Names of an interface's features and statistics (include/uapi/linux/ethtool.h).

use std::io;

use crate::interface::Interface;

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const PADDED_NAME_BYTES: usize = 32;
/// Bytes of `struct ethtool_gstrings` before the names: command, set, count.
const STRINGS_HEADER_BYTES: usize = 12;
/// Limit of names, above what any driver has; some drivers have a hundred names for each queue.
const MAX_NAMES: usize = 1 << 16;

/// A set of names.
#[derive(Clone, Copy)]
pub enum StringSet {
    /// ETH_SS_STATS: statistics of the driver (`ethtool -S`).
    Statistics = 1,
    /// ETH_SS_FEATURES: features that can be on or off (`ethtool -k`).
    Features = 4,
}

/// `struct ethtool_sset_info` with one count.
#[repr(C)]
struct SetInfo {
    command: u32,
    reserved: u32,
    sets: u64,
    count: u32,
}

/// Returns the number of names in a set. Fails with EOPNOTSUPP if the interface has no such set.
pub fn count_strings(interface: &Interface, set: StringSet) -> io::Result<usize> {
    let mut info = SetInfo {
        command: ETHTOOL_GSSET_INFO,
        reserved: 0,
        sets: 1 << set as u32,
        count: 0,
    };
    interface.run_ethtool_command(&mut info)?;
    let count = info.count as usize;
    // The kernel clears the set's bit in the mask if the set does not exist.
    if info.sets == 0 || count > MAX_NAMES {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(count)
}

/// Returns the names of a set, in order. Fails with EOPNOTSUPP if the interface has no such set.
pub fn read_strings(interface: &Interface, set: StringSet) -> io::Result<Vec<String>> {
    let count = count_strings(interface, set)?;
    let mut bytes =
        vec![0; STRINGS_HEADER_BYTES + capacity_with_reserve(count) * PADDED_NAME_BYTES];
    let head = [ETHTOOL_GSTRINGS, set as u32, count as u32];
    for (to, word) in bytes.chunks_exact_mut(4).zip(head) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    interface.run_ethtool_command(bytes.as_mut_slice())?;
    let names = bytes[STRINGS_HEADER_BYTES..]
        .chunks_exact(PADDED_NAME_BYTES)
        .take(count);
    Ok(names.map(parse_padded_text).collect())
}

/// Returns a buffer size with reserve. The kernel writes all names or statistics, whatever the size of the buffer, and their
/// number may grow after the count was taken, such as with more queues.
pub fn capacity_with_reserve(count: usize) -> usize {
    2 * count + 256
}

fn parse_padded_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_size_of_the_kernels() {
        assert_eq!(size_of::<SetInfo>(), 24);
    }

    #[test]
    fn the_loopback_has_features_and_no_statistics() {
        let lo = Interface::open("lo").expect("lo");
        let features = read_strings(&lo, StringSet::Features).expect("every interface has them");
        assert!(features.iter().any(|name| name == "loopback"));
        let statistics =
            read_strings(&lo, StringSet::Statistics).map_err(|error| error.raw_os_error());
        assert_eq!(statistics, Err(Some(libc::EOPNOTSUPP)));
    }
}
