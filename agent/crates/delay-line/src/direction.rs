//! One direction of a line: a thread that takes frames from one port and gives them to the other when they are due.

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
use crate::ports::Port;
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::error::{Error, Result};
use vnetbench_system::priority::{Rank, raise_priority};
use vnetbench_system::waiting::{Waker, wait};

/// Frames that are given, at most, before it is looked whether others are there.
const MAX_DELIVERED_FRAMES: usize = 16;

/// What a direction is to do, and what it has counted since it was told.
struct DirectionSettings {
    impairments: Impairments,
    seed: u64,
    counts: Arc<DirectionCounts>,
    cpu_when_set: Duration,
    set_at: Instant,
}

struct Shared {
    setting: Mutex<DirectionSettings>,
    /// Which setting this is: the thread looks here alone until it changes.
    version: AtomicU64,
    is_stopping: AtomicBool,
    /// Why the near port can be neither read nor waited for any more.
    failure: OnceLock<io::Error>,
    /// Rung at the end.
    waker: Waker,
}

pub struct Direction {
    pub name: &'static str,
    tid: Pid,
    /// Whether it runs before other work.
    has_priority: bool,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Direction {
    pub fn start(
        name: &'static str,
        ports: [Arc<Port>; 2],
        queue_bytes: usize,
        impairments: Impairments,
        seed: u64,
    ) -> Result<Self> {
        let start = || {
            let shared = Arc::new(Shared {
                setting: Mutex::new(DirectionSettings {
                    impairments,
                    seed,
                    counts: Arc::new(DirectionCounts::new()),
                    cpu_when_set: Duration::ZERO,
                    set_at: Instant::now(),
                }),
                version: AtomicU64::new(0),
                is_stopping: AtomicBool::new(false),
                failure: OnceLock::new(),
                waker: Waker::new()?,
            });
            let (ready_sender, ready_receiver) = std::sync::mpsc::channel();
            let thread_shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new()
                .name(format!("line {name}"))
                .spawn(move || {
                    // Who waits for it is there.
                    let _ = ready_sender.send((gettid(), raise_priority(Rank::Port)));
                    let [from, to] = ports;
                    if let Err(error) =
                        ForwardingLoop::new(from, to, queue_bytes, Arc::clone(&thread_shared)).run()
                    {
                        let _ = thread_shared.failure.set(error);
                    }
                })?;
            let (tid, is_ranked) = ready_receiver.recv().map_err(io::Error::other)?;
            Ok(Self {
                name,
                tid,
                has_priority: is_ranked,
                shared,
                thread: Some(thread),
            })
        };
        start().map_err(|error: io::Error| Error::system("start a thread of a line", error))
    }

    /// From now on, of frames that come; its counts begin anew.
    pub fn set(&self, impairments: Impairments, seed: u64) {
        let cpu_then = self.cpu_time();
        let mut setting = self.shared.setting();
        *setting = DirectionSettings {
            impairments,
            seed,
            counts: Arc::new(DirectionCounts::continuing(&setting.counts)),
            cpu_when_set: cpu_then,
            set_at: Instant::now(),
        };
        drop(setting);
        self.shared.version.fetch_add(1, Ordering::Release);
    }

    pub fn has_ended(&self) -> bool {
        self.running().is_none()
    }

    /// Nothing may be asked of a thread that has ended: its number may be another's by then.
    fn running(&self) -> Option<&JoinHandle<()>> {
        self.thread.as_ref().filter(|thread| !thread.is_finished())
    }

    /// Why it has ended; `None` where it was by a fault of its own.
    pub fn failure(&self) -> Option<&io::Error> {
        self.shared.failure.get()
    }

    /// As docs/protocol.md has it.
    pub fn to_json(&self) -> Value {
        let cpu = self.cpu_time();
        let cpus = self
            .running()
            .and_then(|thread| CpuList::of_thread_handle(thread).ok());
        let setting = self.shared.setting();
        let mut counts = setting.counts.to_json();
        counts["cpu_s"] = cpu
            .saturating_sub(setting.cpu_when_set)
            .as_secs_f64()
            .into();
        counts["elapsed_s"] = setting.set_at.elapsed().as_secs_f64().into();
        json!({
            "asked": setting.impairments,
            "seed": setting.seed,
            "tid": self.tid.as_raw_nonzero().get(),
            "cpus": cpus.unwrap_or_default().to_string(),
            "is_ranked": self.has_priority,
            "counts": counts,
        })
    }

    /// CPU time of its thread.
    fn cpu_time(&self) -> Duration {
        let Some(thread) = self.running() else {
            return Duration::ZERO;
        };
        let mut clock = 0;
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the thread has not been joined, as its handle is here; both are valid for writes.
        let json = unsafe {
            libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) == 0
                && libc::clock_gettime(clock, &raw mut now) == 0
        };
        match json {
            true => Duration::new(now.tv_sec as u64, now.tv_nsec as u32),
            false => Duration::ZERO,
        }
    }
}

