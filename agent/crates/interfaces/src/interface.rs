//! Network interfaces of this namespace.
//!
//! Settings are read by ioctl, because the agent reads some of them in each sample (netdevice(7),
//! include/uapi/linux/ethtool.h). They are changed by netlink (rtnetlink(7)), because not every ioctl is permitted in
//! user namespaces (dev_ioctl in net/core/dev_ioctl.c). ethtool and bridges have only an ioctl here.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::netlink::NetlinkSocket;

/// `struct ethtool_value`: one number.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// `struct ethtool_drvinfo` (ETHTOOL_GDRVINFO).
#[repr(C)]
struct RawDriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    rest: [u8; 64],
}

/// Information about a driver and its adapter. Any field may be empty.
pub struct DriverInfo {
    /// Name of the driver.
    pub driver: String,
    /// Version of the driver, usually that of the kernel.
    pub version: String,
    /// Version of the firmware.
    pub firmware: String,
    /// Address of the adapter on its bus.
    pub bus: String,
}

/// Maximum wait for a link. An e1000 negotiates its link for some seconds.
pub const LINK_TIMEOUT: Duration = Duration::from_secs(10);
const LINK_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Bridge requests SIOCBRADDBR, SIOCBRDELBR and SIOCBRADDIF (include/uapi/linux/sockios.h). The first two take only a
/// name, which starts every request.
const CREATE_BRIDGE_IOCTL: libc::Ioctl = 0x89a0;
const DELETE_BRIDGE_IOCTL: libc::Ioctl = 0x89a1;
const ADD_BRIDGE_PORT_IOCTL: libc::Ioctl = 0x89a2;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GLINK: u32 = 0x0a;

/// An interface, by its name.
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    socket: OwnedFd,
}

impl Interface {
    /// Opens an interface by name. Fails with ENODEV for an invalid name; a missing interface fails at the first request.
    pub fn open(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(['\0', '/']) {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        let socket = socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok(Self {
            name: name.into(),
            socket,
        })
    }

    /// Returns the MTU.
    pub fn mtu(&self) -> io::Result<u32> {
        let request = self.ioctl(libc::SIOCGIFMTU, self.make_ifreq())?;
        // SAFETY: SIOCGIFMTU has just filled this member; any bits are a valid integer.
        Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
    }

    /// Sets the MTU.
    pub fn set_mtu(&self, mtu: u32) -> io::Result<()> {
        self.change_link(|link| link.attributes.push(LinkAttribute::Mtu(mtu)))
    }

    /// Sets the transmit queue length.
    pub fn set_queue_length(&self, frames: u32) -> io::Result<()> {
        self.change_link(|link| link.attributes.push(LinkAttribute::TxQueueLen(frames)))
    }

    /// Sends the changes of this interface that `change` adds to a message.
    fn change_link(&self, change: impl FnOnce(&mut LinkMessage)) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = self.index()?;
        change(&mut link);
        NetlinkSocket::open_route()?.request(libc::RTM_SETLINK, 0, &link, |_| Ok(()))
    }

    /// Returns the interface index.
    pub fn index(&self) -> io::Result<u32> {
        Ok(name_to_index(&self.socket, &self.name)?)
    }

    fn read_flags(&self) -> io::Result<i32> {
        let request = self.ioctl(libc::SIOCGIFFLAGS, self.make_ifreq())?;
        // SAFETY: SIOCGIFFLAGS has just filled this member; any bits are a valid integer.
        Ok(i32::from(unsafe { request.ifr_ifru.ifru_flags }))
    }

    /// Returns whether the interface is up.
    pub fn is_up(&self) -> io::Result<bool> {
        Ok(self.read_flags()? & libc::IFF_UP != 0)
    }

    /// Returns whether the interface is up and has a carrier.
    pub fn is_running(&self) -> io::Result<bool> {
        let running = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(self.read_flags()? & running == running)
    }

    /// Returns whether the interface is running according to the kernel and the driver. The kernel's flags may change up to a
    /// second after the link is lost.
    pub fn has_link(&self) -> bool {
        let is_running = matches!(self.is_running(), Ok(true));
        is_running && !matches!(self.is_ethtool_switch_on(ETHTOOL_GLINK), Ok(false))
    }

