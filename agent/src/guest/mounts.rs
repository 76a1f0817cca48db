//! The kernel's own file systems, and what a guest's kernel is told before anything else.

use std::io;

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

use vnetbench_system::error::{Error, Result};

/// Where, and which.
const MOUNTS: [(&str, &str); 5] = [
    ("/proc", "proc"),
    ("/sys", "sysfs"),
    ("/dev", "devtmpfs"),
    ("/run", "tmpfs"),
    ("/tmp", "tmpfs"),
];

/// Of IPv6 only the addresses that the bench gives: no link-local ones (IN6_ADDR_GEN_MODE_NONE), none to be tried first,
/// and no looking for routers. It is load that nobody asked for.
const SETTINGS: [(&str, &str); 9] = [
    // A kernel that has panicked starts again at once, which ends QEMU with -no-reboot.
    ("kernel/panic", "-1"),
    ("kernel/panic_on_oops", "1"),
    // What TCP learned of a path in one trial must not start the next one: trials are independent.
    ("net/ipv4/tcp_no_metrics_save", "1"),
    // An address that goes would take those with it that came later to the same network.
    ("net/ipv4/conf/all/promote_secondaries", "1"),
    ("net/ipv6/conf/default/addr_gen_mode", "1"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/router_solicitations", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
];

pub fn mount_all() -> Result<()> {
    for (place, kind) in MOUNTS {
        std::fs::create_dir_all(place)
            .map_err(|error| Error::system(format!("make the folder {place}"), error))?;
        match mount(kind, place, kind, MountFlags::empty(), None) {
            // The kernel has mounted it (CONFIG_DEVTMPFS_MOUNT).
            Ok(()) | Err(Errno::BUSY) => {}
            Err(error) => return Err(Error::system(format!("mount {place}"), error)),
        }
    }
    Ok(())
}

pub fn set_kernel_parameters() -> Result<()> {
    SETTINGS
        .into_iter()
        .try_for_each(|(name, value)| set_sysctl(name, value))
}

/// Sets one of /proc/sys. A kernel without IPv6 has none of its settings.
pub fn set_sysctl(name: &str, value: &str) -> Result<()> {
    match std::fs::write(format!("/proc/sys/{name}"), value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && name.contains("ipv6") => Ok(()),
        written => written.map_err(|error| Error::system(format!("set {name} to {value}"), error)),
    }
}
