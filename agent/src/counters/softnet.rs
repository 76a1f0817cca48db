//! /proc/net/softnet_stat: packets that each CPU's receive loop took, dropped, and had no time for.
//! One row a CPU that is online, in hexadecimal: processed, dropped, time_squeeze, …, and in newer kernels whose row it is
//! (net/core/net-procfs.c, softnet_seq_show).

use super::proc_file::ProcFile;
use super::wrap::Unwrapped;
use super::{Amount, Reading, Source};

const COLUMNS: [&str; 3] = ["softnet_processed", "softnet_dropped", "softnet_squeezed"];
const CPU_COLUMN: usize = 12;

pub struct Softnet {
    file: ProcFile,
    /// By CPU.
    seen: Vec<[Unwrapped; COLUMNS.len()]>,
}

impl Softnet {
    pub fn open() -> Option<Self> {
        Some(Self {
            file: ProcFile::open("/proc/net/softnet_stat")?,
            seen: Vec::new(),
        })
    }
}

impl Source for Softnet {
    fn read(&mut self, into: &mut Reading) {
        parse(self.file.text(), &mut self.seen, into);
    }
}

fn parse(text: &str, seen: &mut Vec<[Unwrapped; COLUMNS.len()]>, into: &mut Reading) {
    for (row, line) in text.lines().enumerate() {
        let words = || {
            line.split_ascii_whitespace()
                .map_while(|word| u32::from_str_radix(word, 16).ok())
        };
        let cpu = words().nth(CPU_COLUMN).map_or(row, |cpu| cpu as usize);
        if seen.len() <= cpu {
            seen.resize(cpu + 1, Default::default());
        }
        for (counter, count) in seen[cpu].iter_mut().zip(words()) {
            counter.update(count);
        }
    }
    for (column, name) in COLUMNS.iter().enumerate() {
        // Those of CPUs that have gone offline since, too: a total does not go down.
        let total = seen.iter().map(|counters| counters[column].total()).sum();
        into.counters.push(name, Amount::Count(total));
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
}
