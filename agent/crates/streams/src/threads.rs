//! The threads of a trial's streams: distributes streams, sets CPUs, and holds the threads until the start.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use crate::commands::{Command, Commands};
use crate::stream::Stream;
use vnetbench_counters::load_thread::LoadThread;
use vnetbench_system::cpu_list::CpuList;

/// A small stack: a load can have a thousand threads.
const STACK_BYTES: usize = 256 << 10;

/// The threads that drive the streams of one role.
#[derive(Debug)]
pub struct ThreadPlan {
    /// Number of threads, at least 1; at most one thread for each stream starts.
    pub count: usize,
    /// CPUs of each thread, used round robin; empty for the CPUs of the process.
    pub cpus: Vec<CpuList>,
}

impl ThreadPlan {
    /// Returns the plan with its CPUs rotated, as if this many other threads came first.
    pub fn rotate_cpus(mut self, preceding_threads: usize) -> Self {
        if !self.cpus.is_empty() {
            let first = preceding_threads % self.cpus.len();
            self.cpus.rotate_left(first);
        }
        self
    }
}

/// A started thread.
pub struct StartedThread {
    /// The handle for joining.
    pub handle: JoinHandle<()>,
    /// The counters of the thread.
    pub load_thread: Arc<LoadThread>,
}

/// Starts the threads; each waits for `Command::Go` and then runs the job that `job` creates for its streams.
///
/// # Errors
///
/// The system refuses a thread or its CPUs. The threads started before then end.
pub fn start_threads<Job: FnOnce(&Commands) + Send + 'static>(
    streams: &[Arc<Stream>],
    threads: &ThreadPlan,
    commands: &Arc<Commands>,
    job: impl FnMut(&[Arc<Stream>]) -> io::Result<Job>,
) -> io::Result<Vec<StartedThread>> {
    let started = spawn_threads(streams, threads, commands, job);
    if started.is_err() {
        // End the threads that started before the failure.
        commands.issue(Command::EndAll);
        commands.enforce_on(streams);
    }
    started
}

fn spawn_threads<Job: FnOnce(&Commands) + Send + 'static>(
    streams: &[Arc<Stream>],
    threads: &ThreadPlan,
    commands: &Arc<Commands>,
    mut job: impl FnMut(&[Arc<Stream>]) -> io::Result<Job>,
) -> io::Result<Vec<StartedThread>> {
    let count = threads.count.min(streams.len());
    let previous_cpus = CpuList::read_thread_affinity(None)?;
    let (ready, all_ready) = channel();
    let mut started = Vec::with_capacity(count);
    for number in 0..count {
        let own: Vec<_> = streams
            .iter()
            .skip(number)
            .step_by(count)
            .cloned()
            .collect();
        let job = job(&own)?;
        if !threads.cpus.is_empty() {
            // The new thread inherits the affinity of this one, so that a refusal is known here.
            threads.cpus[number % threads.cpus.len()].apply_to(None)?;
        }
        let commands = Arc::clone(commands);
        let ready = ready.clone();
        let load_thread = Arc::new(LoadThread::default());
        let thread_counters = Arc::clone(&load_thread);
        let handle = std::thread::Builder::new()
            .name(format!("stream {number}"))
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _running = thread_counters.record_start();
                // Fails only if another thread did not start; then the command to end follows.
                let _ = ready.send(());
                commands.wait_for_first_command();
                job(&commands);
            })?;
        started.push(StartedThread {
            handle,
            load_thread,
        });
    }
    previous_cpus.apply_to(None)?;
    // Wait until every thread runs, so that the start does not wait for the scheduler.
    for _ in &started {
        let _ = all_ready.recv();
    }
    Ok(started)
}
