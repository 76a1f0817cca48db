//! /proc/net/softnet_stat: packets that each CPU's receive loop took, dropped, and had no time for.
//! One row a CPU in hexadecimal: processed, dropped, time_squeeze, … (net/core/net-procfs.c, softnet_seq_show).

use super::proc_file::ProcFile;
use super::wrap::Unwrapped;
use super::{Amount, Reading, Source};

const COLUMNS: [&str; 3] = ["softnet_processed", "softnet_dropped", "softnet_squeezed"];

pub struct Softnet {
    file: ProcFile,
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
    let mut totals = [0; COLUMNS.len()];
    for (row, line) in text.lines().enumerate() {
        if seen.len() <= row {
            seen.push(Default::default());
        }
        for (column, word) in line
            .split_ascii_whitespace()
            .take(COLUMNS.len())
            .enumerate()
        {
            let count = u32::from_str_radix(word, 16).unwrap_or(0);
            totals[column] += seen[row][column].update(count);
        }
    }
    for (name, total) in COLUMNS.iter().zip(totals) {
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
}
