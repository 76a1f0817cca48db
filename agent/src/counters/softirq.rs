//! /proc/softirqs: how often each kind of software interrupt ran, all CPUs together.

use super::proc_file::ProcFile;
use super::wrap::Unwrapped;
use super::{Amount, Reading, Source};

const KINDS: [(&str, &str); 4] = [
    ("NET_RX", "softirq_net_rx"),
    ("NET_TX", "softirq_net_tx"),
    ("TIMER", "softirq_timer"),
    ("SCHED", "softirq_sched"),
];

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

impl Source for Softirq {
    fn read(&mut self, into: &mut Reading) {
        parse(self.file.text(), &mut self.seen, into);
    }
}

fn parse(text: &str, seen: &mut [Vec<Unwrapped>; KINDS.len()], into: &mut Reading) {
    for line in text.lines() {
        let Some((kind, counts)) = line.split_once(':') else {
            continue;
        };
        let Some(at) = KINDS.iter().position(|(name, _)| *name == kind.trim()) else {
            continue;
        };
        let mut total = 0;
        for (cpu, count) in counts.split_ascii_whitespace().enumerate() {
            if seen[at].len() <= cpu {
                seen[at].push(Unwrapped::default());
            }
            total += seen[at][cpu].update(count.parse().unwrap_or(0));
        }
        into.counters.push(KINDS[at].1, Amount::Count(total));
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
        let mut reading = Reading::default();
        parse(second, &mut seen, &mut reading);
        let text = serde_json::to_string(&reading.counters).expect("serializes");
        assert_eq!(text, r#"{"softirq_timer":3,"softirq_net_rx":3}"#);
    }
}
