//! The packet source: sends frames in batches through a packet socket that bypasses the queueing discipline.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::set_current_timer_slack;
use socket2::Socket;

use crate::parameters::{FCS_BYTES, FrameParameters, RejectedFrameCounting};
use crate::port::Port;
use crate::template::{FrameTemplate, SizeFields};
use vnetbench_streams::frame_pacing::{BurstCounter, FrameGap, LatenessTotals, PacingOutcome};
use vnetbench_streams::frames::{
    FrameCounts, FrameEndpoint, FrameSourceDetails, FrameStreamDetails,
};
use vnetbench_streams::timing::{RequestRate, Schedule};
use vnetbench_streams::{Commands, StreamEnd};
use vnetbench_system::clock::monotonic_nanos;
use vnetbench_system::error::{RequestError, Result};
use vnetbench_system::histogram::{self, Histogram};
use vnetbench_system::priority::{PriorityTurns, RealTimeRank};
use vnetbench_system::socket_option;

/// Frames of one call. All are stamped before the call, so larger batches would add to the measured delay.
const BATCH_FRAMES: usize = 16;
/// Maximum sleep while no frame is due.
const MAX_IDLE_SLEEP: Duration = Duration::from_millis(20);
/// A thread spins for this time before a frame is due, because a sleep may end that late.
const SPIN_TIME_BEFORE_DUE: Duration = Duration::from_micros(100);

/// The source of one stream.
#[derive(Debug)]
pub struct PacketSource {
    socket: Socket,
    template: FrameTemplate,
    size_fields: Vec<SizeFields>,
    flow_count: u32,
    max_frames: u64,
    /// Schedule of a paced stream.
    pacing: Option<PacingState>,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    rejected: AtomicU64,
    rejected_bytes: AtomicU64,
    rejected_frames: RejectedFrameCounting,
    shares_cpu: bool,
}

#[derive(Debug)]
struct PacingState {
    schedule: Schedule,
    gap: FrameGap,
    lateness: Histogram,
    /// Set when the load has ended.
    bursts: OnceLock<BurstCounter>,
}

