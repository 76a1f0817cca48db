//! What stands in the way of packets in a network namespace: rules, filters, captures, programs and queues that somebody has
//! set. The agent reads it only at the start and the end of a trial.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;

use serde::Serialize;

use crate::namespace::run_in_namespace;
use crate::netfilter::{self, NetfilterRules};
use crate::packet_taps::{AgentHandles, Link, PacketSocket, read_links, read_packet_sockets};
use crate::path_interfaces::{InterfaceChange, describe_interfaces};
use crate::rate_limits::RateLimit;
use crate::rule_passes::PacketCounts;
use crate::traffic_control::{self, EntryKey, TrafficControlEntry, format_handle};
use crate::traffic_filters::{Filters, read_filters};
use vnetbench_interfaces::netlink::NetlinkSocket;
use vnetbench_system::error::{RequestError, Result};

/// Maximum number of qdiscs and classes in a result.
const MAX_LISTED_QDISCS: usize = 64;

/// Reads the state of one network namespace.
pub struct PathStateReader {
    namespace_file: Option<String>,
}

/// The state of a namespace at one moment.
pub struct PathStateReading {
    counts: StateCounts,
    rules: Option<NetfilterRules>,
    packets: Option<PacketCounts>,
    /// Packet sockets of other programs.
    sockets: Vec<PacketSocket>,
    traffic_control: Option<TrafficControl>,
}

struct TrafficControl {
    links: Vec<Link>,
    entries: Vec<TrafficControlEntry>,
    filters: Filters,
}

/// Counts without history. An unknown one is null.
#[derive(Debug, Clone, Serialize)]
struct StateCounts {
    netfilter_rules: Option<u64>,
    conntrack_entries: Option<u64>,
    bridge_netfilter: Option<bool>,
    packet_sockets: Option<u64>,
    xdp_programs: Option<u64>,
    tc_filters: Option<u64>,
}

/// The state of a namespace over a trial. Counts without history are the larger ones of its start and its end.
#[derive(Debug, Serialize)]
pub struct PathState {
    #[serde(flatten)]
    counts: StateCounts,
    /// The rate limits of the firewall at the end; those of the start if there are none at the end.
    rate_limits: Option<Vec<RateLimit>>,
    /// Rules that a packet of this namespace passes, mean of all packets.
    netfilter_rules_per_packet: Option<f64>,
    policer_drops: Option<u64>,
    qdiscs: Option<Vec<QdiscChange>>,
    interfaces: Option<Vec<InterfaceChange>>,
}

/// The counters of a qdisc, or of a class of htb, over a trial.
#[derive(Debug, Serialize)]
struct QdiscChange {
    interface: String,
    kind: String,
    handle: String,
    parent: String,
    drops: u64,
    overlimits: u64,
    sent_bytes: u64,
    sent_packets: u64,
    backlog_bytes: u32,
    rate_bps: Option<u64>,
    /// Number of its filters.
    #[serde(skip_serializing_if = "is_zero")]
    filters: u64,
    /// Whether it existed at the start and not at the end; its counters are then unknown, and 0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_gone: bool,
}

impl PathStateReader {
    /// Returns a reader of the namespace of this file; `None` is the agent's own.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened.
    pub fn open(namespace: Option<&str>) -> Result<Self> {
        if let Some(path) = namespace {
            let operation = || format!("read the counters of {path}");
            File::open(path).map_err(|error| RequestError::system(operation(), error))?;
        }
        Ok(Self {
            namespace_file: namespace.map(str::to_owned),
        })
    }

    /// Reads the state.
    ///
    /// # Errors
    ///
    /// Fails if the namespace cannot be entered. What else cannot be read is unknown.
    pub fn read(&self) -> io::Result<PathStateReading> {
        match &self.namespace_file {
            Some(path) => run_in_namespace(Some(path), || Ok(read_state())),
            None => Ok(read_state()),
        }
    }

    /// Reads the state again, and returns what happened since `earlier`.
    ///
    /// # Errors
    ///
    /// Fails if the namespace cannot be entered.
    pub fn read_changes_since(&self, earlier: &PathStateReading) -> io::Result<PathState> {
        let now = self.read()?;
        let traffic_control = earlier.traffic_control.as_ref().zip(now.traffic_control);
        let (policer_drops, qdiscs) = traffic_control
            .as_ref()
            .map(|(earlier, now)| (now.policer_drops_since(earlier), now.changes_since(earlier)))
            .unzip();
        let interfaces = traffic_control
            .as_ref()
            .map(|(earlier, control)| control.describe_interfaces(&earlier.links, &now.sockets));
        let rules = now.rules.as_ref().zip(earlier.rules.as_ref());
        let packets = now.packets.zip(earlier.packets);
        let rules_per_packet = rules.zip(packets).map(|((now, before), packets)| {
            let bridged = earlier.counts.bridge_netfilter.unwrap_or(false);
            now.set
                .rules_per_packet(&before.set, &packets.0.since(&packets.1, bridged))
        });
        let limits = |rules: Option<&NetfilterRules>| rules.map(|rules| rules.rate_limits.clone());
        Ok(PathState {
            counts: now.counts.larger_or_known_counts(&earlier.counts),
            rate_limits: limits(now.rules.as_ref())
                .filter(|limits| !limits.is_empty())
                .or_else(|| limits(earlier.rules.as_ref())),
            netfilter_rules_per_packet: rules_per_packet,
            policer_drops,
            qdiscs,
            interfaces,
        })
    }
}

