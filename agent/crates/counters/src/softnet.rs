//! /proc/net/softnet_stat: packets processed and dropped by each CPU's receive loop, and how often its budget ran out.
//!
//! The file has one row of hexadecimal numbers for each online CPU: processed, dropped, time_squeeze, …, and in newer
//! kernels the CPU (net/core/net-procfs.c, softnet_seq_show).

use crate::proc_file::ProcFile;
use crate::reading::{CounterSource, CounterValue, Reading};
use crate::unwrapped_counter::UnwrappedCounter;

const SOFTNET_COLUMNS: [&str; 3] = ["softnet_processed", "softnet_dropped", "softnet_squeezed"];
/// Column of packets that another CPU steered to this one (RPS).
const RPS_RECEIVED_COLUMN: usize = 9;
const CPU_NUMBER_COLUMN: usize = 12;

/// Counters of one CPU, as far as the kernel has them.
#[derive(Debug, Clone, Copy, Default)]
struct SoftnetRow {
    columns: [UnwrappedCounter; SOFTNET_COLUMNS.len()],
    rps: Option<UnwrappedCounter>,
}

pub struct SoftnetReader {
    file: ProcFile,
    /// Counters by CPU.
    rows: Vec<SoftnetRow>,
}

impl SoftnetReader {
    pub fn open() -> Option<Self> {
        Some(Self {
            file: ProcFile::open("/proc/net/softnet_stat")?,
            rows: Vec::new(),
        })
    }
}

impl CounterSource for SoftnetReader {
    fn read(&mut self, into: &mut Reading) {
        parse_softnet_stat(self.file.read_text(), &mut self.rows, into);
    }
}

fn parse_softnet_stat(text: &str, rows: &mut Vec<SoftnetRow>, into: &mut Reading) {
    for (line_index, line) in text.lines().enumerate() {
        let words = || {
            line.split_ascii_whitespace()
                .map_while(|word| u32::from_str_radix(word, 16).ok())
        };
        let cpu = words()
            .nth(CPU_NUMBER_COLUMN)
            .map_or(line_index, |cpu| cpu as usize);
        if rows.len() <= cpu {
            rows.resize(cpu + 1, Default::default());
        }
        let row = &mut rows[cpu];
        for (counter, count) in row.columns.iter_mut().zip(words()) {
            counter.update(count);
        }
        if let Some(count) = words().nth(RPS_RECEIVED_COLUMN) {
            row.rps.get_or_insert_default().update(count);
        }
        if let Some(packets) = into.cpu_packets(cpu as u32) {
            let [processed, dropped, squeezed] = row.columns.map(|count| count.total());
            packets.softnet_processed = Some(processed);
            packets.softnet_dropped = Some(dropped);
            packets.softnet_squeezed = Some(squeezed);
            packets.softnet_rps = row.rps.map(|count| count.total());
        }
    }
    for (column, name) in SOFTNET_COLUMNS.iter().enumerate() {
        // Includes CPUs that have gone offline since, so that a total never decreases.
        let total = rows.iter().map(|row| row.columns[column].total()).sum();
        into.counters.push(name, CounterValue::Count(total));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_summed_since_the_first_reading() {
        let mut rows = Vec::new();
        parse_softnet_stat(
            "001f6aa7 00000000 00000001 00000000 00000000\nffffffff 00000002 00000000 00000000 00000000\n",
            &mut rows,
            &mut Reading::default(),
        );
        let mut reading = Reading::default();
        parse_softnet_stat(
            "001f6aaa 00000001 00000001 00000000 00000000\n00000000 00000002 00000004 00000000 00000000\n",
            &mut rows,
            &mut reading,
        );
        let text = serde_json::to_string(&reading.counters).expect("serializes");
        assert_eq!(
            text,
            r#"{"softnet_processed":4,"softnet_dropped":1,"softnet_squeezed":4}"#
        );
    }

    #[test]
    fn a_row_belongs_to_the_cpu_that_it_names() {
        let row = |processed: u32, cpu: u32| {
            format!(
                "{processed:08x} 00000000 00000000{} {cpu:08x}\n",
                " 00000000".repeat(9)
            )
        };
        let mut rows = Vec::new();
        let mut processed = |text: String| {
            let mut reading = Reading::default();
            parse_softnet_stat(&text, &mut rows, &mut reading);
            serde_json::to_value(&reading.counters).expect("serializes")["softnet_processed"]
                .as_u64()
        };
        assert_eq!(processed(row(900, 0) + &row(10, 1) + &row(50, 2)), Some(0));
        assert_eq!(processed(row(901, 0) + &row(52, 2)), Some(3));
        assert_eq!(processed(row(901, 0) + &row(14, 1) + &row(52, 2)), Some(7));
    }

    #[test]
    fn each_cpu_has_its_own_counters_including_rps() {
        let row = |processed: u32, squeezed: u32, rps: u32, cpu: u32| {
            let unused = " 00000000".repeat(6);
            format!(
                "{processed:08x} 00000000 {squeezed:08x}{unused} {rps:08x} 00000000 00000000 {cpu:08x}\n"
            )
        };
        let mut rows = Vec::new();
        let mut packets = |text: String| {
            let mut reading = Reading::with_cpus(3);
            parse_softnet_stat(&text, &mut rows, &mut reading);
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
