//! The source by a packet socket: some frames a call, which pass the queueing discipline by.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::set_current_timer_slack;
use socket2::Socket;

use crate::parameters::{FCS_BYTES, FrameParameters, RefusedFrames};
use crate::port::Port;
use crate::template::{FrameTemplate, SizeFields};
use vnetbench_streams::frame_pacing::{BurstCounter, FrameGap, PacingOutcome};
use vnetbench_streams::frames::{FrameCounts, FrameEndpoint, FrameOutcome, SourceOutcome};
use vnetbench_streams::timing::{RequestRate, Schedule};
use vnetbench_streams::{Command, Commands, StreamEnd};
use vnetbench_system::clock::monotonic_nanos;
use vnetbench_system::error::{Error, Result};
use vnetbench_system::histogram::{self, Histogram};
use vnetbench_system::priority::{Rank, Turns};
use vnetbench_system::socket_option;

/// Frames of one call. All are stamped before it, so more would be more of what is counted as their time under way.
const BATCH: usize = 16;
/// How long a thread sleeps at most while nothing is due, and how long before it stays awake: a sleep may end that late.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
const SPIN_BEFORE_DUE: Duration = Duration::from_micros(100);

#[derive(Debug)]
pub struct PacketSource {
    socket: Socket,
    template: FrameTemplate,
    shapes: Vec<SizeFields>,
    flows: u32,
    max_frames: u64,
    /// Of one that has a rate.
    paced: Option<PacingState>,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    refused: AtomicU64,
    refused_bytes: AtomicU64,
    refused_frames: RefusedFrames,
    shares_cpu: bool,
}

#[derive(Debug)]
struct PacingState {
    schedule: Schedule,
    gap: FrameGap,
    late: Histogram,
    /// Known when the load has ended.
    bursts: OnceLock<BurstCounter>,
}

impl PacketSource {
    /// Number `place` of so many at the port.
    pub fn open(
        port: &Port,
        parameters: &FrameParameters,
        key: u32,
        place: usize,
        sources: usize,
    ) -> Result<Self> {
        let socket = port.socket()?;
        socket_option::set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1u32)
            .map_err(|error| Error::system("pass the queueing discipline by", error))?;
        let template = FrameTemplate::new(parameters, port.mac, key);
        Ok(Self {
            socket,
            shapes: template.interleave_sizes(&parameters.sizes),
            template,
            flows: parameters.flows,
            max_frames: parameters.max_frames.unwrap_or(u64::MAX),
            paced: parameters.frames_per_s.map(|per_s| PacingState {
                schedule: Schedule::new(RequestRate::staggered(per_s, place, sources)),
                gap: FrameGap::from_rate(per_s),
                late: Histogram::new(),
                bursts: OnceLock::new(),
            }),
            sent: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            refused_bytes: AtomicU64::new(0),
            refused_frames: parameters.refused_frames,
            shares_cpu: parameters.shares_cpus,
        })
    }

    fn run_unpaced(&self, batch: &mut SendBatch, orders: &Commands) -> io::Result<()> {
        let mut number = 0;
        let mut turns = Turns::new(Rank::Generator, self.shares_cpu);
        while number < self.max_frames && orders.current() == Command::Go {
            turns.advance(Instant::now());
            number += self.send(batch, number, self.max_frames - number)?;
        }
        Ok(())
    }

    fn run_paced(
        &self,
        paced: &PacingState,
        batch: &mut SendBatch,
        orders: &Commands,
    ) -> io::Result<()> {
        // Else the kernel may wake this thread 50 µs late, to save itself some work.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let [short_gap, slack] = [paced.gap.shortened, paced.gap.slack].map(Duration::from_nanos);
        let mut bursts = BurstCounter::default();
        // What is late leaves no sooner.
        let mut gate = paced.schedule.due_at(0);
        let mut number = 0;
        let mut turns = Turns::new(Rank::Generator, self.shares_cpu);
        while number < self.max_frames && orders.current() == Command::Go {
            let next = paced.schedule.due_at(number).max(gate);
            let now = Instant::now();
            turns.advance(now);
            let left = next.saturating_duration_since(now);
            if left > SPIN_BEFORE_DUE {
                std::thread::sleep((left - SPIN_BEFORE_DUE).min(STOP_CHECK_INTERVAL));
                continue;
            }
            if !left.is_zero() {
                std::hint::spin_loop();
                continue;
            }
            let due = paced.schedule.count_due_until(now).min(self.max_frames) - number;
            let gone = self.send(batch, number, due)?;
            for number in number..number + gone {
                let late = now.saturating_duration_since(paced.schedule.due_at(number));
                paced.late.record(late);
            }
            bursts.record(now, gone, paced.gap.half());
            gate = gate.max(now.checked_sub(slack).unwrap_or(now)) + short_gap * gone as u32;
            number += gone;
        }
        // Set once, here.
        let _ = paced.bursts.set(bursts);
        Ok(())
    }

    /// Has up to so many frames leave, from that number on; returns of how many it is known what became of them.
    fn send(&self, batch: &mut SendBatch, number: u64, most: u64) -> io::Result<u64> {
        let count = most.min(BATCH as u64) as usize;
        for (place, number) in (0..count).zip(number..) {
            let shape = &self.shapes[(number % self.shapes.len() as u64) as usize];
            let flow = (number % u64::from(self.flows)) as u32;
            let frame = batch.frame(place, shape.bytes.into());
            self.template
                .write(frame, shape, flow, number, monotonic_nanos());
        }
        let taken = match batch.send(&self.socket, count) {
            Ok(taken) => taken,
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOBUFS) => 0,
                Some(libc::EINTR | libc::EAGAIN) => return Ok(0),
                _ => return Err(error),
            },
        };
        let bytes = batch.bytes(taken) + taken * FCS_BYTES;
        increment(&self.sent, taken as u64);
        increment(&self.sent_bytes, bytes as u64);
        // The call ends with the first frame that the port does not take, and that is gone.
        let gone = (taken + usize::from(taken < count)).min(count);
        let refused = (gone - taken) as u64;
        increment(&self.refused, refused);
        increment(
            &self.refused_bytes,
            (batch.bytes(gone) - batch.bytes(taken)) as u64 + refused * FCS_BYTES as u64,
        );
        Ok(gone as u64)
    }
}

