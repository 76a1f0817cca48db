//! How many rules of nftables a packet of a network namespace passes on average (`iptables-nft` writes such rules).
//!
//! Many rules stand in chains that few packets enter: those of other services, and those of `nat`, which only the first
//! packet of a connection passes. So the chains are followed from their hooks. The counters of the rules say how many
//! packets each jump sent on, and how many a verdict took out. A rule without a counter counts as if all packets
//! matched a jump and none an accept or drop: the result is then an upper limit. Jumps of verdict maps are not followed
//! (include/uapi/linux/netfilter/nf_tables.h).

use std::collections::{HashMap, HashSet};
use std::fs;

use libc::c_int;
use netlink_packet_core::parse_string;

use crate::nf_tables::{
    NFGENMSG_BYTES, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_TABLE, NFTA_CHAIN_TYPE,
    NFTA_COUNTER_PACKETS, NFTA_EXPR_DATA, NFTA_EXPR_NAME, NFTA_HOOK_HOOKNUM, NFTA_RULE_CHAIN,
    NFTA_RULE_EXPRESSIONS, NFTA_RULE_HANDLE, NFTA_RULE_TABLE, NFTA_VERDICT_CHAIN,
    NFTA_VERDICT_CODE, find_immediate_verdict,
};
use crate::packet_taps::Link;
use vnetbench_interfaces::netlink::{find_attribute, iterate_attributes};

const RULE_ATTRIBUTES: [u16; 4] = [
    NFTA_RULE_TABLE,
    NFTA_RULE_CHAIN,
    NFTA_RULE_HANDLE,
    NFTA_RULE_EXPRESSIONS,
];
const CHAIN_ATTRIBUTES: [u16; 4] = [
    NFTA_CHAIN_TABLE,
    NFTA_CHAIN_NAME,
    NFTA_CHAIN_HOOK,
    NFTA_CHAIN_TYPE,
];

/// Family, table and name.
type ChainKey = (u8, String, String);

/// The rules of a namespace by their chains.
#[derive(Debug, Default)]
pub struct RuleSet {
    chains: HashMap<ChainKey, Vec<Rule>>,
    /// The hooks of the base chains.
    hooks: HashMap<ChainKey, Hook>,
    /// Rules of the older iptables interface, whose chains are not read: each packet counts as passing all of them.
    pub legacy_rules_each_packet_passes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Hook {
    number: c_int,
    is_nat: bool,
}

#[derive(Debug)]
struct Rule {
    handle: u64,
    /// Packets that the rule has counted.
    packets: Option<u64>,
    /// Whether all packets that reach the verdict are counted, and no others.
    is_exact: bool,
    /// Whether each packet reaches the verdict.
    is_unconditional: bool,
    verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// The packet passes the next rule.
    Continue,
    /// The packet passes another chain, and then the next rule.
    Jump(String),
    /// The packet passes another chain, and no further rule of this one.
    Goto(String),
    /// The packet passes no further rule of this chain.
    End,
}

/// Packets of a namespace since its creation.
#[derive(Debug, Default, Clone, Copy)]
pub struct PacketCounts {
    received: u64,
    sent: u64,
    /// Those of the ports of bridges.
    from_ports: u64,
    to_ports: u64,
    /// IPv4 and IPv6.
    delivered: [u64; 2],
    forwarded: [u64; 2],
}

/// Packets of a namespace in a trial.
#[derive(Debug, Clone, Copy)]
pub struct TrialPackets {
    received: f64,
    sent: f64,
    forwarded: f64,
    bridged: f64,
    ipv4_share: f64,
}

impl PacketCounts {
    /// Reads the counts of the calling thread's namespace.
    pub fn read(links: &[Link]) -> Self {
        let read =
            |file| fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        let (snmp, snmp6) = (read("snmp"), read("snmp6"));
        let bridges: HashSet<u32> = links
            .iter()
            .filter(|link| link.kind == "bridge")
            .map(|link| link.index)
            .collect();
        let is_port = |link: &&Link| link.master.is_some_and(|master| bridges.contains(&master));
        Self {
            received: links.iter().map(|link| link.rx_packets).sum(),
            sent: links.iter().map(|link| link.tx_packets).sum(),
            from_ports: links
                .iter()
                .filter(is_port)
                .map(|link| link.rx_packets)
                .sum(),
            to_ports: links
                .iter()
                .filter(is_port)
                .map(|link| link.tx_packets)
                .sum(),
            delivered: [
                find_snmp_ipv4_counter(&snmp, "InReceives"),
                find_snmp6_counter(&snmp6, "Ip6InReceives"),
            ],
            forwarded: [
                find_snmp_ipv4_counter(&snmp, "ForwDatagrams"),
                find_snmp6_counter(&snmp6, "Ip6OutForwDatagrams"),
            ],
        }
    }

