//! Rules and connection tracking of the calling thread's network namespace (nftables, and iptables by its older interface).
//!
//! Nothing here may change the path. A request for an absent part of netfilter would load its module, and a request for an
//! unused table of iptables would create its hooks. So the agent requests a part only if it is in use.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use netlink_packet_core::NLM_F_DUMP;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use crate::nf_tables::NFGENMSG_BYTES;
use crate::rate_limits::{RateLimit, parse_rule_rate_limit};
use crate::rule_passes::RuleSet;
use vnetbench_interfaces::netlink::{NetlinkSocket, RawRequest};
use vnetbench_system::socket_option::{self, PlainOldData};

/// NFT_MSG_GETRULE of NFNL_SUBSYS_NFTABLES (include/uapi/linux/netfilter/nfnetlink.h, nf_tables.h).
const GET_NFTABLES_RULES: u16 = (10 << 8) | 7;
/// NFT_MSG_GETCHAIN.
const GET_NFTABLES_CHAINS: u16 = (10 << 8) | 4;
/// `struct nfgenmsg` of all address families.
const ALL_FAMILIES: [u8; NFGENMSG_BYTES] = [0; NFGENMSG_BYTES];
/// IPT_SO_GET_INFO and IP6T_SO_GET_INFO (include/uapi/linux/netfilter_ipv4/ip_tables.h).
const GET_TABLE_INFO: i32 = 64;
/// Length of a table's name in `struct ipt_getinfo` (XT_TABLE_MAXNAMELEN).
const TABLE_NAME_BYTES: usize = 32;
/// A function of nf_tables, which /proc/kallsyms lists if the kernel has it.
const NFTABLES_SYMBOL: &str = "nf_tables_newrule";
const CONNECTION_COUNT_FILE: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
const BRIDGE_CALLS_FILE: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";

/// Maximum number of rate limits in a result.
const MAX_LISTED_RATE_LIMITS: usize = 64;

/// The versions of iptables: the file with the names of its tables, address family, and level of its socket options.
const IPTABLES_VERSIONS: [(&str, AddressFamily, i32); 2] = [
    ("ip_tables_names", AddressFamily::INET, libc::SOL_IP),
    ("ip6_tables_names", AddressFamily::INET6, libc::SOL_IPV6),
];

/// `struct ipt_getinfo`, which equals `struct ip6t_getinfo`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct TableInfo {
    name: [u8; TABLE_NAME_BYTES],
    valid_hooks: u32,
    hook_entry: [u32; 5],
    underflow: [u32; 5],
    entries: u32,
    size: u32,
}

// SAFETY: the structure has only integers, and no padding: 32 bytes and then 13 words.
unsafe impl PlainOldData for TableInfo {}

/// The rules of a namespace.
#[derive(Debug, Default)]
pub struct NetfilterRules {
    pub count: u64,
    /// The rules by their chains.
    pub set: RuleSet,
    /// Those of nftables that limit a rate.
    pub rate_limits: Vec<RateLimit>,
}

/// Returns the rules; `None` if the kernel does not permit the question.
pub fn read_rules() -> Option<NetfilterRules> {
    let mut rules = read_nftables_rules()?;
    let older = count_iptables_rules()?;
    rules.count += older.all;
    rules.set.legacy_rules_each_packet_passes = older.passed_by_each_packet;
    Some(rules)
}

/// Returns the number of tracked connections; 0 if the kernel has no connection tracking.
pub fn count_tracked_connections() -> Option<u64> {
    match fs::read_to_string(CONNECTION_COUNT_FILE) {
        Ok(text) => text.trim().parse().ok(),
        Err(error) => (error.kind() == io::ErrorKind::NotFound).then_some(0),
    }
}

/// Returns whether bridges pass their packets to iptables.
pub fn passes_bridged_packets_to_iptables() -> Option<bool> {
    match fs::read_to_string(BRIDGE_CALLS_FILE) {
        Ok(text) => Some(text.trim() != "0"),
        Err(error) => (error.kind() == io::ErrorKind::NotFound).then_some(false),
    }
}

