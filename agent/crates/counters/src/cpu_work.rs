//! The work of one CPU: its time by state, and the packets that it received.

use serde::Serialize;

/// The work of one CPU: its time by state (proc_stat(5)) in seconds, and the packets that it received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuWork {
    /// Number of the CPU.
    pub cpu: u32,
    /// Time in user mode.
    pub user_s: f64,
    /// Time in user mode with low priority.
    pub nice_s: f64,
    /// Time in the kernel.
    pub system_s: f64,
    /// Time in interrupts.
    pub irq_s: f64,
    /// Time in software interrupts.
    pub softirq_s: f64,
    /// Time that the hypervisor gave to other guests.
    pub steal_s: f64,
    /// Idle time.
    pub idle_s: f64,
    /// Idle time while waiting for I/O.
    pub iowait_s: f64,
    /// Packets received.
    #[serde(flatten)]
    pub packets: CpuReceivedPackets,
}

/// Packets that a CPU received since the first reading. Counters that the kernel lacks are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuReceivedPackets {
    /// Packets processed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub softnet_processed: Option<u64>,
    /// Packets dropped because the CPU's backlog was full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub softnet_dropped: Option<u64>,
    /// How often the receive loop ended for lack of budget or time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub softnet_squeezed: Option<u64>,
    /// Packets that another CPU steered to this one (RPS).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub softnet_rps: Option<u64>,
    /// Runs of the software interrupt NET_RX.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub net_rx: Option<u64>,
}

impl CpuReceivedPackets {
    fn since(&self, earlier: &Self) -> Self {
        let diff = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        Self {
            softnet_processed: diff(self.softnet_processed, earlier.softnet_processed),
            softnet_dropped: diff(self.softnet_dropped, earlier.softnet_dropped),
            softnet_squeezed: diff(self.softnet_squeezed, earlier.softnet_squeezed),
            softnet_rps: diff(self.softnet_rps, earlier.softnet_rps),
            net_rx: diff(self.net_rx, earlier.net_rx),
        }
    }
}

impl CpuWork {
    /// Returns the work of each CPU between two readings, without CPUs that came online in between.
    pub fn changes_between(earlier: &[Self], later: &[Self]) -> Vec<Self> {
        // Idle and iowait can decrease a little (proc(5)). Rounding removes binary fractions.
        let diff = |a: f64, b: f64| ((a - b).max(0.0) * 1e4).round() / 1e4;
        later
            .iter()
            .filter_map(|now| {
                let before = earlier.iter().find(|before| before.cpu == now.cpu)?;
                Some(Self {
                    cpu: now.cpu,
                    user_s: diff(now.user_s, before.user_s),
                    nice_s: diff(now.nice_s, before.nice_s),
                    system_s: diff(now.system_s, before.system_s),
                    irq_s: diff(now.irq_s, before.irq_s),
                    softirq_s: diff(now.softirq_s, before.softirq_s),
                    steal_s: diff(now.steal_s, before.steal_s),
                    idle_s: diff(now.idle_s, before.idle_s),
                    iowait_s: diff(now.iowait_s, before.iowait_s),
                    packets: now.packets.since(&before.packets),
                })
            })
            .collect()
    }

    /// Returns the busy time of all CPUs together between two readings.
    pub fn total_busy_s_between(earlier: &[Self], later: &[Self]) -> f64 {
        Self::changes_between(earlier, later)
            .iter()
            .map(Self::busy_s)
            .sum()
    }

    fn busy_s(&self) -> f64 {
        self.user_s + self.nice_s + self.system_s + self.irq_s + self.softirq_s
    }
}
