//! The port that frames leave and come in by: who it is, and how a few frames are put on it by hand.

use std::io;
use std::os::fd::AsRawFd;

use socket2::{Domain, Socket, Type};

use vnetbench_interfaces::interface::Interface;
use vnetbench_system::error::{Error, Kind, Result};

use crate::headers::{ETHERNET_BYTES, TAG_BYTES};
use crate::parameters::FCS_BYTES;

/// Its addresses are learned by a switch from the first; a second and a third are for a device that drops while it
/// resolves the next hop.
const ANNOUNCEMENTS: usize = 3;

#[derive(Debug)]
pub struct Port {
    pub name: String,
    pub index: u32,
    pub mac: [u8; 6],
    pub mtu: usize,
    pub driver: String,
}

impl Port {
    pub fn open(name: &str) -> Result<Self> {
        let refused = |error| {
            Error::system(format!("use {name} as a port"), error).with_kind(Kind::FramesPort)
        };
        let interface = Interface::open(name).map_err(refused)?;
        let port = Self {
            name: name.into(),
            index: interface.index().map_err(refused)?,
            mac: interface.mac_bytes().map_err(refused)?,
            mtu: interface.mtu().map_err(refused)? as usize,
            driver: interface.driver().unwrap_or_default(),
        };
        // Set up a moment ago, it may not have found it yet.
        if !(interface.is_up().map_err(refused)? && interface.wait_for_link()) {
            return Err(refused(io::Error::other("it is down, or has no link")));
        }
        Ok(port)
    }

    /// Whether a frame of so many bytes, with FCS, can leave by it.
    pub fn check_size(&self, bytes: usize, tags: usize) -> Result<()> {
        // The kernel counts no more than one tag as if it were none of the packet's.
        let beside = ETHERNET_BYTES + FCS_BYTES + TAG_BYTES * tags.min(1);
        if bytes <= self.mtu + beside {
            return Ok(());
        }
        Err(Error::Trial(format!(
            "a frame of {bytes} bytes is too large for the port: the MTU of {} is {}: set it to {}",
            self.name,
            self.mtu,
            bytes - beside
        )))
    }

    /// A socket at the port that can send, and to which nothing comes.
    pub fn socket(&self) -> Result<Socket> {
        let opening = || -> io::Result<Socket> {
            let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
            self.bind(&socket, 0)?;
            Ok(socket)
        };
        opening()
            .map_err(|error| Error::system(format!("open a packet socket at {}", self.name), error))
    }

    /// Has the frames of this protocol that come to the port come to a packet socket; of 0 none.
    pub fn bind(&self, socket: &Socket, protocol: u16) -> io::Result<()> {
        // SAFETY: all-zero is a valid `sockaddr_ll` (integers only).
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as libc::sa_family_t;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = self.index as libc::c_int;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: `address` is a valid `sockaddr_ll` of that length through the call.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        if bound < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Sends this frame, so that the device learns where the port is, and who is next behind the device.
    pub fn announce(&self, frame: &[u8]) -> Result<()> {
        let socket = self.socket()?;
        for _ in 0..ANNOUNCEMENTS {
            socket
                .send(frame)
                .map_err(|error| Error::system(format!("send a frame at {}", self.name), error))?;
        }
        Ok(())
    }
}
