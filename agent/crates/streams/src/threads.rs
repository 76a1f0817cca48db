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
/// The system refuses a thread or its CPUs. The threads started before then have ended, and the calling thread has the
/// CPUs that it had.
pub fn start_threads<Job: FnOnce(&Commands) + Send + 'static>(
    streams: &[Arc<Stream>],
    threads: &ThreadPlan,
    commands: &Arc<Commands>,
    job: impl FnMut(&[Arc<Stream>]) -> io::Result<Job>,
) -> io::Result<Vec<StartedThread>> {
    let previous_cpus = CpuList::read_thread_affinity(None)?;
    let mut started = Vec::new();
    let spawned = spawn_threads(streams, threads, commands, job, &mut started);
    let result = previous_cpus
        .apply_to(None)
        .map_err(io::Error::from)
        .and(spawned);
    if let Err(error) = result {
        commands.issue(Command::EndAll);
        commands.enforce_on(streams);
        for thread in started {
            // A thread that panicked has ended too.
            let _ = thread.handle.join();
        }
        return Err(error);
    }
    Ok(started)
}

/// Starts the threads and adds them to `started`. Changes the CPUs of the calling thread.
fn spawn_threads<Job: FnOnce(&Commands) + Send + 'static>(
    streams: &[Arc<Stream>],
    threads: &ThreadPlan,
    commands: &Arc<Commands>,
    mut job: impl FnMut(&[Arc<Stream>]) -> io::Result<Job>,
    started: &mut Vec<StartedThread>,
) -> io::Result<()> {
    let count = threads.count.min(streams.len());
    let (ready, all_ready) = channel();
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
    // Wait until every thread runs, so that the start does not wait for the scheduler.
    for _ in started {
        let _ = all_ready.recv();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use socket2::Socket;

    use super::*;
    use crate::role::Role;

    fn streams(count: u32) -> Vec<Arc<Stream>> {
        let socket = || {
            Socket::from(std::os::fd::OwnedFd::from(
                UnixStream::pair().expect("pair").0,
            ))
        };
        (0..count)
            .map(|id| Arc::new(Stream::new(id, Role::Source, None, socket(), None, None)))
            .collect()
    }

    fn cpus(text: &str) -> CpuList {
        CpuList::parse(text).expect("a list")
    }

    /// Starts one thread on a CPU of this thread, and fails at the second. Returns the number of jobs that still exist.
    fn fail_at_the_second_thread(
        cpus: Vec<CpuList>,
        mut second_job: impl FnMut() -> io::Result<()>,
    ) -> usize {
        let commands = Arc::new(Commands::default());
        let alive = Arc::new(());
        let mut number = 0;
        let result = start_threads(
            &streams(2),
            &ThreadPlan { count: 2, cpus },
            &commands,
            |_| {
                number += 1;
                if number == 2 {
                    second_job()?;
                }
                let alive = Arc::clone(&alive);
                Ok(move |_: &Commands| drop(alive))
            },
        );
        assert!(result.is_err());
        Arc::strong_count(&alive) - 1
    }

    #[test]
    fn after_refused_cpus_the_caller_has_its_own_again_and_no_thread_is_left() {
        let before = CpuList::read_thread_affinity(None).expect("affinity");
        let first = CpuList::from_cpu(before.iter().next().expect("a CPU"));
        let absent = cpus("1023");
        assert!(absent.apply_to(None).is_err(), "this machine has CPU 1023");
        let jobs_left = fail_at_the_second_thread(vec![first, absent], || Ok(()));
        assert_eq!(
            CpuList::read_thread_affinity(None).expect("affinity"),
            before
        );
        assert_eq!(jobs_left, 0);
    }

    #[test]
    fn after_a_job_that_cannot_be_made_the_caller_has_its_own_cpus_and_no_thread_is_left() {
        let before = CpuList::read_thread_affinity(None).expect("affinity");
        let first = CpuList::from_cpu(before.iter().next().expect("a CPU"));
        let jobs_left =
            fail_at_the_second_thread(vec![first], || Err(io::ErrorKind::OutOfMemory.into()));
        assert_eq!(
            CpuList::read_thread_affinity(None).expect("affinity"),
            before
        );
        assert_eq!(jobs_left, 0);
    }
}
