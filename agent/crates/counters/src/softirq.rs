//! /proc/softirqs: runs of each kind of software interrupt, summed over CPUs; NET_RX also for each CPU.

use crate::proc_file::ProcFile;
use crate::reading::{CounterSource, CounterValue, Reading};
use crate::unwrapped_counter::UnwrappedCounter;

const SOFTIRQ_KINDS: [(&str, &str); 4] = [
    ("NET_RX", "softirq_net_rx"),
    ("NET_TX", "softirq_net_tx"),
    ("TIMER", "softirq_timer"),
    ("SCHED", "softirq_sched"),
];
/// Index of NET_RX.
const NET_RX_INDEX: usize = 0;

pub struct SoftirqReader {
    file: ProcFile,
    /// Counts by kind, then by CPU. The kernel's counters have 32 bits.
    counts: [Vec<UnwrappedCounter>; SOFTIRQ_KINDS.len()],
}

impl SoftirqReader {
    pub fn open() -> Option<Self> {
        Some(Self {
            file: ProcFile::open("/proc/softirqs")?,
            counts: Default::default(),
        })
    }
}

impl CounterSource for SoftirqReader {
    fn read(&mut self, into: &mut Reading) {
        parse_proc_softirqs(self.file.read_text(), &mut self.counts, into);
    }
}

fn parse_proc_softirqs(
    text: &str,
    totals: &mut [Vec<UnwrappedCounter>; SOFTIRQ_KINDS.len()],
    into: &mut Reading,
) {
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
        let Some(kind_index) = SOFTIRQ_KINDS
            .iter()
            .position(|(name, _)| *name == kind.trim())
        else {
            continue;
        };
        let mut total = 0;
        totals[kind_index].resize_with(cpus.len().max(totals[kind_index].len()), Default::default);
        for ((cpu, counter), count) in cpus
            .iter()
            .zip(&mut totals[kind_index])
            .zip(counts.split_ascii_whitespace())
        {
            let count = counter.update(count.parse().unwrap_or(0));
            total += count;
            if kind_index == NET_RX_INDEX
                && let Some(packets) = into.cpu_packets(*cpu)
            {
                packets.net_rx = Some(count);
            }
        }
        into.counters
            .push(SOFTIRQ_KINDS[kind_index].1, CounterValue::Count(total));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_kinds_are_summed_over_cpus() {
        let first = "                    CPU0       CPU1\n          HI:          0          0\n       TIMER:      32868      34899\n      NET_RX:    1849544 4294967295\n";
        let second = "                    CPU0       CPU1\n          HI:          9          0\n       TIMER:      32869      34901\n      NET_RX:    1849545          1\n";
        let mut totals = Default::default();
        parse_proc_softirqs(first, &mut totals, &mut Reading::default());
        let mut reading = Reading::with_cpus(2);
        parse_proc_softirqs(second, &mut totals, &mut reading);
        let net_rx: Vec<_> = reading.cpu.iter().map(|cpu| cpu.packets.net_rx).collect();
        assert_eq!(net_rx, [Some(1), Some(2)]);
        let text = serde_json::to_string(&reading.counters).expect("serializes");
        assert_eq!(text, r#"{"softirq_timer":3,"softirq_net_rx":3}"#);
    }
}