    /// Returns whether the interface still exists after pending changes. The kernel sets a removed interface down some
    /// milliseconds before it removes it; ethtool requests wait for that.
    pub fn is_still_present(&self) -> bool {
        let request = self.is_ethtool_switch_on(ETHTOOL_GLINK);
        !matches!(request, Err(error) if error.raw_os_error() == Some(libc::ENODEV))
    }

    /// Waits for the link, up to [`LINK_TIMEOUT`], and returns whether it is there.
    pub fn wait_for_link(&self) -> bool {
        let deadline = Instant::now() + LINK_TIMEOUT;
        while !self.has_link() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(LINK_POLL_INTERVAL);
        }
        true
    }

    /// Sets the interface up or down.
    pub fn set_is_up(&self, is_up: bool) -> io::Result<()> {
        self.change_link(|link| {
            link.header.change_mask = LinkFlags::Up;
            link.header.flags.set(LinkFlags::Up, is_up);
        })
    }

    /// Renames the interface, which must be down. This value keeps the old name.
    pub fn set_name(&self, name: &str) -> io::Result<()> {
        let renamed = Self::open(name)?.name;
        self.change_link(|link| link.attributes.push(LinkAttribute::IfName(renamed)))
    }

    /// Returns the MAC address, such as `02:00:00:00:00:01`.
    pub fn mac_text(&self) -> io::Result<String> {
        let hex: Vec<String> = self
            .mac_bytes()?
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Ok(hex.join(":"))
    }

    /// Returns the MAC address as bytes.
    pub fn mac_bytes(&self) -> io::Result<[u8; 6]> {
        let request = self.ioctl(libc::SIOCGIFHWADDR, self.make_ifreq())?;
        // SAFETY: SIOCGIFHWADDR has just filled this member; any bits are a valid address.
        let bytes = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
        Ok(std::array::from_fn(|i| bytes[i] as u8))
    }

    /// Sets the MAC address. Fails with EBUSY if the interface must be down for that.
    pub fn set_mac(&self, mac: &str) -> io::Result<()> {
        let bytes = parse_mac(mac).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        self.change_link(|link| link.attributes.push(LinkAttribute::Address(bytes.into())))
    }

    /// Returns the folder of the interface in sysfs. Fails with ENODEV if the interface does not exist. Fails with EOPNOTSUPP
    /// if /sys is absent or belongs to another network namespace, which may have an interface of the same name.
    pub fn sysfs_folder(&self) -> io::Result<PathBuf> {
        let mac = self.mac_text()?;
        let folder = PathBuf::from("/sys/class/net").join(&self.name);
        let reported_mac = std::fs::read_to_string(folder.join("address")).unwrap_or_default();
        if reported_mac.trim() != mac {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        Ok(folder)
    }

    /// Returns the folder of the interface's bus device in sysfs. Fails with EOPNOTSUPP if it has none.
    pub fn bus_device_path(&self) -> io::Result<PathBuf> {
        let unsupported = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        let device = self.sysfs_folder()?.join("device").canonicalize();
        let device = device.map_err(|_| unsupported())?;
        // The bus device is the parent of the virtio device.
        if read_bus_type(&device).as_deref() == Some("virtio") {
            return device.parent().map(PathBuf::from).ok_or_else(unsupported);
        }
        Ok(device)
    }

    /// Returns the name of the driver.
    pub fn driver_name(&self) -> io::Result<String> {
        Ok(self.driver_info()?.driver)
    }

    /// Returns information about the driver and the adapter.
    pub fn driver_info(&self) -> io::Result<DriverInfo> {
        let mut raw = RawDriverInfo {
            command: ETHTOOL_GDRVINFO,
            driver: [0; 32],
            version: [0; 32],
            firmware: [0; 32],
            bus: [0; 32],
            rest: [0; 64],
        };
        self.run_ethtool_command(&mut raw)?;
        let text = |bytes| {
            let text = CStr::from_bytes_until_nul(bytes).unwrap_or_default();
            text.to_string_lossy().into_owned()
        };
        Ok(DriverInfo {
            driver: text(&raw.driver),
            version: text(&raw.version),
            firmware: text(&raw.firmware),
            bus: text(&raw.bus),
        })
    }

    /// Returns the value of an on-or-off setting of ethtool, such as ETHTOOL_GTSO.
    pub fn is_ethtool_switch_on(&self, command: u32) -> io::Result<bool> {
        let mut value = EthtoolValue { command, data: 0 };
        self.run_ethtool_command(&mut value)?;
        Ok(value.data != 0)
    }

    /// Changes an on-or-off setting of ethtool, such as ETHTOOL_STSO.
    pub fn set_ethtool_switch(&self, command: u32, on: bool) -> io::Result<()> {
        let data = u32::from(on);
        self.run_ethtool_command(&mut EthtoolValue { command, data })
    }

    /// Creates a bridge of this name.
    pub fn create_bridge(&self) -> io::Result<()> {
        self.ioctl(CREATE_BRIDGE_IOCTL, self.make_ifreq()).map(drop)
    }

    /// Removes the bridge of this name. Fails with ENXIO if it does not exist.
    pub fn remove_bridge(&self) -> io::Result<()> {
        // A bridge must be down. If it does not exist, the removal fails.
        let _ = self.set_is_up(false);
        self.ioctl(DELETE_BRIDGE_IOCTL, self.make_ifreq()).map(drop)
    }

    /// Adds a port to this bridge.
    pub fn add_port(&self, port: &Self) -> io::Result<()> {
        let mut request = self.make_ifreq();
        request.ifr_ifru.ifru_ifindex = port.index()? as i32;
        self.ioctl(ADD_BRIDGE_PORT_IOCTL, request).map(drop)
    }

    /// Returns the number of queues of the kind `rx-` or `tx-`.
    pub fn count_queues(&self, name_prefix: &str) -> io::Result<u32> {
        let mut count = 0;
        for entry in std::fs::read_dir(self.sysfs_folder()?.join("queues"))? {
            count += u32::from(
                entry?
                    .file_name()
                    .to_string_lossy()
                    .starts_with(name_prefix),
            );
        }
        Ok(count)
    }

    fn make_ifreq(&self) -> libc::ifreq {
        // SAFETY: an all-zero `ifreq` is valid: integers, and a union of integers, addresses and null pointers.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        request
    }

    /// Runs an ethtool command. `T` must be the structure of the command in its first field, with room for the whole answer.
    pub fn run_ethtool_command<T: ?Sized>(&self, argument: &mut T) -> io::Result<()> {
        let mut request = self.make_ifreq();
        request.ifr_ifru.ifru_data = (argument as *mut T).cast();
        self.ioctl(libc::SIOCETHTOOL, request).map(drop)
    }

    fn ioctl(&self, number: libc::Ioctl, mut request: libc::ifreq) -> io::Result<libc::ifreq> {
        // SAFETY: `request` is a valid `ifreq` during the call. A structure of ethtool that it points to is borrowed mutably
        // by the caller, and as large as what the kernel reads or writes (see `ethtool`).
        let status = unsafe { libc::ioctl(self.socket.as_raw_fd(), number, &raw mut request) };
        if status < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(request)
    }
}

