//! Rules that packets pass, from rules as the kernel describes them.

use netlink_packet_core::DefaultNla;

use super::*;
use crate::nf_tables::{NFTA_DATA_VERDICT, NFTA_IMMEDIATE_DATA};
use crate::test_attributes::{bytes, nest};

/// The first byte of a message.
const INET: u8 = libc::NFPROTO_INET as u8;

fn text(attribute: u16, value: &str) -> DefaultNla {
    DefaultNla::new(attribute, [value.as_bytes(), b"\0"].concat())
}

fn expression(name: &str, data: &[DefaultNla]) -> DefaultNla {
    nest(1, &[text(NFTA_EXPR_NAME, name), nest(NFTA_EXPR_DATA, data)])
}

fn matching() -> DefaultNla {
    expression("cmp", &[])
}

fn counter(packets: u64) -> DefaultNla {
    let packets = DefaultNla::new(NFTA_COUNTER_PACKETS, packets.to_be_bytes().into());
    expression("counter", &[packets])
}

fn verdict(code: c_int, chain: &str) -> DefaultNla {
    let code = DefaultNla::new(NFTA_VERDICT_CODE, code.to_be_bytes().into());
    let verdict = nest(NFTA_DATA_VERDICT, &[code, text(NFTA_VERDICT_CHAIN, chain)]);
    expression("immediate", &[nest(NFTA_IMMEDIATE_DATA, &[verdict])])
}

fn accept() -> DefaultNla {
    verdict(libc::NF_ACCEPT, "")
}

fn message(family: u8, attributes: &[DefaultNla]) -> Vec<u8> {
    [vec![family, 0, 0, 0], bytes(attributes)].concat()
}

/// Adds rules to a chain of the table `t`.
fn add(set: &mut RuleSet, chain: &str, rules: &[Vec<DefaultNla>]) {
    for (number, expressions) in rules.iter().enumerate() {
        let handle = chain.len() as u64 * 1000 + number as u64;
        let attributes = [
            text(NFTA_RULE_TABLE, "t"),
            text(NFTA_RULE_CHAIN, chain),
            DefaultNla::new(NFTA_RULE_HANDLE, handle.to_be_bytes().into()),
            nest(NFTA_RULE_EXPRESSIONS, expressions),
        ];
        set.add_rule(&message(INET, &attributes));
    }
}

fn add_base_chain(set: &mut RuleSet, chain: &str, number: c_int, kind: &str) {
    let number = DefaultNla::new(NFTA_HOOK_HOOKNUM, number.to_be_bytes().into());
    let attributes = [
        text(NFTA_CHAIN_TABLE, "t"),
        text(NFTA_CHAIN_NAME, chain),
        nest(NFTA_CHAIN_HOOK, &[number]),
        text(NFTA_CHAIN_TYPE, kind),
    ];
    set.add_chain(&message(INET, &attributes));
}

/// 1000 packets that this machine receives for itself, and 1000 that it sends.
fn packets() -> TrialPackets {
    TrialPackets {
        received: 1000.0,
        sent: 1000.0,
        forwarded: 0.0,
        bridged: 1000.0,
        ipv4_share: 1.0,
    }
}

fn per_received_packet(now: &RuleSet, before: &RuleSet) -> f64 {
    2.0 * now.rules_per_packet(before, &packets())
}

#[test]
fn rules_for_forwarded_packets_cost_nothing_where_nothing_is_forwarded() {
    let mut set = RuleSet::default();
    add_base_chain(&mut set, "forward", libc::NF_INET_FORWARD, "filter");
    add(
        &mut set,
        "forward",
        &vec![vec![matching(), counter(0)]; 300],
    );
    assert_eq!(set.rules_per_packet(&RuleSet::default(), &packets()), 0.0);
    let routing = TrialPackets {
        forwarded: 1000.0,
        ..packets()
    };
    assert_eq!(set.rules_per_packet(&RuleSet::default(), &routing), 150.0);
}

#[test]
fn a_chain_costs_only_the_packets_that_a_jump_counted() {
    let make = |jumped: u64| {
        let mut set = RuleSet::default();
        add_base_chain(&mut set, "input", libc::NF_INET_LOCAL_IN, "filter");
        add(
            &mut set,
            "input",
            &[vec![
                matching(),
                counter(jumped),
                verdict(libc::NFT_JUMP, "services"),
            ]],
        );
        add(
            &mut set,
            "services",
            &vec![vec![matching(), counter(7)]; 400],
        );
        set
    };
    // The counters continue from before the trial.
    assert_eq!(
        per_received_packet(&make(5_000_010), &make(5_000_000)),
        1.0 + 400.0 * 0.01
    );
    assert_eq!(per_received_packet(&make(5_000_000), &make(5_000_000)), 1.0);
}

#[test]
fn a_jump_without_a_counter_is_taken_by_all_packets() {
    let mut set = RuleSet::default();
    add_base_chain(&mut set, "input", libc::NF_INET_LOCAL_IN, "filter");
    add(
        &mut set,
        "input",
        &[vec![matching(), verdict(libc::NFT_JUMP, "others")]],
    );
    add(&mut set, "others", &vec![vec![matching()]; 10]);
    assert_eq!(per_received_packet(&set, &RuleSet::default()), 11.0);
}

