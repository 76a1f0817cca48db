//! One direction of a delay line: a thread that reads frames from one port and writes them to the other when due.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::thread::{Pid, gettid};
use serde_json::{Value, json};

use crate::counts::DirectionCounts;
use crate::delay_queue::DelayQueue;
use crate::impairments::{ImpairmentSampler, Impairments};
use crate::ports::TapPort;
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::error::{RequestError, Result};
use vnetbench_system::priority::{RealTimeRank, set_realtime_priority};
use vnetbench_system::waiting::{Waker, wait};

/// Maximum number of due frames delivered before the thread checks for received frames.
const MAX_DELIVERY_BATCH: usize = 16;

/// Settings of a direction, and its counters since they took effect.
struct DirectionSettings {
    impairments: Impairments,
    seed: u64,
    counts: Arc<DirectionCounts>,
    cpu_time_at_start: Duration,
    started: Instant,
}

struct SharedState {
    settings: Mutex<DirectionSettings>,
    /// Version of the settings. The thread takes the lock only when it changes.
    settings_version: AtomicU64,
    is_stopping: AtomicBool,
    /// The error that ended the thread: the near port cannot be read or polled.
    failure: OnceLock<io::Error>,
    /// Wakes the thread to stop.
    waker: Waker,
}

/// A running direction of a delay line.
pub struct RunningDirection {
    /// `forward` or `reverse`.
    pub name: &'static str,
    tid: Pid,
    /// Whether the thread has real-time priority.
    has_priority: bool,
    shared: Arc<SharedState>,
    thread: Option<JoinHandle<()>>,
}

impl RunningDirection {
    /// Starts the thread that forwards frames from the first port to the second.
    pub fn start(
        name: &'static str,
        ports: [Arc<TapPort>; 2],
        queue_bytes: usize,
        impairments: Impairments,
        seed: u64,
    ) -> Result<Self> {
        let start = || {
            let shared = Arc::new(SharedState {
                settings: Mutex::new(DirectionSettings {
                    impairments,
                    seed,
                    counts: Arc::new(DirectionCounts::new()),
                    cpu_time_at_start: Duration::ZERO,
                    started: Instant::now(),
                }),
                settings_version: AtomicU64::new(0),
                is_stopping: AtomicBool::new(false),
                failure: OnceLock::new(),
                waker: Waker::new()?,
            });
            let (ready_sender, ready_receiver) = std::sync::mpsc::channel();
            let thread_shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new()
                .name(format!("line {name}"))
                .spawn(move || {
                    // The receiver waits below.
                    let _ =
                        ready_sender.send((gettid(), set_realtime_priority(RealTimeRank::Port)));
                    let [from, to] = ports;
                    if let Err(error) =
                        ForwardingLoop::new(from, to, queue_bytes, Arc::clone(&thread_shared)).run()
                    {
                        let _ = thread_shared.failure.set(error);
                    }
                })?;
            let (tid, has_priority) = ready_receiver.recv().map_err(io::Error::other)?;
            Ok(Self {
                name,
                tid,
                has_priority,
                shared,
                thread: Some(thread),
            })
        };
        start().map_err(|error: io::Error| {
            RequestError::system("start a thread of a delay line", error)
        })
    }

    /// Applies impairments to frames received from now on, and resets the counters.
    pub fn reset_with_impairments(&self, impairments: Impairments, seed: u64) {
        let cpu_time_at_start = self.cpu_time();
        let mut settings = self.shared.settings();
        *settings = DirectionSettings {
            impairments,
            seed,
            counts: Arc::new(DirectionCounts::zeroed_with_backlog(&settings.counts)),
            cpu_time_at_start,
            started: Instant::now(),
        };
        drop(settings);
        self.shared.settings_version.fetch_add(1, Ordering::Release);
    }

    /// Returns whether the thread has ended.
    pub fn has_ended(&self) -> bool {
        self.running_thread().is_none()
    }

    /// Returns the thread unless it has ended: the kernel may reuse the id of an ended thread.
    fn running_thread(&self) -> Option<&JoinHandle<()>> {
        self.thread.as_ref().filter(|thread| !thread.is_finished())
    }

    /// Returns the error that ended the thread; `None` if it runs or panicked.
    pub fn thread_error(&self) -> Option<&io::Error> {
        self.shared.failure.get()
    }

