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

use crate::counts::Counts;
use crate::delay_queue::Passage;
use crate::impairments::{Fates, Impairments};
use crate::ports::Port;
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::error::{Error, Result};
use vnetbench_system::priority::{Rank, run_before_others};
use vnetbench_system::waiting::{Bell, wait};

/// Frames that are given, at most, before it is looked whether others are there.
const BATCH: usize = 16;

/// What a direction is to do, and what it has counted since it was told.
struct Setting {
    impairments: Impairments,
    seed: u64,
    counts: Arc<Counts>,
    cpu_then: Duration,
    since: Instant,
}

struct Shared {
    setting: Mutex<Setting>,
    /// Which setting this is: the thread looks here alone until it changes.
    version: AtomicU64,
    is_over: AtomicBool,
    /// Why the near port can be neither read nor waited for any more.
    lost: OnceLock<io::Error>,
    /// Rung at the end.
    bell: Bell,
}

pub struct Direction {
    pub name: &'static str,
    tid: Pid,
    /// Whether it runs before other work.
    is_ranked: bool,
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
                setting: Mutex::new(Setting {
                    impairments,
                    seed,
                    counts: Arc::new(Counts::new()),
                    cpu_then: Duration::ZERO,
                    since: Instant::now(),
                }),
                version: AtomicU64::new(0),
                is_over: AtomicBool::new(false),
                lost: OnceLock::new(),
                bell: Bell::new()?,
            });
            let (known, knows) = std::sync::mpsc::channel();
            let its = Arc::clone(&shared);
            let thread = std::thread::Builder::new()
                .name(format!("line {name}"))
                .spawn(move || {
                    // Who waits for it is there.
                    let _ = known.send((gettid(), run_before_others(Rank::Port)));
                    let [from, to] = ports;
                    if let Err(error) = Loop::of(from, to, queue_bytes, Arc::clone(&its)).run() {
                        let _ = its.lost.set(error);
                    }
                })?;
            let (tid, is_ranked) = knows.recv().map_err(io::Error::other)?;
            Ok(Self {
                name,
                tid,
                is_ranked,
                shared,
                thread: Some(thread),
            })
        };
        start().map_err(|error: io::Error| Error::system("start a thread of a line", error))
    }

    /// From now on, of frames that come; its counts begin anew.
    pub fn set(&self, impairments: Impairments, seed: u64) {
        let cpu_then = self.cpu();
        let mut setting = self.shared.setting();
        *setting = Setting {
            impairments,
            seed,
            counts: Arc::new(Counts::after(&setting.counts)),
            cpu_then,
            since: Instant::now(),
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
    pub fn lost(&self) -> Option<&io::Error> {
        self.shared.lost.get()
    }

    /// As docs/protocol.md has it.
    pub fn told(&self) -> Value {
        let cpu = self.cpu();
        let cpus = self
            .running()
            .and_then(|thread| CpuList::of_started(thread).ok());
        let setting = self.shared.setting();
        let mut counts = setting.counts.told();
        counts["cpu_s"] = cpu.saturating_sub(setting.cpu_then).as_secs_f64().into();
        counts["elapsed_s"] = setting.since.elapsed().as_secs_f64().into();
        json!({
            "asked": setting.impairments,
            "seed": setting.seed,
            "tid": self.tid.as_raw_nonzero().get(),
            "cpus": cpus.unwrap_or_default().to_string(),
            "is_ranked": self.is_ranked,
            "counts": counts,
        })
    }

    /// CPU time of its thread.
    fn cpu(&self) -> Duration {
        let Some(thread) = self.running() else {
            return Duration::ZERO;
        };
        let mut clock = 0;
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the thread has not been joined, as its handle is here; both are valid for writes.
        let told = unsafe {
            libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) == 0
                && libc::clock_gettime(clock, &raw mut now) == 0
        };
        match told {
            true => Duration::new(now.tv_sec as u64, now.tv_nsec as u32),
            false => Duration::ZERO,
        }
    }
}

impl Drop for Direction {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.bell.ring();
        if let Some(thread) = self.thread.take() {
            // It ended by a fault of its own: its taps are closed all the same.
            let _ = thread.join();
        }
    }
}

/// The thread's own.
struct Loop {
    from: Arc<Port>,
    to: Arc<Port>,
    passage: Passage,
    version: u64,
    shared: Arc<Shared>,
}

impl Loop {
    fn of(from: Arc<Port>, to: Arc<Port>, queue_bytes: usize, shared: Arc<Shared>) -> Self {
        let (fates, counts) = shared.asked();
        Self {
            from,
            to,
            passage: Passage::of(queue_bytes, fates, counts, Instant::now()),
            version: 0,
            shared,
        }
    }

    /// Until it is over; refuses where its near port is gone, which would be ready for ever.
    fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        while !self.shared.is_over.load(Ordering::Acquire) {
            // What leaves now is counted by the setting that is told now.
            self.take_orders();
            self.give_what_is_due();
            let is_more = self.take_one()?;
            self.passage.note_level();
            let next = self.passage.next_due();
            if is_more || next.is_some_and(|due| due <= Instant::now()) {
                continue;
            }
            let come = [(self.from.as_fd(), PollFlags::IN)];
            wait(&come, &mut ready, &self.shared.bell, next)?;
        }
        Ok(())
    }

    fn take_orders(&mut self) {
        let version = self.shared.version.load(Ordering::Acquire);
        if version != self.version {
            self.version = version;
            let (fates, counts) = self.shared.asked();
            self.passage.set(fates, counts, Instant::now());
        }
    }

    fn give_what_is_due(&mut self) {
        for _ in 0..BATCH {
            let now = Instant::now();
            let Some((due, frame)) = self.passage.take_due(now) else {
                return;
            };
            let is_taken = self.to.give(frame.bytes());
            self.passage.gave((due, frame), is_taken, now);
        }
    }

    /// The next frame that has come; false where none has. One at a time: what is due meanwhile would wait.
    fn take_one(&mut self) -> io::Result<bool> {
        let mut room = self.passage.rooms.room();
        let Some(length) = self.from.take(&mut room)? else {
            self.passage.rooms.put_back(room);
            return Ok(false);
        };
        let now = Instant::now();
        // What comes after the line was set is as it was set, and it may have been since the loop began anew.
        self.take_orders();
        let frame = self.passage.rooms.keep(room, length);
        self.passage.admit(now, frame);
        Ok(true)
    }
}

impl Shared {
    fn setting(&self) -> MutexGuard<'_, Setting> {
        self.setting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self) -> (Fates, Arc<Counts>) {
        let setting = self.setting();
        let fates = Fates::of(setting.impairments.clone(), setting.seed);
        (fates, Arc::clone(&setting.counts))
    }
}