fn read_state() -> PathStateReading {
    let mut socket = NetlinkSocket::open_route().ok();
    let links = socket.as_mut().and_then(|socket| read_links(socket).ok());
    let traffic_control = socket
        .as_mut()
        .zip(links.as_ref())
        .and_then(|(socket, links)| TrafficControl::read(socket, links).ok());
    let packets = links.as_deref().map(PacketCounts::read);
    let sockets = read_packet_sockets();
    let has_programs = links
        .iter()
        .flatten()
        .any(|link| link.xdp_program.is_some());
    let has_sockets = sockets.as_ref().is_some_and(|sockets| !sockets.is_empty());
    // The search through all processes takes longest, so it runs only if there is something to look for.
    let own = (has_programs || has_sockets).then(AgentHandles::find);
    let is_own_socket =
        |socket: &PacketSocket| own.as_ref().is_some_and(|own| own.has_socket(socket.inode));
    let sockets: Option<Vec<PacketSocket>> = sockets.map(|all| {
        all.into_iter()
            .filter(|socket| !is_own_socket(socket))
            .collect()
    });
    let is_own_program = |id: &u32| own.as_ref().is_some_and(|own| own.has_program(*id));
    let programs = |links: &Vec<Link>| {
        let ids = links.iter().filter_map(|link| link.xdp_program);
        ids.filter(|id| !is_own_program(id)).count() as u64
    };
    let rules = netfilter::read_rules();
    PathStateReading {
        counts: StateCounts {
            netfilter_rules: rules.as_ref().map(|rules| rules.count),
            conntrack_entries: netfilter::count_tracked_connections(),
            bridge_netfilter: netfilter::passes_bridged_packets_to_iptables(),
            packet_sockets: sockets.as_ref().map(|sockets| sockets.len() as u64),
            xdp_programs: links.as_ref().map(programs),
            tc_filters: traffic_control
                .as_ref()
                .map(|control| control.filters.count()),
        },
        rules,
        packets,
        sockets: sockets.unwrap_or_default(),
        traffic_control,
    }
}

impl StateCounts {
    /// Returns the larger count of both moments, and the known one if one is unknown.
    fn larger_or_known_counts(&self, earlier: &Self) -> Self {
        Self {
            netfilter_rules: self.netfilter_rules.max(earlier.netfilter_rules),
            conntrack_entries: self.conntrack_entries.max(earlier.conntrack_entries),
            bridge_netfilter: self.bridge_netfilter.max(earlier.bridge_netfilter),
            packet_sockets: self.packet_sockets.max(earlier.packet_sockets),
            xdp_programs: self.xdp_programs.max(earlier.xdp_programs),
            tc_filters: self.tc_filters.max(earlier.tc_filters),
        }
    }
}

impl TrafficControl {
    fn read(socket: &mut NetlinkSocket, links: &[Link]) -> io::Result<Self> {
        let entries = traffic_control::read_qdiscs_and_htb_classes(socket)?;
        let filters = read_filters(socket, &entries)?;
        Ok(Self {
            links: links.to_vec(),
            entries,
            filters,
        })
    }

    fn entries_by_key(&self) -> HashMap<EntryKey, &TrafficControlEntry> {
        let entries = self.entries.iter();
        entries.map(|entry| (entry.key(), entry)).collect()
    }

    /// Returns the packets that filters dropped: at ingress and clsact qdiscs all drops, elsewhere those of policers.
    fn policer_drops_since(&self, earlier: &Self) -> u64 {
        let before = earlier.entries_by_key();
        let hooks = self.entries.iter().filter(|entry| entry.is_filter_hook());
        let drops = hooks.map(|now| now.since(before.get(&now.key()).copied()).drops);
        let policers = self.filters.police_drops;
        drops.sum::<u64>() + policers.saturating_sub(earlier.filters.police_drops)
    }

