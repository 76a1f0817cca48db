//! The thread that moves ports of a team by their load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aya::maps::{HashMap, MapData};

use crate::balance::{LoadBalancing, PortLoad, choose_move};
use vnetbench_bpf::{ProbeResult, join_first_error_lines};

/// The member of each key of a team: MAC addresses as numbers, or indexes of interfaces.
pub type MemberTable = HashMap<MapData, u64, u32>;

/// A running thread. It ends when this value is dropped.
pub struct Balancer {
    moves: Arc<AtomicU64>,
    /// Its drop ends the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Balancer {
    /// Starts the thread.
    ///
    /// # Arguments
    ///
    /// `table` has the member of each port, and `port_bytes` what each port has sent.
    pub fn start(
        balancing: LoadBalancing,
        table: Arc<Mutex<MemberTable>>,
        port_bytes: HashMap<MapData, u64, u64>,
    ) -> ProbeResult<Self> {
        let moves = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&moves);
        let (stop, stopped) = mpsc::channel();
        let mut meter = PortMeter::new(port_bytes);
        let thread = std::thread::Builder::new()
            .name("team-balancer".into())
            .spawn(move || {
                let period = Duration::from_secs_f64(balancing.period_s);
                while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                    let mut table = lock_table(&table);
                    let loads = meter.measure(&table);
                    if let Some((port, member)) = choose_move(&balancing.speeds_bps, &loads)
                        && table.insert(port, member, 0).is_ok()
                    {
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
            .map_err(|error| format!("start the thread of load balancing: {error}"))?;
        Ok(Self {
            moves,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns how often a port moved.
    pub fn move_count(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by its own message.
            let _ = thread.join();
        }
    }
}

/// Locks a table, also after a panic of another thread: each change of it is one system call.
pub fn lock_table(table: &Mutex<MemberTable>) -> MutexGuard<'_, MemberTable> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads all entries of a table, sorted by their keys.
pub fn read_entries(table: &MemberTable) -> ProbeResult<Vec<(u64, u32)>> {
    let mut entries = table
        .iter()
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| join_first_error_lines(&error))?;
    entries.sort_unstable();
    Ok(entries)
}

/// Measures the rate of each port since the last measurement.
struct PortMeter {
    port_bytes: HashMap<MapData, u64, u64>,
    measured_at: Instant,
    bytes_then: std::collections::HashMap<u64, u64>,
}

impl PortMeter {
    fn new(port_bytes: HashMap<MapData, u64, u64>) -> Self {
        Self {
            port_bytes,
            measured_at: Instant::now(),
            bytes_then: std::collections::HashMap::new(),
        }
    }

    /// Returns the load of each port of the table. A table that cannot be read has none.
    fn measure(&mut self, table: &MemberTable) -> Vec<PortLoad> {
        let now = Instant::now();
        let seconds = (now - self.measured_at).as_secs_f64();
        self.measured_at = now;
        let entries = read_entries(table).unwrap_or_default();
        entries
            .into_iter()
            .map(|(port, member)| {
                let bytes = self.port_bytes.get(&port, 0).unwrap_or_default();
                let before = self.bytes_then.insert(port, bytes).unwrap_or_default();
                PortLoad {
                    port,
                    member,
                    rate_bps: 8.0 * bytes.saturating_sub(before) as f64 / seconds,
                }
            })
            .collect()
    }
}
