//! The interfaces of a network namespace: which ones hand packets to which, and what each carried in a trial.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use crate::packet_taps::{Link, PacketSocket};

/// Maximum number of interfaces in a result.
const BUSIEST_INTERFACES_KEPT: usize = 128;

/// An interface with its packets of a trial.
#[derive(Debug, Serialize)]
pub struct InterfaceChange {
    name: String,
    kind: String,
    /// The bridge, bond or team that it is a part of.
    master: Option<String>,
    /// The interface below it in the same namespace.
    lower: Option<String>,
    /// Interfaces to which its filters redirect or copy packets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    redirects_to: Vec<String>,
    /// Packet sockets of other programs that get the packets of this interface only.
    packet_sockets: usize,
    rx_packets: u64,
    tx_packets: u64,
}

/// Returns the interfaces that exist now, with what they carried since `earlier`. Of very many interfaces, those with the
/// most packets stay.
pub fn describe_interfaces(
    now: &[Link],
    earlier: &[Link],
    redirects: &BTreeSet<(u32, u32)>,
    sockets: &[PacketSocket],
) -> Vec<InterfaceChange> {
    let names: HashMap<u32, &str> = now
        .iter()
        .map(|link| (link.index, link.name.as_str()))
        .collect();
    let before: HashMap<u32, &Link> = earlier.iter().map(|link| (link.index, link)).collect();
    let name_of = |index: u32| names.get(&index).map(|name| (*name).to_owned());
    let describe = |link: &Link| {
        let earlier = before.get(&link.index);
        let bound = sockets
            .iter()
            .filter(|socket| socket.interface_index == link.index);
        let targets = redirects.iter().filter(|(from, _)| *from == link.index);
        InterfaceChange {
            name: link.name.clone(),
            kind: link.kind.clone(),
            master: link.master.and_then(name_of),
            lower: link.lower.and_then(name_of),
            redirects_to: targets.filter_map(|(_, to)| name_of(*to)).collect(),
            packet_sockets: bound.count(),
            rx_packets: link
                .rx_packets
                .saturating_sub(earlier.map_or(0, |each| each.rx_packets)),
            tx_packets: link
                .tx_packets
                .saturating_sub(earlier.map_or(0, |each| each.tx_packets)),
        }
    };
    let mut all: Vec<InterfaceChange> = now.iter().map(describe).collect();
    if all.len() > BUSIEST_INTERFACES_KEPT {
        all.sort_by_key(|each| Reverse(each.rx_packets + each.tx_packets));
        all.truncate(BUSIEST_INTERFACES_KEPT);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, rx_packets: u64) -> Link {
        Link {
            index,
            name: name.to_owned(),
            rx_packets,
            ..Link::default()
        }
    }

    #[test]
    fn a_vlan_over_a_bond_names_what_is_below_it() {
        let eth0 = Link {
            master: Some(2),
            ..link(1, "eth0", 150)
        };
        let vlan = Link {
            lower: Some(2),
            ..link(3, "vlan7", 40)
        };
        let now = [eth0, link(2, "bond0", 90), vlan];
        let socket = PacketSocket {
            inode: 5,
            interface_index: 2,
        };
        let earlier = [link(1, "eth0", 100), link(2, "bond0", 90)];
        let found = describe_interfaces(&now, &earlier, &BTreeSet::from([(1, 3)]), &[socket]);
        assert_eq!(found[0].master.as_deref(), Some("bond0"));
        assert_eq!(found[0].redirects_to, ["vlan7"]);
        assert_eq!(found[2].lower.as_deref(), Some("bond0"));
        let packets: Vec<u64> = found.iter().map(|each| each.rx_packets).collect();
        assert_eq!(packets, [50, 0, 40]);
        let sockets: Vec<usize> = found.iter().map(|each| each.packet_sockets).collect();
        assert_eq!(sockets, [0, 1, 0]);
    }

    #[test]
    fn of_very_many_interfaces_the_busiest_stay() {
        let now: Vec<Link> = (0..500)
            .map(|index| link(index, "veth", index.into()))
            .collect();
        let found = describe_interfaces(&now, &[], &BTreeSet::new(), &[]);
        assert_eq!(found.len(), BUSIEST_INTERFACES_KEPT);
        assert!(
            found
                .iter()
                .all(|each| each.rx_packets >= 500 - BUSIEST_INTERFACES_KEPT as u64)
        );
    }
}
