//! /proc/stat: the time that each CPU spent in each state, and interrupts and context switches of the system.

use crate::cpu_work::{CpuReceivedPackets, CpuWork};
use crate::proc_file::ProcFile;
use crate::reading::{CounterSource, CounterValue, Reading};

pub struct CpuTimesReader {
    file: ProcFile,
    ticks_per_s: f64,
}

impl CpuTimesReader {
    pub fn open() -> Option<Self> {
        Some(Self {
            file: ProcFile::open("/proc/stat")?,
            ticks_per_s: rustix::param::clock_ticks_per_second() as f64,
        })
    }
}

impl CounterSource for CpuTimesReader {
    fn read(&mut self, into: &mut Reading) {
        parse_proc_stat(self.file.read_text(), self.ticks_per_s, into);
    }
}

fn parse_proc_stat(text: &str, ticks_per_s: f64, into: &mut Reading) {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let name = words.next().unwrap_or("");
        if name == "intr" || name == "ctxt" {
            let counter = if name == "intr" {
                "interrupts"
            } else {
                "context_switches_system"
            };
            if let Some(count) = words.next().and_then(|w| w.parse().ok()) {
                into.counters.push(counter, CounterValue::Count(count));
            }
        } else if let Some(cpu) = name.strip_prefix("cpu").and_then(|n| n.parse().ok()) {
            let mut next = || {
                words
                    .next()
                    .and_then(|w| w.parse::<f64>().ok())
                    .unwrap_or(0.0)
                    / ticks_per_s
            };
            // The columns of the file are not in the order of the struct.
            let (user_s, nice_s, system_s, idle_s) = (next(), next(), next(), next());
            let (iowait_s, irq_s, softirq_s, steal_s) = (next(), next(), next(), next());
            into.cpu.push(CpuWork {
                cpu,
                user_s,
                nice_s,
                system_s,
                irq_s,
                softirq_s,
                steal_s,
                idle_s,
                iowait_s,
                packets: CpuReceivedPackets::default(),
            });
        }
    }
}

/// Returns the mean clock of all CPUs. Returns `None` if the kernel does not report it (many ARM systems).
pub fn read_mean_clock_hz() -> Option<f64> {
    parse_mean_clock_hz(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
}

fn parse_mean_clock_hz(cpuinfo: &str) -> Option<f64> {
    let clocks: Vec<f64> = cpuinfo
        .lines()
        .filter(|line| line.starts_with("cpu MHz"))
        .filter_map(|line| line.split(':').nth(1)?.trim().parse().ok())
        .collect();
    (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64 * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl CpuWork {
        pub(crate) fn idle(cpu: u32) -> Self {
            Self {
                cpu,
                ..Self::default()
            }
        }
    }

    const STAT: &str = "cpu  26720 0 35774 4145869 1056 0 8613 1466 0 0
cpu0 2106 1 4589 1046676 83 2 1585 388 0 0
cpu3 18302 0 18436 1013914 734 0 2967 378 0 0
intr 5681915 0 0 0 0 1
ctxt 5542414
btime 1700550000
softirq 17777 0 33
";

    #[test]
    fn cpu_times_are_parsed_for_each_cpu() {
        let mut reading = Reading::default();
        parse_proc_stat(STAT, 100.0, &mut reading);
        assert_eq!(
            reading.cpu[0],
            CpuWork {
                cpu: 0,
                user_s: 21.06,
                nice_s: 0.01,
                system_s: 45.89,
                irq_s: 0.02,
                softirq_s: 15.85,
                steal_s: 3.88,
                idle_s: 10466.76,
                iowait_s: 0.83,
                packets: CpuReceivedPackets::default(),
            }
        );
        assert_eq!(reading.cpu[1].cpu, 3);
        let text = serde_json::to_string(&reading.counters).expect("serializes");
        assert_eq!(
            text,
            r#"{"interrupts":5681915,"context_switches_system":5542414}"#
        );
    }

    #[test]
    fn idle_time_that_decreases_counts_as_zero() {
        let mut earlier = Reading::default();
        parse_proc_stat(STAT, 100.0, &mut earlier);
        let mut now = earlier.clone();
        now.cpu[0].idle_s -= 0.01;
        now.cpu[0].user_s += 0.05;
        let since = CpuWork::changes_between(&earlier.cpu, &now.cpu);
        assert_eq!((since[0].idle_s, since[0].user_s), (0.0, 0.05));
    }

    #[test]
    fn a_cpu_that_comes_online_does_not_add_its_earlier_time() {
        let mut earlier = Reading::default();
        parse_proc_stat(STAT, 100.0, &mut earlier);
        let mut now = earlier.clone();
        now.cpu[0].softirq_s += 0.25;
        now.cpu[0].iowait_s += 0.5;
        earlier.cpu.remove(1);
        assert_eq!(CpuWork::total_busy_s_between(&earlier.cpu, &now.cpu), 0.25);
    }

    #[test]
    fn the_clock_is_the_mean_of_all_reported_clocks() {
        let hz = parse_mean_clock_hz("cpu MHz\t\t: 2000.0\nx: 1\ncpu MHz\t\t: 3000.0\n");
        assert_eq!(hz, Some(2.5e9));
        assert_eq!(parse_mean_clock_hz("BogoMIPS : 50\n"), None);
    }
}