impl Drop for Direction {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            // It ended by a fault of its own: its taps are closed all the same.
            let _ = thread.join();
        }
    }
}

/// The thread's own.
struct ForwardingLoop {
    from: Arc<Port>,
    to: Arc<Port>,
    queue: DelayQueue,
    version: u64,
    shared: Arc<Shared>,
}

impl ForwardingLoop {
    fn new(from: Arc<Port>, to: Arc<Port>, queue_bytes: usize, shared: Arc<Shared>) -> Self {
        let (sampler, counts) = shared.sampler_and_counts();
        Self {
            from,
            to,
            queue: DelayQueue::new(queue_bytes, sampler, counts, Instant::now()),
            version: 0,
            shared,
        }
    }

    /// Until it is over; refuses where its near port is gone, which would be ready for ever.
    fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        while !self.shared.is_stopping.load(Ordering::Acquire) {
            // What leaves now is counted by the setting that is told now.
            self.apply_settings();
            self.deliver_due_frames();
            let is_more = self.receive_frame()?;
            self.queue.note_level();
            let next = self.queue.next_due();
            if is_more || next.is_some_and(|due| due <= Instant::now()) {
                continue;
            }
            let come = [(self.from.as_fd(), PollFlags::IN)];
            wait(&come, &mut ready, &self.shared.waker, next)?;
        }
        Ok(())
    }

    fn apply_settings(&mut self) {
        let version = self.shared.version.load(Ordering::Acquire);
        if version != self.version {
            self.version = version;
            let (sampler, counts) = self.shared.sampler_and_counts();
            self.queue.reconfigure(sampler, counts, Instant::now());
        }
    }

    fn deliver_due_frames(&mut self) {
        for _ in 0..MAX_DELIVERED_FRAMES {
            let now = Instant::now();
            let Some((due, frame)) = self.queue.take_due(now) else {
                return;
            };
            let is_taken = self.to.write_frame(frame.bytes());
            self.queue.record_delivery((due, frame), is_taken, now);
        }
    }

    /// The next frame that has come; false where none has. One at a time: what is due meanwhile would wait.
    fn receive_frame(&mut self) -> io::Result<bool> {
        let mut room = self.queue.buffers.acquire();
        let Some(length) = self.from.read_frame(&mut room)? else {
            self.queue.buffers.release(room);
            return Ok(false);
        };
        let now = Instant::now();
        // What comes after the line was set is as it was set, and it may have been since the loop began anew.
        self.apply_settings();
        let frame = self.queue.buffers.make_frame(room, length);
        self.queue.enqueue(now, frame);
        Ok(true)
    }
}

impl Shared {
    fn setting(&self) -> MutexGuard<'_, DirectionSettings> {
        self.setting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sampler_and_counts(&self) -> (ImpairmentSampler, Arc<DirectionCounts>) {
        let setting = self.setting();
        let sampler = ImpairmentSampler::new(setting.impairments.clone(), setting.seed);
        (sampler, Arc::clone(&setting.counts))
    }
}