/// There is one writer.
fn increment(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl FrameEndpoint for PacketSource {
    fn begin(&self, at: Instant) {
        if let Some(paced) = &self.paced {
            paced.schedule.begin(at);
        }
    }

    fn run(&self, orders: &Commands) -> io::Result<StreamEnd> {
        let largest = self.shapes.iter().map(|shape| shape.bytes).max();
        let mut batch = SendBatch::new(largest.unwrap_or_default().into());
        match &self.paced {
            None => self.run_unpaced(&mut batch, orders)?,
            Some(paced) => self.run_paced(paced, &mut batch, orders)?,
        }
        Ok(StreamEnd::Drained)
    }

    fn counts(&self) -> FrameCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (frames, bytes) = match self.refused_frames {
            RefusedFrames::Unsent => (0, 0),
            RefusedFrames::Lost => (load(&self.refused), load(&self.refused_bytes)),
        };
        FrameCounts {
            frames: frames + load(&self.sent),
            bytes: bytes + load(&self.sent_bytes),
        }
    }

    fn outcome(&self, load_ended: Instant) -> FrameOutcome {
        let refused = self.refused.load(Ordering::Relaxed);
        let made = self.sent.load(Ordering::Relaxed) + refused;
        let pacing = self.paced.as_ref().map(|paced| {
            let due = paced
                .schedule
                .count_due_until(load_ended)
                .min(self.max_frames);
            let late = histogram::HistogramCounts::sum([&paced.late].into_iter());
            let nanos = |duration: Duration| duration.as_nanos() as u64;
            let bursts = paced.bursts.get().cloned().unwrap_or_default();
            PacingOutcome::new(
                "batches",
                due,
                due.saturating_sub(made),
                &late.since(&histogram::HistogramCounts::empty()),
                (nanos(paced.late.sum()), nanos(paced.late.max())),
                bursts.finish(made),
            )
        });
        FrameOutcome::Source(SourceOutcome { refused, pacing })
    }
}

/// Room for the frames of one call. It stays with the thread that made it.
struct SendBatch {
    bytes: Vec<u8>,
    /// Of each frame's room.
    frame_stride: usize,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl SendBatch {
    fn new(largest: usize) -> Self {
        // Frames do not share a line of the cache.
        let frame_stride = largest.next_multiple_of(64);
        let mut bytes = vec![0; frame_stride * BATCH];
        let mut iovecs: Vec<libc::iovec> = bytes
            .chunks_exact_mut(frame_stride)
            .map(|frame: &mut [u8]| libc::iovec {
                iov_base: frame.as_mut_ptr().cast(),
                iov_len: 0,
            })
            .collect();
        // SAFETY: all zero is a valid `mmsghdr`: null pointers with lengths of 0.
        let mut headers: Vec<libc::mmsghdr> = vec![unsafe { std::mem::zeroed() }; BATCH];
        for (header, piece) in headers.iter_mut().zip(&mut iovecs) {
            header.msg_hdr.msg_iov = &raw mut *piece;
            header.msg_hdr.msg_iovlen = 1;
        }
        Self {
            bytes,
            frame_stride,
            iovecs,
            headers,
        }
    }

    /// The room of one frame, which is to have so many bytes.
    fn frame(&mut self, place: usize, bytes: usize) -> &mut [u8] {
        self.iovecs[place].iov_len = bytes;
        &mut self.bytes[place * self.frame_stride..][..bytes]
    }

    /// Of the first so many frames together.
    fn bytes(&self, count: usize) -> usize {
        self.iovecs[..count].iter().map(|piece| piece.iov_len).sum()
    }

    /// Returns how many of the first so many the port took.
    fn send(&mut self, socket: &Socket, count: usize) -> io::Result<usize> {
        // SAFETY: the headers point each to its own piece, and those into `bytes`, vectors that have not been moved or
        // grown since they were made; all live through the call, and the kernel only reads the frames.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as u32,
                libc::MSG_NOSIGNAL,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}