    /// Returns the packets since `earlier`. With `is_bridge_filtered`, bridged packets pass the rules of routed ones.
    pub fn since(&self, earlier: &Self, is_bridge_filtered: bool) -> TrialPackets {
        let since = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let received = since(self.received, earlier.received);
        let sent = since(self.sent, earlier.sent);
        let [v4, v6] = [0, 1].map(|i| since(self.delivered[i], earlier.delivered[i]));
        let routed: f64 = [0, 1]
            .map(|i| since(self.forwarded[i], earlier.forwarded[i]))
            .iter()
            .sum();
        let bridged =
            since(self.from_ports, earlier.from_ports).min(since(self.to_ports, earlier.to_ports));
        TrialPackets {
            received,
            sent,
            forwarded: (routed + if is_bridge_filtered { bridged } else { 0.0 })
                .min(received)
                .min(sent),
            bridged,
            ipv4_share: if v4 + v6 > 0.0 { v4 / (v4 + v6) } else { 0.5 },
        }
    }
}

impl TrialPackets {
    /// Returns the packets that pass the chains at a hook.
    fn at_hook(&self, family: u8, hook: c_int) -> f64 {
        let family = c_int::from(family);
        let share = match family {
            libc::NFPROTO_IPV4 => self.ipv4_share,
            libc::NFPROTO_IPV6 => 1.0 - self.ipv4_share,
            libc::NFPROTO_ARP => 0.0,
            _ => 1.0,
        };
        let packets = match (family, hook) {
            (libc::NFPROTO_NETDEV, libc::NF_NETDEV_INGRESS) => self.received,
            (libc::NFPROTO_NETDEV, _) => self.sent,
            // NF_BR_FORWARD has the same number.
            (libc::NFPROTO_BRIDGE, libc::NF_INET_FORWARD) => self.bridged,
            (_, libc::NF_INET_LOCAL_IN) => self.received - self.forwarded,
            (_, libc::NF_INET_FORWARD) => self.forwarded,
            (_, libc::NF_INET_LOCAL_OUT) => self.sent - self.forwarded,
            (_, libc::NF_INET_POST_ROUTING) => self.sent,
            _ => self.received,
        };
        share * packets.max(0.0)
    }
}

impl RuleSet {
    /// Adds a rule from the message that describes it.
    pub fn add_rule(&mut self, message: &[u8]) {
        if let Some((key, rule)) = parse_rule(message) {
            self.chains.entry(key).or_default().push(rule);
        }
    }

    /// Adds a chain from the message that describes it. Only chains at hooks matter.
    pub fn add_chain(&mut self, message: &[u8]) {
        self.hooks.extend(parse_hook(message));
    }

    /// Returns the rules that a packet passes, mean of all packets that were received or sent.
    pub fn rules_per_packet(&self, earlier: &Self, packets: &TrialPackets) -> f64 {
        let total = packets.received + packets.sent;
        if total <= 0.0 {
            return 0.0;
        }
        let before = earlier.packets_by_rule();
        let mut entering: HashMap<&ChainKey, f64> = HashMap::new();
        let mut passes = 0.0;
        for key in self.chains_in_order() {
            let rules = &self.chains[key];
            let counted = |rule: &Rule| {
                let earlier = before
                    .get(&(key.0, key.1.as_str(), rule.handle))
                    .copied()
                    .unwrap_or(0);
                rule.packets
                    .map(|packets| packets.saturating_sub(earlier) as f64)
            };
            let mut left = match self.hooks.get(key) {
                None => entering.get(key).copied().unwrap_or(0.0),
                // Of a connection, only the first packet passes these chains: at least those that a rule counted.
                Some(hook) if hook.is_nat => rules.iter().filter_map(counted).fold(0.0, f64::max),
                Some(hook) => packets.at_hook(key.0, hook.number),
            };
            for rule in rules {
                passes += left;
                let matching = if rule.is_unconditional {
                    None
                } else {
                    counted(rule)
                };
                let matching = matching.map_or(left, |packets| packets.min(left));
                if let Some((target, _)) = self.find_target(key, rule) {
                    *entering.entry(target).or_default() += matching;
                }
                if rule.ends_chain_for_known_packets() {
                    left -= matching;
                }
            }
        }
        passes / total + self.legacy_rules_each_packet_passes as f64
    }

    fn packets_by_rule(&self) -> HashMap<(u8, &str, u64), u64> {
        let rules = self.chains.iter();
        let rules = rules.flat_map(|(key, rules)| rules.iter().map(move |rule| (key, rule)));
        rules
            .filter_map(|(key, rule)| Some(((key.0, key.1.as_str(), rule.handle), rule.packets?)))
            .collect()
    }

    /// Returns the chains that packets can reach, each behind all chains that jump to it. The kernel permits no loops.
    fn chains_in_order(&self) -> Vec<&ChainKey> {
        let (mut order, mut visited) = (Vec::new(), HashSet::new());
        for key in self.hooks.keys() {
            if let Some((key, _)) = self.chains.get_key_value(key) {
                self.visit(key, &mut visited, &mut order);
            }
        }
        order.reverse();
        order
    }

