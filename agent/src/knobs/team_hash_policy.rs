//! The knob `team_hash_policy`: by what the bond that an interface runs over chooses the member of a packet
//! (Documentation/networking/bonding.rst, `xmit_hash_policy`).

use std::io;
use std::path::{Path, PathBuf};

use vnetbench_interfaces::interface::Interface;

const OPTION_FILE: &str = "bonding/xmit_hash_policy";
/// More interfaces than a host stacks on each other, such as a VLAN on a bridge on a bond.
const MAX_STACKED_INTERFACES: usize = 8;

/// Returns the policy. Fails with EOPNOTSUPP if the interface runs over no bond.
pub fn read_hash_policy(interface: &Interface) -> io::Result<String> {
    let text = std::fs::read_to_string(find_option_file(interface)?)?;
    // The kernel adds the policy's number: `layer3+4 1`.
    Ok(text.split_whitespace().next().unwrap_or("").to_owned())
}

/// Sets the policy.
pub fn set_hash_policy(interface: &Interface, policy: &str) -> io::Result<()> {
    std::fs::write(find_option_file(interface)?, policy)
}

fn find_option_file(interface: &Interface) -> io::Result<PathBuf> {
    find_below(&interface.sysfs_folder()?, MAX_STACKED_INTERFACES)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))
}

/// Returns the option's file of the interface itself, or of the first bond below it.
fn find_below(folder: &Path, depth: usize) -> Option<PathBuf> {
    let file = folder.join(OPTION_FILE);
    if file.exists() {
        return Some(file);
    }
    let mut lower: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_lower_interface(path))
        .collect();
    lower.sort();
    lower
        .iter()
        .filter(|_| depth > 0)
        .find_map(|path| find_below(path, depth - 1))
}

fn is_lower_interface(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("lower_"))
}
