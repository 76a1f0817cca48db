//! Filters of traffic control: how many each qdisc has, where they send packets, and what they drop
//! (RTM_GETTFILTER; include/uapi/linux/pkt_cls.h, tc_act/tc_mirred.h).

use std::collections::{BTreeSet, HashMap};
use std::io;

use netlink_packet_core::NLM_F_DUMP;

use crate::traffic_control::{
    EntryKey, TC_HEADER_BYTES, TCA_STATS_QUEUE, TrafficControlEntry, make_request, parse_u32,
};
use vnetbench_interfaces::netlink::{NetlinkSocket, find_attribute, iterate_attributes};

/// Elements of an action in a filter (TCA_ACT_KIND, TCA_ACT_OPTIONS, TCA_ACT_STATS).
const ACTION_KIND: u16 = 1;
const ACTION_OPTIONS: u16 = 2;
const ACTION_STATISTICS: u16 = 4;
const TCA_MIRRED_PARMS: u16 = 2;
/// `ifindex` in `struct tc_mirred`, behind the five words of all actions and the direction.
const MIRRED_INTERFACE_OFFSET: usize = 24;
/// Marks a hash table of the filter u32, which is no filter.
const TCA_U32_DIVISOR: u16 = 4;
/// The parents of filters at an ingress qdisc, and at both sides of a clsact qdisc.
const INGRESS_FILTERS: u32 = 0xffff_0000;
const CLSACT_FILTERS: [u32; 2] = [0xffff_fff2, 0xffff_fff3];

/// The filters of a namespace.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Filters {
    /// Number of filters of each qdisc that has some.
    pub count_by_qdisc: HashMap<EntryKey, u64>,
    /// Interfaces with the interfaces to which their filters redirect or copy packets.
    pub redirects: BTreeSet<(u32, u32)>,
    /// Packets that `police` actions dropped, except for those at ingress and clsact qdiscs, which count them.
    pub police_drops: u64,
}

/// One filter.
#[derive(Debug, Default, PartialEq, Eq)]
struct Filter {
    police_drops: u64,
    redirects_to: Vec<u32>,
}

/// Reads the filters of these qdiscs.
pub fn read_filters(
    socket: &mut NetlinkSocket,
    qdiscs: &[TrafficControlEntry],
) -> io::Result<Filters> {
    let mut filters = Filters::default();
    for qdisc in qdiscs.iter().filter(|entry| !entry.is_class) {
        let parents = match qdisc.kind.as_str() {
            "ingress" => &[INGRESS_FILTERS][..],
            "clsact" => &CLSACT_FILTERS[..],
            _ => &[qdisc.handle][..],
        };
        for parent in parents {
            let request = make_request(qdisc.interface_index, *parent);
            socket.request(libc::RTM_GETTFILTER, NLM_F_DUMP, &request, |body| {
                if let Some(filter) = parse_filter(body) {
                    filters.add(qdisc, filter);
                }
                Ok(())
            })?;
        }
    }
    Ok(filters)
}

impl Filters {
    /// Returns the number of filters.
    pub fn count(&self) -> u64 {
        self.count_by_qdisc.values().sum()
    }

    fn add(&mut self, qdisc: &TrafficControlEntry, filter: Filter) {
        *self.count_by_qdisc.entry(qdisc.key()).or_default() += 1;
        let is_counted = qdisc.is_filter_hook();
        self.police_drops += if is_counted { 0 } else { filter.police_drops };
        let targets = filter.redirects_to.into_iter();
        self.redirects
            .extend(targets.map(|target| (qdisc.interface_index, target)));
    }
}

