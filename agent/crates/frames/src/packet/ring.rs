//! A receive ring at a port: the starts of all frames that come, in memory that the kernel shares (TPACKET_V3,
//! Documentation/networking/packet_mmap.rst).

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockFilter, Socket, Type};

use crate::headers::TAG_BYTES;
use crate::port::Port;
use vnetbench_system::socket_option::{self, Plain};

/// The ring: some 300 000 starts of frames, a third of a second at a million frames/s.
const BLOCK_BYTES: u32 = 1 << 20;
pub const BLOCKS: u32 = 64;
/// A block that is not full is handed over after so long.
const BLOCK_TIMEOUT_MS: u32 = 4;
/// The kernel asks for one though frames of TPACKET_V3 have the length that they need.
const FRAME_BYTES: u32 = 2048;
/// Of each frame: all headers and the head.
const SNAPSHOT_BYTES: u32 = 96;
/// Frames that this side sends are not to come (include/uapi/linux/if_packet.h).
const PACKET_IGNORE_OUTGOING: i32 = 23;

#[derive(Debug)]
pub struct ReceiveRing {
    socket: Socket,
    memory: NonNull<u8>,
    blocks: u32,
    /// The block that is handed over next.
    next_block: u32,
}

// SAFETY: the memory is this value's until it is dropped, by whichever thread.
unsafe impl Send for ReceiveRing {}

/// A frame that has come.
pub struct CapturedFrame<'a> {
    pub header_bytes: &'a [u8],
    /// Of the whole frame, as it was on the wire, without FCS.
    pub bytes: usize,
    /// When the kernel took it in, CLOCK_REALTIME.
    pub at_nanos: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Statistics {
    packets: u32,
    drops: u32,
    freezes: u32,
}

// SAFETY: integers without padding.
unsafe impl Plain for Statistics {}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RingRequest {
    block_bytes: u32,
    blocks: u32,
    frame_bytes: u32,
    frames: u32,
    retire_ms: u32,
    private_bytes: u32,
    features: u32,
}

// SAFETY: integers without padding.
unsafe impl Plain for RingRequest {}

impl ReceiveRing {
    /// Of so many blocks.
    pub fn open(port: &Port, blocks: u32) -> io::Result<Self> {
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        let version = libc::tpacket_versions::TPACKET_V3 as u32;
        socket_option::set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, version)?;
        socket_option::set(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1u32)?;
        let take_start = (libc::BPF_RET | libc::BPF_K) as u16;
        socket.attach_filter(&[SockFilter::new(take_start, 0, 0, SNAPSHOT_BYTES)])?;
        let request = RingRequest {
            block_bytes: BLOCK_BYTES,
            blocks,
            frame_bytes: FRAME_BYTES,
            frames: BLOCK_BYTES / FRAME_BYTES * blocks,
            retire_ms: BLOCK_TIMEOUT_MS,
            ..RingRequest::default()
        };
        socket_option::set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let bytes = (BLOCK_BYTES * blocks) as usize;
        // SAFETY: a new mapping of a descriptor that is open, as long as the ring that it has just been given.
        let at = unsafe {
            let fd = socket.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ring = Self {
            socket,
            memory: NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            blocks,
            next_block: 0,
        };
        // Only now: before, there was nowhere to put a frame.
        port.bind(&ring.socket, libc::ETH_P_ALL as u16)?;
        Ok(ring)
    }

    /// Waits until a block is there, so long at most.
    pub fn wait(&self, patience: Duration) -> io::Result<()> {
        let patience = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(patience.subsec_nanos()),
        };
        match poll(
            &mut [PollFd::new(&self.socket, PollFlags::IN)],
            Some(&patience),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands on the frames of the next block; false where none is there.
    pub fn drain(&mut self, mut each: impl FnMut(CapturedFrame<'_>)) -> bool {
        let offset = (self.next_block * BLOCK_BYTES) as usize;
        // SAFETY: the ring is mapped with all its blocks, each aligned to a page and longer than this.
        let block = unsafe { self.memory.add(offset) };
        let description = block.cast::<libc::tpacket_block_desc>().as_ptr();
        // SAFETY: the kernel writes and this side writes this one word as atomics do; its place is aligned.
        let status = unsafe { AtomicU32::from_ptr(&raw mut (*description).hdr.bh1.block_status) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the block is this side's until its status says otherwise, and the kernel has filled this in.
        let (frames, first) = unsafe {
            let header = (*description).hdr.bh1;
            (header.num_pkts, header.offset_to_first_pkt)
        };
        let mut at = first as usize;
        for _ in 0..frames {
            // SAFETY: the kernel has put so many headers into the block, each where the one before says.
            let header = unsafe { block.add(at).cast::<libc::tpacket3_hdr>().read_unaligned() };
            // SAFETY: the start of the frame is there, `tp_snaplen` bytes of it, within the block.
            let start = unsafe {
                let from = block.add(at + usize::from(header.tp_mac));
                std::slice::from_raw_parts(from.as_ptr(), header.tp_snaplen as usize)
            };
            // The kernel has taken a tag out of the frame where it says so.
            let is_tagged = header.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
            each(CapturedFrame {
                header_bytes: start,
                bytes: header.tp_len as usize + if is_tagged { TAG_BYTES } else { 0 },
                at_nanos: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
            });
            at += header.tp_next_offset as usize;
        }
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next_block = (self.next_block + 1) % self.blocks;
        true
    }

    /// Frames that came since this was last asked for, and for which there was no room.
    pub fn dropped(&self) -> io::Result<u64> {
        let statistics: Statistics =
            socket_option::get(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        Ok(statistics.drops.into())
    }
}

impl Drop for ReceiveRing {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing borrows from it any more.
        unsafe {
            libc::munmap(
                self.memory.as_ptr().cast(),
                (BLOCK_BYTES * self.blocks) as usize,
            )
        };
    }
}
