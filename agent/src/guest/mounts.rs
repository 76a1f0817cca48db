//! Mounts the kernel's file systems and sets the kernel parameters of a guest.

use std::io;

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

use vnetbench_system::error::{RequestError, Result};

/// Mount points and file systems.
const MOUNT_POINTS_AND_TYPES: [(&str, &str); 5] = [
    ("/proc", "proc"),
    ("/sys", "sysfs"),
    ("/dev", "devtmpfs"),
    ("/run", "tmpfs"),
    ("/tmp", "tmpfs"),
];

/// Kernel parameters of a guest. Those of IPv6 avoid traffic that the bench did not request: no link-local addresses
/// (IN6_ADDR_GEN_MODE_NONE), no duplicate address detection, and no router solicitation.
const KERNEL_PARAMETERS: [(&str, &str); 9] = [
    // Reboots immediately after a panic, which ends QEMU with -no-reboot.
    ("kernel/panic", "-1"),
    ("kernel/panic_on_oops", "1"),
    // Keeps trials independent: TCP must not reuse metrics of an earlier connection.
    ("net/ipv4/tcp_no_metrics_save", "1"),
    // Without it, removing an address also removes later addresses of the same network.
    ("net/ipv4/conf/all/promote_secondaries", "1"),
    ("net/ipv6/conf/default/addr_gen_mode", "1"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/router_solicitations", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
];

/// Mounts the kernel's file systems.
pub fn mount_all_file_systems() -> Result<()> {
    for (mount_point, file_system) in MOUNT_POINTS_AND_TYPES {
        std::fs::create_dir_all(mount_point).map_err(|error| {
            RequestError::system(format!("create the folder {mount_point}"), error)
        })?;
        let flags = MountFlags::empty();
        match mount(file_system, mount_point, file_system, flags, None) {
            // The kernel has already mounted it (CONFIG_DEVTMPFS_MOUNT).
            Ok(()) | Err(Errno::BUSY) => {}
            Err(error) => return Err(RequestError::system(format!("mount {mount_point}"), error)),
        }
    }
    Ok(())
}

/// Sets the kernel parameters of a guest.
pub fn set_kernel_parameters() -> Result<()> {
    KERNEL_PARAMETERS
        .into_iter()
        .try_for_each(|(name, value)| set_sysctl(name, value))
}

/// Sets a parameter in /proc/sys. Ignores parameters of IPv6 if the kernel lacks it.
pub fn set_sysctl(name: &str, value: &str) -> Result<()> {
    match std::fs::write(format!("/proc/sys/{name}"), value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && name.contains("ipv6") => Ok(()),
        result => {
            result.map_err(|error| RequestError::system(format!("set {name} to {value}"), error))
        }
    }
}
