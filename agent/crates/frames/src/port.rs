//! The port: the interface that frames leave and arrive by, and a packet socket to announce it.

use std::io;
use std::os::fd::AsRawFd;

use etherparse::{Ethernet2Header, SingleVlanHeader};
use socket2::{Domain, Socket, Type};

use vnetbench_interfaces::interface::Interface;
use vnetbench_system::error::{ErrorKind, RequestError, Result};

use crate::parameters::FCS_BYTES;

/// A switch learns the port's address from the first frame. Two more frames allow for a device that drops frames while
/// it resolves the next hop.
const ANNOUNCEMENT_FRAME_COUNT: usize = 3;

/// An interface in use as a port.
#[derive(Debug)]
pub struct Port {
    /// Interface name.
    pub name: String,
    /// Interface index.
    pub index: u32,
    /// MAC address.
    pub mac: [u8; 6],
    /// MTU in bytes.
    pub mtu: usize,
    /// Driver name; empty if the interface has no driver.
    pub driver: String,
}

impl Port {
    /// Opens an interface as a port and waits for its link.
    ///
    /// # Errors
    ///
    /// Fails if the interface does not exist, is down or has no link.
    pub fn open_with_link(name: &str) -> Result<Self> {
        let port_error = |error| {
            RequestError::system(format!("use {name} as a port"), error)
                .with_kind_if_none(ErrorKind::FramesPort)
        };
        let interface = Interface::open(name).map_err(port_error)?;
        let port = Self {
            name: name.into(),
            index: interface.index().map_err(port_error)?,
            mac: interface.mac_bytes().map_err(port_error)?,
            mtu: interface.mtu().map_err(port_error)? as usize,
            driver: interface.driver_name().unwrap_or_default(),
        };
        // An interface that has just been set up may still wait for its link.
        if !(interface.is_up().map_err(port_error)? && interface.wait_for_link()) {
            return Err(port_error(io::Error::other(
                "the interface is down, or has no link",
            )));
        }
        Ok(port)
    }

    /// Checks that a frame of this size, with FCS, fits the MTU.
    pub fn check_frame_fits_mtu(&self, bytes: usize, vlan_tag_count: usize) -> Result<()> {
        // The kernel allows one VLAN tag in addition to the MTU.
        let overhead_bytes =
            Ethernet2Header::LEN + FCS_BYTES + SingleVlanHeader::LEN * vlan_tag_count.min(1);
        if bytes <= self.mtu + overhead_bytes {
            return Ok(());
        }
        Err(RequestError::Trial(format!(
            "a frame of {bytes} bytes is too large, because the MTU of {} is {}. Set the MTU to {}",
            self.name,
            self.mtu,
            bytes - overhead_bytes
        )))
    }

    /// Opens a packet socket that sends at the port and receives nothing.
    pub fn open_send_socket(&self) -> Result<Socket> {
        let open = || -> io::Result<Socket> {
            let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
            self.bind(&socket, 0)?;
            Ok(socket)
        };
        open().map_err(|error| {
            RequestError::system(format!("open a packet socket at {}", self.name), error)
        })
    }

    /// Binds a packet socket to the port's frames of an EtherType. Protocol 0 receives nothing.
    pub fn bind(&self, socket: &Socket, protocol: u16) -> io::Result<()> {
        // SAFETY: an all-zero `sockaddr_ll` is valid: it holds only integers.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as libc::sa_family_t;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = self.index as libc::c_int;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: `address` is a valid `sockaddr_ll` of this length during the call.
        let status = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        if status < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Sends a frame so that the device learns the port's address and resolves the next hop.
    pub fn announce(&self, frame: &[u8]) -> Result<()> {
        let socket = self.open_send_socket()?;
        for _ in 0..ANNOUNCEMENT_FRAME_COUNT {
            socket.send(frame).map_err(|error| {
                RequestError::system(format!("send a frame at {}", self.name), error)
            })?;
        }
        Ok(())
    }
}
