//! The names that the kernel and a driver have for an interface's features and statistics (include/uapi/linux/ethtool.h).

use std::io;

use crate::interface::Interface;

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const NAME_BYTES: usize = 32;
/// `struct ethtool_gstrings` before its names: command, set, count.
const HEADER_BYTES: usize = 12;
/// Beyond what any driver has: some have a hundred for each of many queues.
const MAX_NAMES: usize = 1 << 16;

/// A set of names.
#[derive(Clone, Copy)]
pub enum StringSet {
    /// ETH_SS_STATS: what the driver counts, `ethtool -S`.
    Statistics = 1,
    /// ETH_SS_FEATURES: what can be on or off, `ethtool -k`.
    Features = 4,
}

/// `struct ethtool_sset_info` with room for one number.
#[repr(C)]
struct SetInfo {
    command: u32,
    reserved: u32,
    sets: u64,
    count: u32,
}

/// How many the set has now; EOPNOTSUPP where this interface has no such set.
pub fn count(interface: &Interface, set: StringSet) -> io::Result<usize> {
    let mut info = SetInfo {
        command: ETHTOOL_GSSET_INFO,
        reserved: 0,
        sets: 1 << set as u32,
        count: 0,
    };
    interface.ethtool(&mut info)?;
    let count = info.count as usize;
    // The kernel takes the set out of the mask where there is none.
    if info.sets == 0 || count > MAX_NAMES {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(count)
}

/// The names of the set in their order.
pub fn names(interface: &Interface, set: StringSet) -> io::Result<Vec<String>> {
    let count = count(interface, set)?;
    let mut bytes = vec![0; HEADER_BYTES + buffer_words(count) * NAME_BYTES];
    let head = [ETHTOOL_GSTRINGS, set as u32, count as u32];
    for (to, word) in bytes.chunks_exact_mut(4).zip(head) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    interface.ethtool(bytes.as_mut_slice())?;
    let names = bytes[HEADER_BYTES..].chunks_exact(NAME_BYTES).take(count);
    Ok(names.map(trim_text).collect())
}

/// The kernel writes as many as there are when it is asked, whatever the caller made room for: somebody may give the
/// interface more queues between the count, which is to be taken just before, and that.
pub fn buffer_words(count: usize) -> usize {
    2 * count + 256
}

fn trim_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_as_large_as_the_kernels() {
        assert_eq!(size_of::<SetInfo>(), 24);
    }

    #[test]
    fn the_loopback_has_features_and_no_statistics() {
        let lo = Interface::open("lo").expect("lo");
        let features = names(&lo, StringSet::Features).expect("every interface has them");
        assert!(features.iter().any(|name| name == "loopback"));
        let statistics = names(&lo, StringSet::Statistics).map_err(|error| error.raw_os_error());
        assert_eq!(statistics, Err(Some(libc::EOPNOTSUPP)));
    }
}