    fn visit<'a>(
        &'a self,
        key: &'a ChainKey,
        visited: &mut HashSet<&'a ChainKey>,
        order: &mut Vec<&'a ChainKey>,
    ) {
        if !visited.insert(key) {
            return;
        }
        for rule in &self.chains[key] {
            if let Some((target, _)) = self.find_target(key, rule) {
                self.visit(target, visited, order);
            }
        }
        order.push(key);
    }

    /// Returns the chain to which a rule sends packets, unless that one has no rules.
    fn find_target(&self, key: &ChainKey, rule: &Rule) -> Option<(&ChainKey, &Vec<Rule>)> {
        let (Verdict::Jump(name) | Verdict::Goto(name)) = &rule.verdict else {
            return None;
        };
        self.chains
            .get_key_value(&(key.0, key.1.clone(), name.clone()))
    }
}

impl Rule {
    /// Whether the packets that match are known, and pass no further rule of the chain.
    fn ends_chain_for_known_packets(&self) -> bool {
        let is_known = self.is_unconditional || (self.is_exact && self.packets.is_some());
        is_known && matches!(self.verdict, Verdict::End | Verdict::Goto(_))
    }
}

fn parse_rule(message: &[u8]) -> Option<(ChainKey, Rule)> {
    let attributes = message.get(NFGENMSG_BYTES..)?;
    let [table, chain, handle, expressions] =
        RULE_ATTRIBUTES.map(|each| find_attribute(attributes, each));
    let key = (
        *message.first()?,
        parse_string(table?).ok()?,
        parse_string(chain?).ok()?,
    );
    let mut packets = None;
    let mut verdict = Verdict::Continue;
    let (mut is_exact, mut is_unconditional) = (false, true);
    let mut is_counter_last = false;
    for (_, expression) in iterate_attributes(expressions.unwrap_or_default()) {
        let data = find_attribute(expression, NFTA_EXPR_DATA).unwrap_or_default();
        let name = find_attribute(expression, NFTA_EXPR_NAME).unwrap_or_default();
        let own = (name == b"immediate\0")
            .then(|| parse_verdict(data))
            .flatten();
        let own = own.or_else(|| (name == b"reject\0").then_some(Verdict::End));
        if let Some(own) = own {
            verdict = own;
            is_exact = is_counter_last;
        } else if name == b"counter\0" {
            packets = find_attribute(data, NFTA_COUNTER_PACKETS).and_then(parse_u64);
        } else {
            is_unconditional = false;
        }
        is_counter_last = name == b"counter\0";
    }
    let handle = parse_u64(handle?)?;
    Some((
        key,
        Rule {
            handle,
            packets,
            is_exact,
            is_unconditional,
            verdict,
        },
    ))
}

fn parse_verdict(data: &[u8]) -> Option<Verdict> {
    let verdict = find_immediate_verdict(data)?;
    let code = find_attribute(verdict, NFTA_VERDICT_CODE)?.first_chunk()?;
    let chain =
        || find_attribute(verdict, NFTA_VERDICT_CHAIN).and_then(|name| parse_string(name).ok());
    match c_int::from_be_bytes(*code) {
        libc::NFT_JUMP => chain().map(Verdict::Jump),
        libc::NFT_GOTO => chain().map(Verdict::Goto),
        libc::NFT_CONTINUE => Some(Verdict::Continue),
        _ => Some(Verdict::End),
    }
}

fn parse_hook(message: &[u8]) -> Option<(ChainKey, Hook)> {
    let attributes = message.get(NFGENMSG_BYTES..)?;
    let [table, name, hook, kind] = CHAIN_ATTRIBUTES.map(|each| find_attribute(attributes, each));
    let key = (
        *message.first()?,
        parse_string(table?).ok()?,
        parse_string(name?).ok()?,
    );
    let number = c_int::from_be_bytes(*find_attribute(hook?, NFTA_HOOK_HOOKNUM)?.first_chunk()?);
    let is_nat = kind == Some(b"nat\0");
    Some((key, Hook { number, is_nat }))
}

fn parse_u64(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.first_chunk()?))
}

/// Returns a count of /proc/net/snmp, whose lines come in pairs of names and values; 0 if it is missing.
fn find_snmp_ipv4_counter(snmp_text: &str, name: &str) -> u64 {
    let mut lines = snmp_text.lines().filter(|line| line.starts_with("Ip: "));
    let (names, values) = (
        lines.next().unwrap_or_default(),
        lines.next().unwrap_or_default(),
    );
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let value = pairs
        .find(|(each, _)| *each == name)
        .map(|(_, value)| value);
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn find_snmp6_counter(snmp6_text: &str, name: &str) -> u64 {
    let mut lines = snmp6_text.lines().map(|line| line.split_whitespace());
    let value =
        lines.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()).flatten());
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
#[path = "rule_passes_tests.rs"]
mod tests;