impl PacketSource {
    /// Opens source `index` of `source_count` at the port.
    pub fn open(
        port: &Port,
        parameters: &FrameParameters,
        stream_key: u32,
        index: usize,
        source_count: usize,
    ) -> Result<Self> {
        let socket = port.open_send_socket()?;
        socket_option::set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1u32)
            .map_err(|error| RequestError::system("bypass the queueing discipline", error))?;
        let template = FrameTemplate::new(parameters, port.mac, stream_key);
        Ok(Self {
            socket,
            size_fields: template.interleave_sizes(&parameters.sizes),
            template,
            flow_count: parameters.flows,
            max_frames: parameters.max_frames.unwrap_or(u64::MAX),
            pacing: parameters.frames_per_s.map(|per_s| PacingState {
                schedule: Schedule::new(RequestRate::staggered(per_s, index, source_count)),
                gap: FrameGap::from_rate(per_s),
                lateness: Histogram::new(),
                bursts: OnceLock::new(),
            }),
            sent: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            rejected_bytes: AtomicU64::new(0),
            rejected_frames: parameters.rejected_frames,
            shares_cpu: parameters.shares_cpus,
        })
    }

    fn run_unpaced(&self, batch: &mut SendBatch, commands: &Commands) -> io::Result<()> {
        let mut number = 0;
        let mut turns = PriorityTurns::new(RealTimeRank::Generator, self.shares_cpu);
        while number < self.max_frames {
            let now = Instant::now();
            if !commands.may_send(now) {
                break;
            }
            turns.advance(now);
            number += self.send_or_reject_batch(batch, number, self.max_frames - number)?;
        }
        Ok(())
    }

    fn run_paced(
        &self,
        pacing: &PacingState,
        batch: &mut SendBatch,
        commands: &Commands,
    ) -> io::Result<()> {
        // With the default timer slack, the kernel may wake this thread 50 µs late.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let [catch_up_gap, catch_up_without_gap] = [
            pacing.gap.catch_up_gap_nanos,
            pacing.gap.catch_up_without_gap_nanos,
        ]
        .map(Duration::from_nanos);
        let mut bursts = BurstCounter::default();
        // Late frames catch up no sooner than this.
        let mut earliest = pacing.schedule.due_at(0);
        let mut number = 0;
        let mut turns = PriorityTurns::new(RealTimeRank::Generator, self.shares_cpu);
        while number < self.max_frames {
            let now = Instant::now();
            if !commands.may_send(now) {
                break;
            }
            let next_departure = pacing.schedule.due_at(number).max(earliest);
            turns.advance(now);
            let time_left = next_departure.saturating_duration_since(now);
            if time_left > SPIN_TIME_BEFORE_DUE {
                std::thread::sleep((time_left - SPIN_TIME_BEFORE_DUE).min(MAX_IDLE_SLEEP));
                continue;
            }
            if !time_left.is_zero() {
                std::hint::spin_loop();
                continue;
            }
            let due = pacing.schedule.count_due_until(now).min(self.max_frames) - number;
            let handled = self.send_or_reject_batch(batch, number, due)?;
            for number in number..number + handled {
                let lateness = now.saturating_duration_since(pacing.schedule.due_at(number));
                pacing.lateness.record(lateness);
            }
            bursts.record(now, handled, pacing.gap.max_gap_in_burst());
            earliest = earliest.max(now.checked_sub(catch_up_without_gap).unwrap_or(now))
                + catch_up_gap * handled as u32;
            number += handled;
        }
        // Nothing else sets this.
        let _ = pacing.bursts.set(bursts);
        Ok(())
    }

    /// Sends up to `max_count` frames from `number` on. Returns how many were either sent or rejected.
    fn send_or_reject_batch(
        &self,
        batch: &mut SendBatch,
        number: u64,
        max_count: u64,
    ) -> io::Result<u64> {
        let count = max_count.min(BATCH_FRAMES as u64) as usize;
        for (index, number) in (0..count).zip(number..) {
            let fields = &self.size_fields[(number % self.size_fields.len() as u64) as usize];
            let flow = (number % u64::from(self.flow_count)) as u32;
            let frame = batch.frame(index, fields.frame_bytes.into());
            self.template
                .write_header(frame, fields, flow, number, monotonic_nanos());
        }
        let accepted = match batch.send(&self.socket, count) {
            Ok(accepted) => accepted,
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOBUFS) => 0,
                Some(libc::EINTR | libc::EAGAIN) => return Ok(0),
                _ => return Err(error),
            },
        };
        let bytes = batch.total_bytes(accepted) + accepted * FCS_BYTES;
        add_as_only_writer(&self.sent, accepted as u64);
        add_as_only_writer(&self.sent_bytes, bytes as u64);
        // The call ends with the first frame that the port rejects. The source does not send it again.
        let handled = (accepted + usize::from(accepted < count)).min(count);
        let refused = (handled - accepted) as u64;
        add_as_only_writer(&self.rejected, refused);
        add_as_only_writer(
            &self.rejected_bytes,
            (batch.total_bytes(handled) - batch.total_bytes(accepted)) as u64
                + refused * FCS_BYTES as u64,
        );
        Ok(handled as u64)
    }
}