    /// Returns settings and counters in the form of docs/protocol.md.
    pub fn to_json(&self) -> Value {
        let cpu = self.cpu_time();
        let cpus = self
            .running_thread()
            .and_then(|thread| CpuList::read_handle_affinity(thread).ok());
        let settings = self.shared.settings();
        let mut counts = settings.counts.to_json();
        counts["cpu_s"] = cpu
            .saturating_sub(settings.cpu_time_at_start)
            .as_secs_f64()
            .into();
        counts["elapsed_s"] = settings.started.elapsed().as_secs_f64().into();
        json!({
            "requested": settings.impairments,
            "seed": settings.seed,
            "tid": self.tid.as_raw_nonzero().get(),
            "cpus": cpus.unwrap_or_default().to_string(),
            "has_priority": self.has_priority,
            "counts": counts,
        })
    }

    /// Returns the CPU time of the thread.
    fn cpu_time(&self) -> Duration {
        let Some(thread) = self.running_thread() else {
            return Duration::ZERO;
        };
        let mut clock = 0;
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the thread has not been joined, because its handle still exists; both pointers are valid for writes.
        let is_read = unsafe {
            libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) == 0
                && libc::clock_gettime(clock, &raw mut now) == 0
        };
        match is_read {
            true => Duration::new(now.tv_sec as u64, now.tv_nsec as u32),
            false => Duration::ZERO,
        }
    }
}

impl Drop for RunningDirection {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported already, and the taps are closed anyway.
            let _ = thread.join();
        }
    }
}

/// State of the direction's thread.
struct ForwardingLoop {
    from: Arc<TapPort>,
    to: Arc<TapPort>,
    queue: DelayQueue,
    settings_version: u64,
    shared: Arc<SharedState>,
}

impl ForwardingLoop {
    fn new(
        from: Arc<TapPort>,
        to: Arc<TapPort>,
        queue_bytes: usize,
        shared: Arc<SharedState>,
    ) -> Self {
        let (sampler, counts) = shared.create_sampler_and_counts();
        Self {
            from,
            to,
            queue: DelayQueue::new(queue_bytes, sampler, counts, Instant::now()),
            settings_version: 0,
            shared,
        }
    }

    /// Forwards frames until the direction stops. Fails if the near port is gone: poll would report it as ready forever.
    fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        while !self.shared.is_stopping.load(Ordering::Acquire) {
            // Frames delivered from here on count for the current settings.
            self.apply_settings();
            self.deliver_due_frames();
            let received = self.receive_frame_if_available()?;
            self.queue.record_backlog();
            let next = self.queue.next_due();
            if received || next.is_some_and(|due| due <= Instant::now()) {
                continue;
            }
            let readable = [(self.from.as_fd(), PollFlags::IN)];
            wait(&readable, &mut ready, &self.shared.waker, next)?;
        }
        Ok(())
    }

    fn apply_settings(&mut self) {
        let version = self.shared.settings_version.load(Ordering::Acquire);
        if version != self.settings_version {
            self.settings_version = version;
            let (sampler, counts) = self.shared.create_sampler_and_counts();
            self.queue
                .replace_sampler_and_counts(sampler, counts, Instant::now());
        }
    }

    fn deliver_due_frames(&mut self) {
        for _ in 0..MAX_DELIVERY_BATCH {
            let now = Instant::now();
            let Some(queued) = self.queue.take_due_frame(now) else {
                return;
            };
            let is_accepted = self.to.write_frame(queued.frame.bytes_with_virtio_header());
            self.queue.record_delivery(queued, is_accepted, now);
        }
    }

    /// Receives one frame. Returns false if none is available. Reading several would delay frames that are due.
    fn receive_frame_if_available(&mut self) -> io::Result<bool> {
        let mut buffer = self.queue.buffers.acquire();
        let Some(length) = self.from.read_frame(&mut buffer)? else {
            self.queue.buffers.release_buffer(buffer);
            return Ok(false);
        };
        let now = Instant::now();
        // The settings may have changed since the loop started this turn.
        self.apply_settings();
        let frame = self.queue.buffers.make_frame(buffer, length);
        self.queue.impair_and_enqueue(now, frame);
        Ok(true)
    }
}

impl SharedState {
    fn settings(&self) -> MutexGuard<'_, DirectionSettings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn create_sampler_and_counts(&self) -> (ImpairmentSampler, Arc<DirectionCounts>) {
        let settings = self.settings();
        let sampler = ImpairmentSampler::new(settings.impairments.clone(), settings.seed);
        (sampler, Arc::clone(&settings.counts))
    }
}