/// Returns the bus of a device in sysfs, such as `pci`, `virtio` or `vmbus`.
pub fn read_bus_type(device: &Path) -> Option<String> {
    let bus = device.join("subsystem").canonicalize().ok()?;
    Some(bus.file_name()?.to_string_lossy().into_owned())
}

/// Parses a MAC address such as `02:00:00:00:00:01`.
pub fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|part| {
            u8::from_str_radix(part, 16)
                .ok()
                .filter(|_| part.len() == 2)
        })
        .collect();
    bytes?.try_into().ok()
}

/// Returns the names of all interfaces of this namespace.
pub fn list_interface_names() -> Vec<String> {
    // A name may hold invalid UTF-8.
    let text = std::fs::read("/proc/net/dev").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .skip(2)
        .filter_map(|line| Some(line.rsplit_once(':')?.0.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_sizes_of_the_kernels() {
        assert_eq!(size_of::<EthtoolValue>(), 8);
        assert_eq!(size_of::<RawDriverInfo>(), 196);
    }

    #[test]
    fn the_loopback_exists_and_unknown_interfaces_do_not() {
        assert!(list_interface_names().contains(&"lo".to_owned()));
        assert!(Interface::open("lo").and_then(|lo| lo.mtu()).expect("lo") > 0);
        let unsupported = Interface::open("vnb-absent").and_then(|i| i.mtu());
        assert_eq!(
            unsupported.map_err(|e| e.raw_os_error()),
            Err(Some(libc::ENODEV))
        );
        assert!(Interface::open("a-name-that-is-too-long").is_err());
    }
}
