//! /proc/pressure/cpu: the time during which some task of the system waited for a CPU (pressure stall information).

use crate::proc_file::ProcFile;
use crate::reading::{CounterSource, CounterValue, Reading};

pub struct CpuPressureReader {
    file: ProcFile,
}

impl CpuPressureReader {
    pub fn open() -> Option<Self> {
        Some(Self {
            file: ProcFile::open("/proc/pressure/cpu")?,
        })
    }
}

impl CounterSource for CpuPressureReader {
    fn read(&mut self, into: &mut Reading) {
        // With psi=0 the file exists, but reading it fails.
        if let Some(micros) = parse_some_stall_total_us(self.file.read_text()) {
            let name = "pressure_cpu_some_s";
            into.counters.push(name, CounterValue::Nanos(micros * 1000));
        }
    }
}

/// Returns the total in microseconds of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`.
fn parse_some_stall_total_us(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let mut words = some.split_ascii_whitespace();
    words
        .find_map(|word| word.strip_prefix("total="))?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_the_line_some() {
        let text = "some avg10=0.26 avg60=0.54 avg300=0.34 total=87425\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";
        assert_eq!(parse_some_stall_total_us(text), Some(87425));
        assert_eq!(parse_some_stall_total_us(""), None);
    }
}