fn read_nftables_rules() -> Option<NetfilterRules> {
    if !has_nftables() {
        return Some(NetfilterRules::default());
    }
    let mut socket = NetlinkSocket::open_netfilter().ok()?;
    let request = RawRequest(ALL_FAMILIES.into());
    let mut rules = NetfilterRules::default();
    let result = socket.request(GET_NFTABLES_RULES, NLM_F_DUMP, &request, |message| {
        rules.count += 1;
        rules.set.add_rule(message);
        if rules.rate_limits.len() < MAX_LISTED_RATE_LIMITS {
            rules.rate_limits.extend(parse_rule_rate_limit(message));
        }
        Ok(())
    });
    result.ok()?;
    if rules.count > 0 {
        let request = RawRequest(ALL_FAMILIES.into());
        let result = socket.request(GET_NFTABLES_CHAINS, NLM_F_DUMP, &request, |message| {
            rules.set.add_chain(message);
            Ok(())
        });
        result.ok()?;
    }
    Some(rules)
}

/// Returns whether the kernel has nf_tables now. It may load the module later, but cannot lose a part of itself.
fn has_nftables() -> bool {
    static IS_KNOWN_PRESENT: OnceLock<()> = OnceLock::new();
    if IS_KNOWN_PRESENT.get().is_some() {
        return true;
    }
    // Without support for modules, a request can load none.
    let is_present = match fs::read_to_string("/proc/modules") {
        Err(_) => true,
        Ok(modules) => modules.contains("nf_tables ") || running_kernel_has_symbol(NFTABLES_SYMBOL),
    };
    if is_present {
        let _ = IS_KNOWN_PRESENT.set(());
    }
    is_present
}

fn running_kernel_has_symbol(symbol: &str) -> bool {
    let Ok(file) = fs::File::open("/proc/kallsyms") else {
        return false;
    };
    let mut lines = BufReader::with_capacity(1 << 16, file).lines();
    lines.any(|line| line.is_ok_and(|line| line.split_ascii_whitespace().nth(2) == Some(symbol)))
}

/// Numbers of rules of the older iptables.
#[derive(Default)]
struct OlderRules {
    all: u64,
    /// Those of the tables that each packet passes: of a connection, only the first packet passes `nat`.
    passed_by_each_packet: u64,
}

fn count_iptables_rules() -> Option<OlderRules> {
    let mut rules = OlderRules::default();
    for (names_file, family, level) in IPTABLES_VERSIONS {
        let names = match fs::read_to_string(format!("/proc/thread-self/net/{names_file}")) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(_) => return None,
        };
        for name in names.lines() {
            let count = read_table_info(family, level, name).ok()?.rules();
            rules.all += count;
            rules.passed_by_each_packet += if name == "nat" { 0 } else { count };
        }
    }
    Some(rules)
}

fn read_table_info(family: AddressFamily, level: i32, name: &str) -> io::Result<TableInfo> {
    let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
    let socket: OwnedFd = socket_with(family, kind, flags, Some(ipproto::RAW))?;
    let mut request = TableInfo::default();
    let name = name.as_bytes();
    // The last byte stays 0.
    let length = name.len().min(TABLE_NAME_BYTES - 1);
    request.name[..length].copy_from_slice(&name[..length]);
    Ok(socket_option::get_with_argument(&socket, level, GET_TABLE_INFO, request)?.value)
}

impl TableInfo {
    /// Returns the number of rules: the entries without the policy of each built-in chain and the end of the table.
    fn rules(&self) -> u64 {
        u64::from(self.entries).saturating_sub(u64::from(self.valid_hooks.count_ones()) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_and_the_end_of_a_table_are_no_rules() {
        let filter = |entries| TableInfo {
            valid_hooks: 0b1110,
            entries,
            ..TableInfo::default()
        };
        assert_eq!(filter(4).rules(), 0);
        assert_eq!(filter(9).rules(), 5);
    }

    #[test]
    fn symbols_of_the_kernel_are_found_by_their_whole_name() {
        assert!(!running_kernel_has_symbol("vnetbench_absent"));
    }
}
