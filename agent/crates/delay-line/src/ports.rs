//! Both ends of a line: taps, whose frames come with the kernel's notes on what is still to be done to them (checksums,
//! segmentation), so that what TCP hands over as one passes as one.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use vnetbench_interfaces::interface::Interface;
use vnetbench_interfaces::tap;
use vnetbench_system::error::{Error, Result};

/// `struct virtio_net_hdr`, which comes before each frame (include/uapi/linux/virtio_net.h).
pub const VNET_HEADER_BYTES: usize = 10;
/// The note, Ethernet with two tags, and the largest packet of IP.
pub const BUFFER_BYTES: usize = VNET_HEADER_BYTES + 14 + 2 * 4 + (1 << 16);
/// Frames that wait at the port to be taken: 20 ms at 200 000 frames/s.
const QUEUE_FRAMES: u32 = 4096;

const SEGMENTS_OF_TCP: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
const SEGMENTS_OF_UDP: libc::c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

#[derive(Debug)]
pub struct Port {
    pub name: String,
    tap: File,
}

impl Port {
    /// Makes the interface, and sets it up.
    pub fn open(name: &str) -> Result<Self> {
        let open = || {
            let (tap, name) = tap::open(name, libc::IFF_VNET_HDR)?;
            // Before Linux 6.2 what UDP hands over as one comes in parts.
            tap::set_offloads(&tap, SEGMENTS_OF_TCP | SEGMENTS_OF_UDP)
                .or_else(|_| tap::set_offloads(&tap, SEGMENTS_OF_TCP))?;
            let interface = Interface::open(&name)?;
            interface.set_queue_length(QUEUE_FRAMES)?;
            interface.set_up(true)?;
            Ok(Self { name, tap })
        };
        open().map_err(|error: io::Error| {
            Error::system(format!("make the tap {name} by {}", tap::TUN), error)
        })
    }

    /// How many bytes the next frame has, with its note; `None` where none is there.
    pub fn read_frame(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.tap, room) {
            Ok(length) => Ok(Some(length)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// False where the port does not take it: it is down, or its receiver has no memory.
    pub fn write_frame(&self, frame: &[u8]) -> bool {
        rustix::io::write(&self.tap, frame).is_ok()
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }
}
