//! What the kernel counts of its protocols in this network namespace: /proc/net/snmp, netstat and snmp6, IPv4 and IPv6
//! together (the names are those of net/ipv4/proc.c and net/ipv6/proc.c).

use crate::proc_file::ProcFile;
use crate::reading::{CounterValue, Counters};

/// What is kept of snmp and netstat, by the protocol and the name there. Rows of one counter are added up.
const OF_PROTOCOLS: [(&str, &str, &str); 21] = [
    ("Tcp", "OutSegs", "tcp_segments_out"),
    ("Tcp", "RetransSegs", "tcp_segments_retransmitted"),
    ("Tcp", "InSegs", "tcp_in_segments"),
    ("TcpExt", "TCPTimeouts", "tcp_timeouts"),
    ("TcpExt", "TCPBacklogDrop", "tcp_backlog_drop"),
    ("TcpExt", "RcvPruned", "tcp_rcv_pruned"),
    ("TcpExt", "TCPRcvQDrop", "tcp_rcv_pruned"),
    ("TcpExt", "TCPRcvCollapsed", "tcp_rcv_collapsed"),
    ("TcpExt", "TCPOFOQueue", "tcp_ofo_queued"),
    ("TcpExt", "TCPToZeroWindowAdv", "tcp_zero_window_sent"),
    ("TcpExt", "TCPSACKReorder", "tcp_sack_reorder"),
    ("TcpExt", "TCPTSReorder", "tcp_sack_reorder"),
    ("TcpExt", "TCPDSACKRecv", "tcp_dsack"),
    ("TcpExt", "TCPMTUPFail", "tcp_mtu_probes_failed"),
    ("Udp", "RcvbufErrors", "udp_receive_buffer_errors"),
    ("Udp", "SndbufErrors", "udp_send_buffer_errors"),
    ("Udp", "InCsumErrors", "udp_checksum_errors"),
    ("Ip", "FragFails", "ip_fragments_failed"),
    ("Ip", "FragCreates", "ip_fragments_made"),
    ("Ip", "ReasmFails", "ip_reassembly_failed"),
    ("Icmp", "InDestUnreachs", "icmp_in_unreachable"),
];
/// The same of snmp6, which a kernel without IPv6 does not have. What IPv4 calls unreachable for its size is a kind of its
/// own there (RFC 4443, section 3.2).
const OF_IPV6: [(&str, &str); 8] = [
    ("Udp6RcvbufErrors", "udp_receive_buffer_errors"),
    ("Udp6SndbufErrors", "udp_send_buffer_errors"),
    ("Udp6InCsumErrors", "udp_checksum_errors"),
    ("Ip6FragFails", "ip_fragments_failed"),
    ("Ip6FragCreates", "ip_fragments_made"),
    ("Ip6ReasmFails", "ip_reassembly_failed"),
    ("Icmp6InDestUnreachs", "icmp_in_unreachable"),
    ("Icmp6InPktTooBigs", "icmp_in_unreachable"),
];

pub struct Snmp {
    paired: Vec<Paired>,
    listed: Option<ProcFile>,
}

/// A file of pairs of lines: names, and below them values.
struct Paired {
    file: ProcFile,
    layouts: Layouts,
}

/// The lines of names that were met, each with the columns below it that are kept, and what these are called here.
#[derive(Default)]
struct Layouts(Vec<(String, Columns)>);

type Columns = Vec<(usize, &'static str)>;

impl Snmp {
    /// What IPv6 alone counts takes half as long to read as the rest, so it is left out `without_ipv6`.
    pub fn open(without_ipv6: bool) -> Self {
        let paired = ["/proc/net/snmp", "/proc/net/netstat"];
        Self {
            paired: paired.into_iter().filter_map(Paired::open).collect(),
            listed: ProcFile::open("/proc/net/snmp6").filter(|_| !without_ipv6),
        }
    }
}

impl Snmp {
    pub fn read(&mut self) -> Counters {
        let mut sums = Sums::default();
        for Paired { file, layouts } in &mut self.paired {
            add_paired(file.text(), layouts, &mut sums);
        }
        if let Some(file) = &mut self.listed {
            add_listed(file.text(), &mut sums);
        }
        let counts = sums.0.into_iter();
        Counters(
            counts
                .map(|(name, sum)| (name, CounterValue::Count(sum)))
                .collect(),
        )
    }
}

/// By the name of the counter; only what was found is there.
#[derive(Default)]
struct Sums(Vec<(&'static str, u64)>);

impl Sums {
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

impl Paired {
    fn open(path: &str) -> Option<Self> {
        Some(Self {
            file: ProcFile::open(path)?,
            layouts: Layouts::default(),
        })
    }
}

impl Layouts {
    /// The columns in their order. There are hundreds of names, which hardly ever change: they are looked through once.
    fn of(&mut self, names: &str) -> &[(usize, &'static str)] {
        let known = self.0.iter().position(|(known, _)| known == names);
        let place = known.unwrap_or_else(|| {
            self.0.push((names.into(), columns_of(names)));
            self.0.len() - 1
        });
        &self.0[place].1
    }
}

/// The first word of both lines of a pair is the protocol, with a colon.
fn columns_of(names: &str) -> Columns {
    let mut words = names.split(' ');
    let protocol = words.next().and_then(|word| word.strip_suffix(':'));
    let wanted: Vec<_> = OF_PROTOCOLS
        .iter()
        .filter(|(of, ..)| Some(*of) == protocol)
        .collect();
    let columns = words.enumerate().filter_map(|(column, word)| {
        let found = wanted.iter().find(|(_, of, _)| *of == word);
        found.map(|(.., name)| (column, *name))
    });
    columns.collect()
}

fn add_paired(text: &str, layouts: &mut Layouts, sums: &mut Sums) {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let mut values = values.split(' ').skip(1);
        let mut passed = 0;
        for &(column, name) in layouts.of(names) {
            if let Some(value) = values.nth(column - passed) {
                sums.add(name, value);
            }
            passed = column + 1;
        }
    }
}

/// A name, filled up with blanks, and its value a line.
fn add_listed(text: &str, sums: &mut Sums) {
    for (of, value) in text.lines().filter_map(|line| line.split_once('\t')) {
        let of = of.trim_ascii_end();
        if let Some((_, name)) = OF_IPV6.iter().find(|(column, _)| *column == of) {
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
    fn counters_are_found_by_protocol_and_name_and_added_up_over_both_ip_versions() {
        let (mut sums, mut layouts) = (Sums::default(), Layouts::default());
        add_paired(SNMP, &mut layouts, &mut sums);
        add_paired(NETSTAT, &mut layouts, &mut sums);
        add_listed(SNMP6, &mut sums);
        sums.0.sort_unstable();
        let expected = [
            ("icmp_in_unreachable", 5),
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
    fn a_line_of_names_that_changes_is_read_anew() {
        let mut layouts = Layouts::default();
        let mut counted = |text| {
            let mut sums = Sums::default();
            add_paired(text, &mut layouts, &mut sums);
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
    fn this_kernel_has_them_all() {
        let text = serde_json::to_value(Snmp::open(true).read()).expect("serializes");
        for (.., name) in OF_PROTOCOLS {
            assert!(text[name].is_u64(), "{name}");
        }
    }
}
