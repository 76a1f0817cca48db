//! The threads of a trial's streams: dealt out, placed, and held at the gate until the start.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use crate::orders::{Command, Commands};
use crate::stream::Stream;
use vnetbench_counters::load_thread::LoadThread;
use vnetbench_system::cpu_list::CpuList;

/// A thread of the data path needs little; a thousand of them must not need much.
const STACK_BYTES: usize = 256 << 10;

/// The threads that the streams of one side are dealt out to.
#[derive(Debug)]
pub struct ThreadPlan {
    /// At least 1; one thread a stream where it is no less than the streams.
    pub count: usize,
    /// Where thread i may run, taken round robin; empty: where the process may.
    pub cpus: Vec<CpuList>,
}

impl ThreadPlan {
    /// Placed as if they came after so many others that take the same CPUs in turn.
    pub fn skipping(mut self, others: usize) -> Self {
        if !self.cpus.is_empty() {
            let first = others % self.cpus.len();
            self.cpus.rotate_left(first);
        }
        self
    }
}

/// A thread that was started.
pub struct StartedThread {
    pub handle: JoinHandle<()>,
    pub load_thread: Arc<LoadThread>,
}

/// Starts the threads; each waits for `Order::Go` and then does the job that `job` makes of its own streams.
pub fn start_threads<Job: FnOnce(&Commands) + Send + 'static>(
    streams: &[Arc<Stream>],
    threads: &ThreadPlan,
    orders: &Arc<Commands>,
    job: impl FnMut(&[Arc<Stream>]) -> io::Result<Job>,
) -> io::Result<Vec<StartedThread>> {
    let started = start_all(streams, threads, orders, job);
    if started.is_err() {
        // Those that were started before one could not be.
        orders.issue(Command::EndAll);
        orders.enforce(streams);
    }
    started
}

fn start_all<Job: FnOnce(&Commands) + Send + 'static>(
    streams: &[Arc<Stream>],
    threads: &ThreadPlan,
    orders: &Arc<Commands>,
    mut job: impl FnMut(&[Arc<Stream>]) -> io::Result<Job>,
) -> io::Result<Vec<StartedThread>> {
    let count = threads.count.min(streams.len());
    let before = CpuList::of_thread(None)?;
    let (here, at_the_gate) = channel();
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
            // Set on this thread, which the new one inherits from: a refusal is then known here.
            threads.cpus[number % threads.cpus.len()].apply_to(None)?;
        }
        let orders = Arc::clone(orders);
        let here = here.clone();
        let counted = Arc::new(LoadThread::default());
        let counting = Arc::clone(&counted);
        let handle = std::thread::Builder::new()
            .name(format!("stream {number}"))
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _running = counting.note_start();
                // Fails only where another thread could not be started, and then the order to end comes.
                let _ = here.send(());
                orders.wait_for_start();
                job(&orders);
            })?;
        started.push(StartedThread {
            handle,
            load_thread: counted,
        });
    }
    before.apply_to(None)?;
    // A thread that has been started does not run yet, and the start must not wait for it.
    for _ in &started {
        let _ = at_the_gate.recv();
    }
    Ok(started)
}
