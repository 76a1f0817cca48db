//! Protocol counters of this network namespace: /proc/net/snmp, netstat and snmp6. IPv4 and IPv6 are summed (names as in
//! net/ipv4/proc.c and net/ipv6/proc.c).

use crate::proc_file::ProcFile;
use crate::reading::{CounterValue, Counters};

/// Counters kept of snmp and netstat: protocol, kernel name, counter name. Entries of one counter are summed.
const PROTOCOL_COUNTERS: [(&str, &str, &str); 28] = [
    ("Tcp", "OutSegs", "tcp_segments_out"),
    ("Tcp", "RetransSegs", "tcp_segments_retransmitted"),
    ("Tcp", "InSegs", "tcp_in_segments"),
    ("Tcp", "ActiveOpens", "tcp_connections_opened"),
    ("TcpExt", "TCPTimeouts", "tcp_timeouts"),
    ("TcpExt", "TCPSynRetrans", "tcp_syn_retransmits"),
    ("TcpExt", "TCPFastRetrans", "tcp_fast_retransmits"),
    ("TcpExt", "TCPLostRetransmit", "tcp_lost_retransmits"),
    ("TcpExt", "ListenDrops", "tcp_listen_drops"),
    ("TcpExt", "TCPBacklogDrop", "tcp_backlog_drop"),
    ("TcpExt", "RcvPruned", "tcp_rcv_pruned"),
    ("TcpExt", "TCPRcvQDrop", "tcp_rcv_pruned"),
    ("TcpExt", "TCPRcvCollapsed", "tcp_rcv_collapsed"),
    ("TcpExt", "TCPOFOQueue", "tcp_ofo_queued"),
    ("TcpExt", "TCPToZeroWindowAdv", "tcp_zero_window_sent"),
    ("TcpExt", "TCPSACKReorder", "tcp_sack_reorder"),
    ("TcpExt", "TCPTSReorder", "tcp_sack_reorder"),
    ("TcpExt", "TCPDSACKRecv", "tcp_dsack"),
    ("TcpExt", "TCPDSACKOldSent", "tcp_duplicates_received"),
    ("TcpExt", "TCPDSACKOfoSent", "tcp_duplicates_received"),
    ("TcpExt", "TCPMTUPFail", "tcp_mtu_probes_failed"),
    ("Udp", "RcvbufErrors", "udp_receive_buffer_errors"),
    ("Udp", "SndbufErrors", "udp_send_buffer_errors"),
    ("Udp", "InCsumErrors", "udp_checksum_errors"),
    ("Ip", "FragFails", "ip_fragments_failed"),
    ("Ip", "FragCreates", "ip_fragments_made"),
    ("Ip", "ReasmFails", "ip_reassembly_failed"),
    ("Icmp", "InDestUnreachs", "icmp_in_unreachable"),
];
/// Counters kept of snmp6. IPv6 has a message type of its own for packets that are too big (RFC 4443, section 3.2); IPv4
/// reports them as unreachable.
const IPV6_COUNTERS: [(&str, &str); 8] = [
    ("Udp6RcvbufErrors", "udp_receive_buffer_errors"),
    ("Udp6SndbufErrors", "udp_send_buffer_errors"),
    ("Udp6InCsumErrors", "udp_checksum_errors"),
    ("Ip6FragFails", "ip_fragments_failed"),
    ("Ip6FragCreates", "ip_fragments_made"),
    ("Ip6ReasmFails", "ip_reassembly_failed"),
    ("Icmp6InDestUnreachs", "icmp_in_unreachable"),
    ("Icmp6InPktTooBigs", "icmp_in_unreachable"),
];

pub struct ProtocolCounterReader {
    paired_files: Vec<NameAndValueLinesFile>,
    snmp6_file: Option<ProcFile>,
}

/// A file of line pairs: a line of names and a line of values.
struct NameAndValueLinesFile {
    file: ProcFile,
    layouts: ColumnCache,
}

/// The kept columns of each line of names, with their counter names.
#[derive(Default)]
struct ColumnCache(Vec<(String, IndicesAndNamesOfKeptColumns)>);

