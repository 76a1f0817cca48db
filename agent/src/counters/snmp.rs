//! /proc/net/snmp: TCP segments of this network namespace.

use super::proc_file::ProcFile;
use super::{Amount, Reading, Source};

pub struct Snmp {
    file: ProcFile,
}

impl Snmp {
    pub fn open() -> Option<Self> {
        Some(Self {
            file: ProcFile::open("/proc/net/snmp")?,
        })
    }
}

impl Source for Snmp {
    fn read(&mut self, into: &mut Reading) {
        let text = self.file.text();
        for (column, name) in [
            ("OutSegs", "tcp_segments_out"),
            ("RetransSegs", "tcp_segments_retransmitted"),
        ] {
            if let Some(count) = tcp_counter(text, column) {
                into.counters.push(name, Amount::Count(count));
            }
        }
    }
}

/// The file pairs a line of names with a line of values, both opened by the protocol's name.
fn tcp_counter(text: &str, column: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let names = lines.next()?.split_ascii_whitespace();
    let values = lines.next()?.split_ascii_whitespace();
    let (_, value) = names.zip(values).find(|(name, _)| *name == column)?;
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_name() {
        let text = "Icmp: InMsgs\nIcmp: 0
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors
Tcp: 1 200 120000 -1 27 2 0 7 0 7563 4497 3 0 17 0
Udp: InDatagrams\nUdp: 1\n";
        assert_eq!(tcp_counter(text, "OutSegs"), Some(4497));
        assert_eq!(tcp_counter(text, "RetransSegs"), Some(3));
        assert_eq!(tcp_counter(text, "Nonesuch"), None);
    }
}
