//! The taps at both ends of a delay line.
//!
//! Frames have a virtio header that describes pending offloads (checksum, segmentation), so segmentation-offload frames
//! pass through whole.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use vnetbench_interfaces::interface::Interface;
use vnetbench_interfaces::tap::{TUN_DEVICE_PATH, Tap};
use vnetbench_system::error::{RequestError, Result};

/// Bytes of `struct virtio_net_hdr`, which precedes each frame (include/uapi/linux/virtio_net.h).
pub const VIRTIO_HEADER_BYTES: usize = 10;
/// Bytes of a receive buffer: virtio header, Ethernet header with two VLAN tags, and the largest IP packet.
pub const FRAME_BUFFER_BYTES: usize = VIRTIO_HEADER_BYTES + 14 + 2 * 4 + (1 << 16);
/// Transmit queue length of the tap: 20 ms at 200,000 frames/s.
const TAP_QUEUE_FRAMES: u32 = 4096;

const TAP_TCP_OFFLOADS: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
const TAP_UDP_OFFLOADS: libc::c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// A tap.
#[derive(Debug)]
pub struct TapPort {
    /// Interface name.
    pub name: String,
    tap: File,
}

impl TapPort {
    /// Creates the tap and sets it up.
    pub fn create_tap(name: &str) -> Result<Self> {
        let open = || {
            let tap = Tap::create(name, libc::IFF_VNET_HDR)?;
            // Linux before 6.2 has no UDP segmentation offload on taps.
            tap.set_reader_offloads(TAP_TCP_OFFLOADS | TAP_UDP_OFFLOADS)
                .or_else(|_| tap.set_reader_offloads(TAP_TCP_OFFLOADS))?;
            let interface = Interface::open(&tap.name)?;
            interface.set_queue_length(TAP_QUEUE_FRAMES)?;
            interface.set_is_up(true)?;
            Ok(Self {
                name: tap.name,
                tap: tap.file,
            })
        };
        open().map_err(|error: io::Error| {
            RequestError::system(
                format!("create the tap {name} with {TUN_DEVICE_PATH}"),
                error,
            )
        })
    }

    /// Reads the next frame and returns its size with the virtio header, or `None` if no frame is available.
    pub fn read_frame(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.tap, buffer) {
            Ok(length) => Ok(Some(length)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a frame. Returns false if the port rejects it: it is down, or the receiver is out of memory.
    pub fn write_frame(&self, frame: &[u8]) -> bool {
        rustix::io::write(&self.tap, frame).is_ok()
    }
}

impl AsFd for TapPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }
}
