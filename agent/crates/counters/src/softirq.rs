//! /proc/softirqs: how often each kind of software interrupt ran, all CPUs together; that of receiving by CPU too.

use crate::proc_file::ProcFile;
use crate::reading::{CounterSource, CounterValue, Reading};
use crate::wrap::Unwrapped;

const KINDS: [(&str, &str); 4] = [
    ("NET_RX", "softirq_net_rx"),
    ("NET_TX", "softirq_net_tx"),
    ("TIMER", "softirq_timer"),
    ("SCHED", "softirq_sched"),
];
/// The first of them.
const NET_RX: usize = 0;

pub struct Softirq {
    file: ProcFile,
    /// By kind, then by CPU: each column is 32 bits wide in the kernel.
    seen: [Vec<Unwrapped>; KINDS.len()],
}

impl Softirq {
    pub fn open() -> Option<Self> {
        Some(Self {
            file: ProcFile::open("/proc/softirqs")?,
            seen: Default::default(),
        })
    }
}

impl CounterSource for Softirq {
    fn read(&mut self, into: &mut Reading) {
        parse(self.file.text(), &mut self.seen, into);
    }
}

fn parse(text: &str, seen: &mut [Vec<Unwrapped>; KINDS.len()], into: &mut Reading) {
    let mut lines = text.lines();
    // The first line names the CPU of each column: `CPU0 CPU1 …`.
    let cpus: Vec<u32> = lines
        .next()
        .unwrap_or("")
        .split_ascii_whitespace()
        .map_while(|name| name.strip_prefix("CPU")?.parse().ok())
        .collect();
    for line in lines {
        let Some((kind, counts)) = line.split_once(':') else {
            continue;
        };
        let Some(at) = KINDS.iter().position(|(name, _)| *name == kind.trim()) else {
            continue;
        };
        let mut total = 0;
        seen[at].resize_with(cpus.len().max(seen[at].len()), Default::default);
        for ((cpu, seen), count) in cpus
            .iter()
            .zip(&mut seen[at])
            .zip(counts.split_ascii_whitespace())
        {
            let count = seen.update(count.parse().unwrap_or(0));
            total += count;
            if at == NET_RX
                && let Some(packets) = into.cpu_packets(*cpu)
            {
                packets.net_rx = Some(count);
            }
        }
        into.counters.push(KINDS[at].1, CounterValue::Count(total));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_summed_over_cpus_and_others_left_out() {
        let first = "                    CPU0       CPU1\n          HI:          0          0\n       TIMER:      32868      34899\n      NET_RX:    1849544 4294967295\n";
        let second = "                    CPU0       CPU1\n          HI:          9          0\n       TIMER:      32869      34901\n      NET_RX:    1849545          1\n";
        let mut seen = Default::default();
        parse(first, &mut seen, &mut Reading::default());
        let mut reading = Reading::of_cpus(2);
        parse(second, &mut seen, &mut reading);
        let net_rx: Vec<_> = reading.cpu.iter().map(|cpu| cpu.packets.net_rx).collect();
        assert_eq!(net_rx, [Some(1), Some(2)]);
        let text = serde_json::to_string(&reading.counters).expect("serializes");
        assert_eq!(text, r#"{"softirq_timer":3,"softirq_net_rx":3}"#);
    }
}
