//! /proc/net/softnet_stat: packets that each CPU's receive loop took, dropped, and had no time for.
//! One row a CPU that is online, in hexadecimal: processed, dropped, time_squeeze, …, and in newer kernels whose row it is
//! (net/core/net-procfs.c, softnet_seq_show).

use crate::proc_file::ProcFile;
use crate::reading::{CounterSource, CounterValue, Reading};
use crate::wrap::Unwrapped;

const COLUMNS: [&str; 3] = ["softnet_processed", "softnet_dropped", "softnet_squeezed"];
/// Packets that another CPU had this one take in.
const RPS_COLUMN: usize = 9;
const CPU_COLUMN: usize = 12;

/// Of one CPU, as far as its row goes.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    columns: [Unwrapped; COLUMNS.len()],
    rps: Option<Unwrapped>,
}

pub struct Softnet {
    file: ProcFile,
    /// By CPU.
    seen: Vec<Row>,
}

impl Softnet {
    pub fn open() -> Option<Self> {
        Some(Self {
            file: ProcFile::open("/proc/net/softnet_stat")?,
            seen: Vec::new(),
        })
    }
}

impl CounterSource for Softnet {
    fn read(&mut self, into: &mut Reading) {
        parse(self.file.text(), &mut self.seen, into);
    }
}

fn parse(text: &str, seen: &mut Vec<Row>, into: &mut Reading) {
    for (row, line) in text.lines().enumerate() {
        let words = || {
            line.split_ascii_whitespace()
                .map_while(|word| u32::from_str_radix(word, 16).ok())
        };
        let cpu = words().nth(CPU_COLUMN).map_or(row, |cpu| cpu as usize);
        if seen.len() <= cpu {
            seen.resize(cpu + 1, Default::default());
        }
        let seen = &mut seen[cpu];
        for (counter, count) in seen.columns.iter_mut().zip(words()) {
            counter.update(count);
        }
        if let Some(count) = words().nth(RPS_COLUMN) {
            seen.rps.get_or_insert_default().update(count);
        }
        if let Some(packets) = into.cpu_packets(cpu as u32) {
            let [processed, dropped, squeezed] = seen.columns.map(|count| count.total());
            packets.softnet_processed = Some(processed);
            packets.softnet_dropped = Some(dropped);
            packets.softnet_squeezed = Some(squeezed);
            packets.softnet_rps = seen.rps.map(|count| count.total());
        }
    }
    for (column, name) in COLUMNS.iter().enumerate() {
        // Those of CPUs that have gone offline since, too: a total does not go down.
        let total = seen.iter().map(|row| row.columns[column].total()).sum();
        into.counters.push(name, CounterValue::Count(total));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_summed_from_the_first_reading_on() {
        let mut seen = Vec::new();
        parse(
            "001f6aa7 00000000 00000001 00000000 00000000\nffffffff 00000002 00000000 00000000 00000000\n",
            &mut seen,
            &mut Reading::default(),
        );
        let mut reading = Reading::default();
        parse(
            "001f6aaa 00000001 00000001 00000000 00000000\n00000000 00000002 00000004 00000000 00000000\n",
            &mut seen,
            &mut reading,
        );
        let text = serde_json::to_string(&reading.counters).expect("serializes");
        assert_eq!(
            text,
            r#"{"softnet_processed":4,"softnet_dropped":1,"softnet_squeezed":4}"#
        );
    }

    #[test]
    fn a_row_is_its_cpus_wherever_it_stands() {
        let row = |processed: u32, cpu: u32| {
            format!(
                "{processed:08x} 00000000 00000000{} {cpu:08x}\n",
                " 00000000".repeat(9)
            )
        };
        let mut seen = Vec::new();
        let mut processed = |text: String| {
            let mut reading = Reading::default();
            parse(&text, &mut seen, &mut reading);
            serde_json::to_value(&reading.counters).expect("serializes")["softnet_processed"]
                .as_u64()
        };
        assert_eq!(processed(row(900, 0) + &row(10, 1) + &row(50, 2)), Some(0));
        assert_eq!(processed(row(901, 0) + &row(52, 2)), Some(3));
        assert_eq!(processed(row(901, 0) + &row(14, 1) + &row(52, 2)), Some(7));
    }

    #[test]
    fn each_cpu_has_its_own_and_what_others_had_it_take() {
        let row = |processed: u32, squeezed: u32, rps: u32, cpu: u32| {
            let unused = " 00000000".repeat(6);
            format!(
                "{processed:08x} 00000000 {squeezed:08x}{unused} {rps:08x} 00000000 00000000 {cpu:08x}\n"
            )
        };
        let mut seen = Vec::new();
        let mut packets = |text: String| {
            let mut reading = Reading::of_cpus(3);
            parse(&text, &mut seen, &mut reading);
            let json = reading.cpu.iter().map(|cpu| cpu.packets);
            json.map(|of| (of.softnet_processed, of.softnet_squeezed, of.softnet_rps))
                .collect::<Vec<_>>()
        };
        packets(row(900, 5, 70, 0) + &row(10, 0, 7, 2));
        assert_eq!(
            packets(row(930, 6, 70, 0) + &row(12, 0, 9, 2)),
            [
                (Some(30), Some(1), Some(0)),
                (None, None, None),
                (Some(2), Some(0), Some(2))
            ]
        );
    }
}
