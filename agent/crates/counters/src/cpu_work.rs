//! What one CPU did: its time, and the packets that it took in.

use serde::Serialize;

/// What one CPU did: its time in seconds, and the packets that it took in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuWork {
    pub cpu: u32,
    pub user_s: f64,
    pub nice_s: f64,
    pub system_s: f64,
    pub irq_s: f64,
    pub softirq_s: f64,
    pub steal_s: f64,
    pub idle_s: f64,
    pub iowait_s: f64,
    #[serde(flatten)]
    pub packets: CpuPackets,
}

/// Since the first reading; what the kernel does not tell of a CPU is left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuPackets {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub softnet_processed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub softnet_dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub softnet_squeezed: Option<u64>,
    /// Another CPU had this one take them in (RPS).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub softnet_rps: Option<u64>,
    /// How often its software interrupt for receiving ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub net_rx: Option<u64>,
}

impl CpuPackets {
    fn since(&self, earlier: &Self) -> Self {
        let diff = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
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
    /// What each CPU did since `earlier`; a CPU that came in between is left out.
    pub fn since(now: &[Self], earlier: &[Self]) -> Vec<Self> {
        // The kernel lets idle and iowait step back a little (proc(5)); the binary fraction is rounded off.
        let diff = |a: f64, b: f64| ((a - b).max(0.0) * 1e4).round() / 1e4;
        now.iter()
            .filter_map(|n| {
                let e = earlier.iter().find(|e| e.cpu == n.cpu)?;
                Some(Self {
                    cpu: n.cpu,
                    user_s: diff(n.user_s, e.user_s),
                    nice_s: diff(n.nice_s, e.nice_s),
                    system_s: diff(n.system_s, e.system_s),
                    irq_s: diff(n.irq_s, e.irq_s),
                    softirq_s: diff(n.softirq_s, e.softirq_s),
                    steal_s: diff(n.steal_s, e.steal_s),
                    idle_s: diff(n.idle_s, e.idle_s),
                    iowait_s: diff(n.iowait_s, e.iowait_s),
                    packets: n.packets.since(&e.packets),
                })
            })
            .collect()
    }

    /// CPU time that all CPUs together have spent working since `earlier`.
    pub fn busy_s_since(now: &[Self], earlier: &[Self]) -> f64 {
        Self::since(now, earlier).iter().map(Self::busy_s).sum()
    }

    fn busy_s(&self) -> f64 {
        self.user_s + self.nice_s + self.system_s + self.irq_s + self.softirq_s
    }
}
