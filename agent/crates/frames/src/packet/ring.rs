//! A receive ring at a port: memory shared with the kernel that holds the start of each frame that arrives (TPACKET_V3,
//! Documentation/networking/packet_mmap.rst).

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use etherparse::SingleVlanHeader;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockFilter, Socket, Type};

use crate::port::Port;
use vnetbench_system::socket_option::{self, PlainOldData};

/// Bytes of a block.
const BLOCK_BYTES: u32 = 1 << 20;
/// Blocks of a sink's ring: about 300,000 frames, a third of a second at a million frames/s.
pub const BLOCK_COUNT: u32 = 64;
/// The kernel hands over a partly filled block after this time.
const BLOCK_TIMEOUT_MS: u32 = 4;
/// The kernel requires a frame size, although frames of TPACKET_V3 have variable length.
const NOMINAL_FRAME_BYTES: u32 = 2048;
/// Bytes captured of each frame: all headers up to the datagram header.
const SNAPSHOT_BYTES: u32 = 96;
/// Excludes frames that this endpoint sends (include/uapi/linux/if_packet.h).
const PACKET_IGNORE_OUTGOING: i32 = 23;

/// A memory-mapped receive ring.
#[derive(Debug)]
pub struct ReceiveRing {
    socket: Socket,
    memory: NonNull<u8>,
    blocks: u32,
    /// The block that the kernel hands over next.
    next_block: u32,
}

// SAFETY: only this value uses the mapping until it is dropped, on any thread.
unsafe impl Send for ReceiveRing {}

/// A frame that arrived.
pub struct CapturedFrame<'a> {
    /// The first bytes of the frame.
    pub header_bytes: &'a [u8],
    /// Size of the whole frame on the wire, without FCS.
    pub frame_bytes: usize,
    /// When the kernel received the frame (CLOCK_REALTIME).
    pub received_nanos: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Statistics {
    packets: u32,
    drops: u32,
    freezes: u32,
}

// SAFETY: all fields are integers, without padding.
unsafe impl PlainOldData for Statistics {}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RingRequest {
    block_bytes: u32,
    blocks: u32,
    frame_bytes: u32,
    frames: u32,
    block_timeout_ms: u32,
    private_bytes: u32,
    features: u32,
}

// SAFETY: all fields are integers, without padding.
unsafe impl PlainOldData for RingRequest {}

impl ReceiveRing {
    /// Opens a ring of `blocks` blocks at a port.
    pub fn open(port: &Port, block_count: u32) -> io::Result<Self> {
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        let version = libc::tpacket_versions::TPACKET_V3 as u32;
        socket_option::set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, version)?;
        socket_option::set(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1u32)?;
        let truncate = (libc::BPF_RET | libc::BPF_K) as u16;
        socket.attach_filter(&[SockFilter::new(truncate, 0, 0, SNAPSHOT_BYTES)])?;
        let request = RingRequest {
            block_bytes: BLOCK_BYTES,
            blocks: block_count,
            frame_bytes: NOMINAL_FRAME_BYTES,
            frames: BLOCK_BYTES / NOMINAL_FRAME_BYTES * block_count,
            block_timeout_ms: BLOCK_TIMEOUT_MS,
            ..RingRequest::default()
        };
        socket_option::set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let bytes = (BLOCK_BYTES * block_count) as usize;
        // SAFETY: this is a new mapping of an open descriptor, as long as the ring that the socket has just got.
        let address = unsafe {
            let fd = socket.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ring = Self {
            socket,
            memory: NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            blocks: block_count,
            next_block: 0,
        };
        // Bind last: without a ring the kernel could not store frames.
        port.bind(&ring.socket, libc::ETH_P_ALL as u16)?;
        Ok(ring)
    }

    /// Waits until the kernel hands over a block, at most `timeout`, which must be below one second.
    pub fn wait_for_block(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        match poll(
            &mut [PollFd::new(&self.socket, PollFlags::IN)],
            Some(&timeout),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes the frames of the next block to `consume`. Returns false if no block is ready.
    pub fn consume_next_block(&mut self, mut consume: impl FnMut(CapturedFrame<'_>)) -> bool {
        let offset = (self.next_block * BLOCK_BYTES) as usize;
        // SAFETY: all blocks are mapped, and the offset of a block is within the mapping.
        let block = unsafe { self.memory.add(offset) };
        let description = block.cast::<libc::tpacket_block_desc>().as_ptr();
        // SAFETY: the kernel and the agent access this aligned word as an atomic.
        let status = unsafe { AtomicU32::from_ptr(&raw mut (*description).hdr.bh1.block_status) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the agent owns the block until it sets the status, and the kernel has filled in the header.
        let (frames, first) = unsafe {
            let header = (*description).hdr.bh1;
            (header.num_pkts, header.offset_to_first_pkt)
        };
        let mut header_offset = first as usize;
        for _ in 0..frames {
            // SAFETY: the block holds this many headers, each at the offset that the previous one gives.
            let header = unsafe {
                block
                    .add(header_offset)
                    .cast::<libc::tpacket3_hdr>()
                    .read_unaligned()
            };
            // SAFETY: the block holds `tp_snaplen` bytes of the frame at this offset.
            let header_bytes = unsafe {
                let from = block.add(header_offset + usize::from(header.tp_mac));
                std::slice::from_raw_parts(from.as_ptr(), header.tp_snaplen as usize)
            };
            // With this flag, the kernel has removed a VLAN tag from the frame.
            let is_tagged = header.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
            consume(CapturedFrame {
                header_bytes,
                frame_bytes: header.tp_len as usize
                    + if is_tagged { SingleVlanHeader::LEN } else { 0 },
                received_nanos: u64::from(header.tp_sec) * 1_000_000_000
                    + u64::from(header.tp_nsec),
            });
            header_offset += header.tp_next_offset as usize;
        }
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next_block = (self.next_block + 1) % self.blocks;
        true
    }

    /// Returns the frames dropped because the ring was full, since the previous call.
    pub fn take_dropped_count(&self) -> io::Result<u64> {
        let statistics: Statistics =
            socket_option::get(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        Ok(statistics.drops.into())
    }
}

impl Drop for ReceiveRing {
    fn drop(&mut self) {
        // SAFETY: the mapping has this length, and no borrow of it remains.
        unsafe {
            libc::munmap(
                self.memory.as_ptr().cast(),
                (BLOCK_BYTES * self.blocks) as usize,
            )
        };
    }
}