#[test]
fn packets_that_an_early_rule_accepts_pass_no_later_rule() {
    let make = |accepted: u64| {
        let mut set = RuleSet::default();
        add_base_chain(&mut set, "input", libc::NF_INET_LOCAL_IN, "filter");
        add(
            &mut set,
            "input",
            &[vec![matching(), counter(accepted), accept()]],
        );
        add(&mut set, "input", &vec![vec![matching()]; 100]);
        set
    };
    assert_eq!(per_received_packet(&make(900), &make(0)), 1.0 + 100.0 * 0.1);
    // A counter before the match counts all packets, not those that are accepted.
    let mut set = RuleSet::default();
    add_base_chain(&mut set, "input", libc::NF_INET_LOCAL_IN, "filter");
    add(
        &mut set,
        "input",
        &[vec![counter(1000), matching(), accept()], vec![matching()]],
    );
    assert_eq!(per_received_packet(&set, &RuleSet::default()), 2.0);
    // No match at all: nothing is left.
    let mut set = RuleSet::default();
    add_base_chain(&mut set, "input", libc::NF_INET_LOCAL_IN, "filter");
    add(&mut set, "input", &[vec![accept()], vec![matching()]]);
    assert_eq!(per_received_packet(&set, &RuleSet::default()), 1.0);
}

#[test]
fn address_translation_costs_only_the_first_packet_of_a_connection() {
    let mut set = RuleSet::default();
    add_base_chain(&mut set, "prerouting", 0, "nat");
    add(
        &mut set,
        "prerouting",
        &[vec![counter(4), verdict(libc::NFT_JUMP, "services")]],
    );
    add(
        &mut set,
        "services",
        &vec![vec![matching(), counter(0)]; 500],
    );
    assert_eq!(
        per_received_packet(&set, &RuleSet::default()),
        501.0 * 0.004
    );
}

#[test]
fn a_chain_that_several_rules_reach_is_passed_by_all_their_packets() {
    let mut set = RuleSet::default();
    add_base_chain(&mut set, "input", libc::NF_INET_LOCAL_IN, "filter");
    let jump = |to| vec![matching(), counter(500), verdict(libc::NFT_JUMP, to)];
    add(&mut set, "input", &[jump("first"), jump("last")]);
    add(&mut set, "first", &[jump("last")]);
    add(&mut set, "last", &vec![vec![matching()]; 10]);
    assert_eq!(
        per_received_packet(&set, &RuleSet::default()),
        2.0 + 0.5 + 10.0
    );
}

#[test]
fn rules_of_an_older_iptables_are_passed_by_each_packet() {
    let set = RuleSet {
        legacy_rules_each_packet_passes: 20,
        ..RuleSet::default()
    };
    assert_eq!(set.rules_per_packet(&RuleSet::default(), &packets()), 20.0);
}

#[test]
fn forwarded_packets_are_found_in_both_versions_of_ip() {
    let snmp = "Ip: Forwarding InReceives ForwDatagrams\nIp: 1 9 5\nTcp: InSegs\nTcp: 3\n";
    assert_eq!(find_snmp_ipv4_counter(snmp, "ForwDatagrams"), 5);
    assert_eq!(find_snmp_ipv4_counter("", "ForwDatagrams"), 0);
    let snmp6 = "Ip6InReceives                   \t7\nIp6OutForwDatagrams             \t2\n";
    assert_eq!(find_snmp6_counter(snmp6, "Ip6OutForwDatagrams"), 2);
}

#[test]
fn damaged_messages_add_no_rule() {
    let mut set = RuleSet::default();
    set.add_rule(&[]);
    set.add_rule(&[0; 3]);
    set.add_chain(&[2, 0, 0, 0, 9]);
    assert!(set.chains.is_empty() && set.hooks.is_empty());
}

#[test]
fn only_ports_of_bridges_carry_bridged_packets() {
    let link = |index, kind: &str, master, packets| Link {
        index,
        kind: kind.to_owned(),
        master,
        rx_packets: packets,
        tx_packets: packets,
        ..Link::default()
    };
    let forwarded = |links: &[Link], is_filtered| {
        let mut now = PacketCounts::read(links);
        // The namespace of this test may forward packets of its own.
        now.forwarded = [0; 2];
        now.since(&PacketCounts::default(), is_filtered).forwarded
    };
    let plain = [link(1, "veth", None, 900)];
    assert_eq!(forwarded(&plain, true), 0.0);
    let bridged = [
        link(1, "veth", Some(2), 900),
        link(2, "bridge", None, 5),
        link(3, "", None, 70),
    ];
    assert_eq!(forwarded(&bridged, true), 900.0);
    assert_eq!(forwarded(&bridged, false), 0.0);
    // The parts of a bond forward nothing.
    let bond = [link(1, "", Some(2), 900), link(2, "bond", None, 900)];
    assert_eq!(forwarded(&bond, true), 0.0);
}