    fn changes_since(&self, earlier: &Self) -> Vec<QdiscChange> {
        let before = earlier.entries_by_key();
        let now_present: HashSet<EntryKey> =
            self.entries.iter().map(TrafficControlEntry::key).collect();
        let present = self.entries.iter().map(|now| {
            let change = now.since(before.get(&now.key()).copied());
            self.describe(now, &change, false)
        });
        let gone = earlier
            .entries
            .iter()
            .filter(|entry| !now_present.contains(&entry.key()));
        let gone = gone.map(|entry| earlier.describe(entry, &EntryChange::default(), true));
        let mut all: Vec<QdiscChange> = present.chain(gone).collect();
        if all.len() > MAX_LISTED_QDISCS {
            // Those that do the most stay.
            all.sort_by_key(|qdisc| {
                std::cmp::Reverse((qdisc.drops + qdisc.overlimits, qdisc.sent_bytes))
            });
            all.truncate(MAX_LISTED_QDISCS);
        }
        all
    }

    fn describe(
        &self,
        entry: &TrafficControlEntry,
        change: &EntryChange,
        is_gone: bool,
    ) -> QdiscChange {
        let mut links = self.links.iter();
        let link = links.find(|link| link.index == entry.interface_index);
        let name = link.map(|link| link.name.clone());
        QdiscChange {
            interface: name.unwrap_or_else(|| entry.interface_index.to_string()),
            kind: match entry.is_class {
                true => format!("{} class", entry.kind),
                false => entry.kind.clone(),
            },
            handle: format_handle(entry.handle),
            parent: format_handle(entry.parent),
            drops: change.drops,
            overlimits: change.overlimits,
            sent_bytes: change.sent_bytes,
            sent_packets: change.sent_packets,
            backlog_bytes: if is_gone { 0 } else { entry.backlog_bytes },
            rate_bps: entry.rate_bps,
            filters: self
                .filters
                .count_by_qdisc
                .get(&entry.key())
                .copied()
                .unwrap_or(0),
            is_gone,
        }
    }

    /// Returns all interfaces, with what they carried since `earlier`.
    fn describe_interfaces(
        &self,
        earlier: &[Link],
        sockets: &[PacketSocket],
    ) -> Vec<InterfaceChange> {
        describe_interfaces(&self.links, earlier, &self.filters.redirects, sockets)
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What an entry counted between two moments.
#[derive(Debug, Default, PartialEq, Eq)]
struct EntryChange {
    drops: u64,
    overlimits: u64,
    sent_bytes: u64,
    sent_packets: u64,
}

impl TrafficControlEntry {
    /// Returns what was counted since `earlier`. A new entry, and one that replaced another, counts from 0.
    fn since(&self, earlier: Option<&Self>) -> EntryChange {
        let earlier = earlier.filter(|earlier| earlier.sent_bytes <= self.sent_bytes);
        // 32-bit counters may wrap.
        let since =
            |now: u32, before: Option<u32>| u64::from(now.wrapping_sub(before.unwrap_or(0)));
        EntryChange {
            drops: since(self.drops, earlier.map(|entry| entry.drops)),
            overlimits: since(self.overlimits, earlier.map(|entry| entry.overlimits)),
            sent_bytes: self.sent_bytes - earlier.map_or(0, |entry| entry.sent_bytes),
            sent_packets: since(self.sent_packets, earlier.map(|entry| entry.sent_packets)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(drops: u32, sent_bytes: u64) -> TrafficControlEntry {
        TrafficControlEntry {
            interface_index: 1,
            kind: "tbf".into(),
            is_class: false,
            handle: 0x1_0000,
            parent: u32::MAX,
            drops,
            overlimits: 0,
            backlog_bytes: 0,
            sent_bytes,
            sent_packets: 0,
            rate_bps: None,
        }
    }

    #[test]
    fn counters_that_wrap_and_qdiscs_that_restart_are_distinguished() {
        let before = entry(u32::MAX, 1000);
        assert_eq!(entry(4, 1500).since(Some(&before)).drops, 5);
        assert_eq!(entry(4, 500).since(Some(&before)).drops, 4);
        assert_eq!(entry(4, 500).since(Some(&before)).sent_bytes, 500);
        assert_eq!(entry(4, 500).since(None).drops, 4);
    }

    #[test]
    fn a_qdisc_that_was_removed_is_marked_gone() {
        let control = |entries| TrafficControl {
            links: vec![Link {
                index: 1,
                name: "eth0".to_owned(),
                ..Link::default()
            }],
            entries,
            filters: Filters::default(),
        };
        let changes = control(vec![]).changes_since(&control(vec![entry(7, 9)]));
        let [gone] = &changes[..] else {
            panic!("{changes:?}")
        };
        assert_eq!(
            (gone.interface.as_str(), gone.drops, gone.is_gone),
            ("eth0", 0, true)
        );
    }

    #[test]
    fn an_unknown_count_does_not_hide_a_known_one() {
        let counts = |filters| StateCounts {
            netfilter_rules: None,
            conntrack_entries: Some(3),
            bridge_netfilter: Some(false),
            packet_sockets: None,
            xdp_programs: None,
            tc_filters: filters,
        };
        let merged = counts(None).larger_or_known_counts(&counts(Some(2)));
        assert_eq!((merged.tc_filters, merged.packet_sockets), (Some(2), None));
    }
}