type IndicesAndNamesOfKeptColumns = Vec<(usize, &'static str)>;

impl ProtocolCounterReader {
    /// Opens the files. With `without_ipv6`, snmp6 is left out, which takes half as long to read as the other files.
    pub fn open(without_ipv6: bool) -> Self {
        let paired = ["/proc/net/snmp", "/proc/net/netstat"];
        Self {
            paired_files: paired
                .into_iter()
                .filter_map(NameAndValueLinesFile::open)
                .collect(),
            snmp6_file: ProcFile::open("/proc/net/snmp6").filter(|_| !without_ipv6),
        }
    }
}

impl ProtocolCounterReader {
    pub fn read(&mut self) -> Counters {
        let mut sums = CounterSums::default();
        for NameAndValueLinesFile { file, layouts } in &mut self.paired_files {
            add_paired_lines(file.read_text(), layouts, &mut sums);
        }
        if let Some(file) = &mut self.snmp6_file {
            add_snmp6_lines(file.read_text(), &mut sums);
        }
        let counts = sums.0.into_iter();
        Counters(
            counts
                .map(|(name, sum)| (name, CounterValue::Count(sum)))
                .collect(),
        )
    }
}

/// Sums by counter name, of the counters that the kernel has.
#[derive(Default)]
struct CounterSums(Vec<(&'static str, u64)>);

impl CounterSums {
    fn add(&mut self, name: &'static str, count: &str) {
        let Ok(count) = count.parse::<u64>() else {
            return;
        };
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += count,
            None => self.0.push((name, count)),
        }
    }
}

impl NameAndValueLinesFile {
    fn open(path: &str) -> Option<Self> {
        Some(Self {
            file: ProcFile::open(path)?,
            layouts: ColumnCache::default(),
        })
    }
}

impl ColumnCache {
    /// Returns the kept columns in order. Cached, because a line has hundreds of names that hardly ever change.
    fn cached_kept_columns(&mut self, names: &str) -> &[(usize, &'static str)] {
        let known = self.0.iter().position(|(known, _)| known == names);
        let index = known.unwrap_or_else(|| {
            self.0.push((names.into(), find_kept_columns(names)));
            self.0.len() - 1
        });
        &self.0[index].1
    }
}

/// Finds the kept columns of a line of names, which starts with the protocol and a colon.
fn find_kept_columns(names: &str) -> IndicesAndNamesOfKeptColumns {
    let mut words = names.split(' ');
    let protocol = words.next().and_then(|word| word.strip_suffix(':'));
    let candidates: Vec<_> = PROTOCOL_COUNTERS
        .iter()
        .filter(|(of, ..)| Some(*of) == protocol)
        .collect();
    let columns = words.enumerate().filter_map(|(column, word)| {
        let kept = candidates.iter().find(|(_, of, _)| *of == word);
        kept.map(|(.., name)| (column, *name))
    });
    columns.collect()
}

fn add_paired_lines(text: &str, column_cache: &mut ColumnCache, sums: &mut CounterSums) {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let mut values = values.split(' ').skip(1);
        let mut next_column = 0;
        for &(column, name) in column_cache.cached_kept_columns(names) {
            if let Some(value) = values.nth(column - next_column) {
                sums.add(name, value);
            }
            next_column = column + 1;
        }
    }
}

/// Adds the counters of snmp6: lines of a padded name, a tab and a value.
fn add_snmp6_lines(text: &str, sums: &mut CounterSums) {
    for (of, value) in text.lines().filter_map(|line| line.split_once('\t')) {
        let of = of.trim_ascii_end();
        if let Some((_, name)) = IPV6_COUNTERS.iter().find(|(column, _)| *column == of) {
            sums.add(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "Icmp: InMsgs InDestUnreachs\nIcmp: 0 4
IcmpMsg: InType3\nIcmpMsg: 4
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors
Tcp: 1 200 120000 -1 27 2 0 7 0 7563 4497 3 0 17 0
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: 1 0 6 0 5 1
";
    const NETSTAT: &str = "TcpExt: SyncookiesSent TCPTimeouts TCPSACKReorder TCPTSReorder\nTcpExt: 0 9 2 3\nIpExt: InOctets\nIpExt: 5\n";
    const SNMP6: &str =
        "Ip6InReceives                   \t7\nUdp6RcvbufErrors   \t20\nIcmp6InPktTooBigs\t1\n";

    #[test]
    fn counters_are_summed_over_both_ip_versions() {
        let (mut sums, mut layouts) = (CounterSums::default(), ColumnCache::default());
        add_paired_lines(SNMP, &mut layouts, &mut sums);
        add_paired_lines(NETSTAT, &mut layouts, &mut sums);
        add_snmp6_lines(SNMP6, &mut sums);
        sums.0.sort_unstable();
        let expected = [
            ("icmp_in_unreachable", 5),
            ("tcp_connections_opened", 27),
            ("tcp_in_segments", 7563),
            ("tcp_sack_reorder", 5),
            ("tcp_segments_out", 4497),
            ("tcp_segments_retransmitted", 3),
            ("tcp_timeouts", 9),
            ("udp_receive_buffer_errors", 25),
            ("udp_send_buffer_errors", 1),
        ];
        assert_eq!(sums.0, expected);
    }

    #[test]
    fn a_changed_line_of_names_is_parsed_again() {
        let mut layouts = ColumnCache::default();
        let mut counted = |text| {
            let mut sums = CounterSums::default();
            add_paired_lines(text, &mut layouts, &mut sums);
            sums.0
        };
        let known = "IcmpMsg: InType3\nIcmpMsg: 4\nTcp: InSegs RetransSegs\nTcp: 8 2\n";
        let other = "Tcp: RetransSegs MaxConn InSegs\nTcp: 3 -1 9\n";
        let both = |again, segments| {
            [
                ("tcp_in_segments", segments),
                ("tcp_segments_retransmitted", again),
            ]
        };
        assert_eq!(counted(known), both(2, 8));
        let mut changed = counted(other);
        changed.sort_unstable();
        assert_eq!(changed, both(3, 9));
        assert_eq!(counted(known), both(2, 8));
        assert!(counted("Tcp: InSegs\nTcp:\n").is_empty());
    }

    #[test]
    fn this_kernel_has_all_counters() {
        let text =
            serde_json::to_value(ProtocolCounterReader::open(true).read()).expect("serializes");
        for (.., name) in PROTOCOL_COUNTERS {
            assert!(text[name].is_u64(), "{name}");
        }
    }
}