/// Adds to a counter that has only one writer.
fn add_as_only_writer(count: &AtomicU64, amount: u64) {
    count.store(count.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

impl FrameEndpoint for PacketSource {
    fn set_source_start(&self, at: Instant) {
        if let Some(paced) = &self.pacing {
            paced.schedule.set_start_once(at);
        }
    }

    fn run(&self, commands: &Commands) -> io::Result<StreamEnd> {
        let largest = self
            .size_fields
            .iter()
            .map(|fields| fields.frame_bytes)
            .max();
        let mut batch = SendBatch::new(largest.unwrap_or_default().into());
        match &self.pacing {
            None => self.run_unpaced(&mut batch, commands)?,
            Some(paced) => self.run_paced(paced, &mut batch, commands)?,
        }
        Ok(StreamEnd::Drained)
    }

    fn counts(&self) -> FrameCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (frames, bytes) = match self.rejected_frames {
            RejectedFrameCounting::Unsent => (0, 0),
            RejectedFrameCounting::Lost => (load(&self.rejected), load(&self.rejected_bytes)),
        };
        FrameCounts {
            frames: frames + load(&self.sent),
            bytes: bytes + load(&self.sent_bytes),
        }
    }

    fn details(&self, load_ended: Instant) -> FrameStreamDetails {
        let rejected = self.rejected.load(Ordering::Relaxed);
        let handled = self.sent.load(Ordering::Relaxed) + rejected;
        let pacing = self.pacing.as_ref().map(|paced| {
            let due = paced
                .schedule
                .count_due_until(load_ended)
                .min(self.max_frames);
            let late = histogram::HistogramCounts::sum([&paced.lateness].into_iter());
            let nanos = |duration: Duration| duration.as_nanos() as u64;
            let bursts = paced.bursts.get().cloned().unwrap_or_default();
            PacingOutcome::new(
                "batches",
                due,
                due.saturating_sub(handled),
                &late.since(&histogram::HistogramCounts::empty()),
                LatenessTotals {
                    sum_nanos: nanos(paced.lateness.sum()),
                    max_nanos: nanos(paced.lateness.max()),
                },
                bursts.finish(handled),
            )
        });
        FrameStreamDetails::Source(FrameSourceDetails { rejected, pacing })
    }
}

/// Buffers for the frames of one call, used by one thread.
struct SendBatch {
    buffer: Vec<u8>,
    /// Bytes from one frame's buffer to the next.
    frame_stride: usize,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl SendBatch {
    fn new(largest_frame_bytes: usize) -> Self {
        // Frames do not share cache lines.
        let frame_stride = largest_frame_bytes.next_multiple_of(64);
        let mut buffer = vec![0; frame_stride * BATCH_FRAMES];
        let mut iovecs: Vec<libc::iovec> = buffer
            .chunks_exact_mut(frame_stride)
            .map(|frame: &mut [u8]| libc::iovec {
                iov_base: frame.as_mut_ptr().cast(),
                iov_len: 0,
            })
            .collect();
        // SAFETY: an all-zero `mmsghdr` is valid: null pointers with lengths of 0.
        let mut headers: Vec<libc::mmsghdr> = vec![unsafe { std::mem::zeroed() }; BATCH_FRAMES];
        for (header, iovec) in headers.iter_mut().zip(&mut iovecs) {
            header.msg_hdr.msg_iov = &raw mut *iovec;
            header.msg_hdr.msg_iovlen = 1;
        }
        Self {
            buffer,
            frame_stride,
            iovecs,
            headers,
        }
    }

    /// Returns the buffer of one frame of `bytes` bytes.
    fn frame(&mut self, index: usize, bytes: usize) -> &mut [u8] {
        self.iovecs[index].iov_len = bytes;
        &mut self.buffer[index * self.frame_stride..][..bytes]
    }

    /// Returns the total size of the first `count` frames.
    fn total_bytes(&self, count: usize) -> usize {
        self.iovecs[..count].iter().map(|iovec| iovec.iov_len).sum()
    }

    /// Sends the first `count` frames. Returns how many the port accepted.
    fn send(&mut self, socket: &Socket, count: usize) -> io::Result<usize> {
        // SAFETY: each header points to its own iovec, and each iovec into `buffer`. These vectors have not been moved or
        // grown since; all live during the call, and the kernel only reads the frames.
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