/// Returns a filter; `None` for a message that describes no single filter.
fn parse_filter(body: &[u8]) -> Option<Filter> {
    let handle = parse_u32(body, 8)?;
    let options = find_attribute(body.get(TC_HEADER_BYTES..)?, libc::TCA_OPTIONS)?;
    let attributes = body.get(TC_HEADER_BYTES..)?;
    let is_u32 = find_attribute(attributes, libc::TCA_KIND).is_some_and(|kind| kind == b"u32\0");
    if handle == 0 || is_u32 && find_attribute(options, TCA_U32_DIVISOR).is_some() {
        return None;
    }
    // Each classifier has another attribute with the list of actions; only such a list has elements with these kinds.
    let actions: Vec<&[u8]> = iterate_attributes(options)
        .flat_map(|(_, list)| iterate_attributes(list))
        .map(|(_, action)| action)
        .collect();
    let drops = actions
        .iter()
        .filter_map(|action| parse_police_drops(action));
    let targets = actions.iter().filter_map(|action| parse_redirect(action));
    Some(Filter {
        police_drops: drops.sum(),
        redirects_to: targets.collect(),
    })
}

fn parse_police_drops(action: &[u8]) -> Option<u64> {
    find_attribute(action, ACTION_KIND).filter(|kind| *kind == b"police\0")?;
    let statistics = find_attribute(action, ACTION_STATISTICS)?;
    parse_u32(find_attribute(statistics, TCA_STATS_QUEUE)?, 8).map(u64::from)
}

/// Returns the interface to which an action `mirred` redirects or copies packets.
fn parse_redirect(action: &[u8]) -> Option<u32> {
    find_attribute(action, ACTION_KIND).filter(|kind| *kind == b"mirred\0")?;
    let options = find_attribute(action, ACTION_OPTIONS)?;
    parse_u32(
        find_attribute(options, TCA_MIRRED_PARMS)?,
        MIRRED_INTERFACE_OFFSET,
    )
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::DefaultNla;

    use super::*;
    use crate::test_attributes::{bytes, nest};

    /// Returns a message about a filter of the classifier flower with one action.
    fn filter_with_action(kind: &str, drops: u32) -> Vec<u8> {
        let words = [0, 0, drops, 0, 0].map(u32::to_ne_bytes);
        let queue = DefaultNla::new(TCA_STATS_QUEUE, words.concat());
        let action = [
            DefaultNla::new(ACTION_KIND, [kind.as_bytes(), b"\0"].concat()),
            nest(ACTION_STATISTICS, &[queue]),
        ];
        let options = [
            // TCA_FLOWER_CLASSID and TCA_FLOWER_ACT.
            DefaultNla::new(1, 1u32.to_ne_bytes().into()),
            nest(3, &[nest(1, &action)]),
        ];
        let mut message = vec![0; TC_HEADER_BYTES];
        message[8] = 1;
        message.extend(bytes(&[
            DefaultNla::new(libc::TCA_KIND, b"flower\0".to_vec()),
            nest(libc::TCA_OPTIONS, &options),
        ]));
        message
    }

    #[test]
    fn drops_of_police_actions_are_counted_for_every_classifier() {
        let drops =
            |kind| parse_filter(&filter_with_action(kind, 7)).map(|filter| filter.police_drops);
        assert_eq!(drops("police"), Some(7));
        assert_eq!(drops("gact"), Some(0));
    }

    #[test]
    fn a_message_about_the_classifier_itself_is_no_filter() {
        let mut message = filter_with_action("police", 7);
        message[8] = 0;
        assert_eq!(parse_filter(&message), None);
        assert_eq!(parse_filter(&message[..10]), None);
    }

    #[test]
    fn a_redirecting_action_names_its_interface() {
        let mut parameters = vec![0; 28];
        parameters[MIRRED_INTERFACE_OFFSET..].copy_from_slice(&9u32.to_ne_bytes());
        let options = nest(
            ACTION_OPTIONS,
            &[DefaultNla::new(TCA_MIRRED_PARMS, parameters)],
        );
        let kind = DefaultNla::new(ACTION_KIND, b"mirred\0".to_vec());
        assert_eq!(parse_redirect(&bytes(&[kind, options.clone()])), Some(9));
        let other = DefaultNla::new(ACTION_KIND, b"gact\0".to_vec());
        assert_eq!(parse_redirect(&bytes(&[other, options])), None);
        assert_eq!(parse_redirect(&[]), None);
    }
}
