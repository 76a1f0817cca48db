//! Traffic control of the calling thread's network namespace: all queueing disciplines (qdiscs), classes of htb, and filters
//! (RTM_GETQDISC, RTM_GETTCLASS, RTM_GETTFILTER; include/uapi/linux/pkt_sched.h, pkt_cls.h).

use std::collections::{HashMap, HashSet};
use std::io;

use netlink_packet_core::{NLM_F_DUMP, parse_string};

use vnetbench_interfaces::netlink::{
    NetlinkSocket, RawRequest, find_attribute, iterate_attributes,
};

/// `struct tcmsg`.
const TC_HEADER_BYTES: usize = 20;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
/// Elements of an action in a filter (TCA_ACT_KIND, TCA_ACT_STATS).
const ACTION_KIND: u16 = 1;
const ACTION_STATISTICS: u16 = 4;
/// Marks a hash table of the filter u32, which is no filter.
const TCA_U32_DIVISOR: u16 = 4;
/// The parents of filters at an ingress qdisc, and at both sides of a clsact qdisc.
const INGRESS_FILTERS: u32 = 0xffff_0000;
const CLSACT_FILTERS: [u32; 2] = [0xffff_fff2, 0xffff_fff3];
/// The parent of a qdisc or class at the top.
const TOP_LEVEL_PARENT: u32 = u32::MAX;

/// Where the options of a qdisc or class have its rate.
struct RateOption {
    kind: &'static str,
    /// The attribute with 32 bits, and their offset in it.
    short: Option<(u16, usize)>,
    /// The attribute with 64 bits, which has precedence.
    long: u16,
}

const QDISC_RATES: [RateOption; 3] = [
    // TCA_TBF_PARMS: the rate of `struct tc_ratespec`; TCA_TBF_RATE64.
    RateOption {
        kind: "tbf",
        short: Some((1, 8)),
        long: 4,
    },
    // TCA_NETEM_RATE, TCA_NETEM_RATE64.
    RateOption {
        kind: "netem",
        short: Some((6, 0)),
        long: 8,
    },
    // TCA_CAKE_BASE_RATE64.
    RateOption {
        kind: "cake",
        short: None,
        long: 2,
    },
];
/// The ceiling of a class of htb: TCA_HTB_PARMS has the rate's `struct tc_ratespec` and then that of the ceiling;
/// TCA_HTB_CEIL64.
const HTB_CEILING: RateOption = RateOption {
    kind: "htb",
    short: Some((1, 20)),
    long: 7,
};

/// A qdisc, or a class of htb, with its counters since it was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficControlEntry {
    pub interface_index: u32,
    pub kind: String,
    pub is_class: bool,
    pub handle: u32,
    pub parent: u32,
    pub drops: u32,
    pub overlimits: u32,
    pub backlog_bytes: u32,
    pub sent_bytes: u64,
    pub sent_packets: u32,
    pub rate_bps: Option<u64>,
}

/// Identifies an entry as long as nothing replaces it.
pub type EntryKey = (u32, bool, u32, String);

/// The filters of a namespace.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct FilterCounts {
    /// Number of filters.
    pub filters: u64,
    /// Packets that `police` actions dropped, except for those at ingress and clsact qdiscs, which count them.
    pub police_drops: u64,
}

impl TrafficControlEntry {
    pub fn key(&self) -> EntryKey {
        (
            self.interface_index,
            self.is_class,
            self.handle,
            self.kind.clone(),
        )
    }

    /// Whether it takes packets before or after all queues, and only filters them.
    pub fn is_filter_hook(&self) -> bool {
        !self.is_class && matches!(self.kind.as_str(), "ingress" | "clsact")
    }
}

/// Reads all qdiscs that somebody has set, and the classes of htb. The kernel's own qdiscs have no handle.
pub fn read_entries(socket: &mut NetlinkSocket) -> io::Result<Vec<TrafficControlEntry>> {
    let mut entries = dump_entries(socket, libc::RTM_GETQDISC, 0)?;
    entries.retain(|entry| entry.handle != 0 && entry.kind != "noqueue");
    let htb = entries
        .iter()
        .filter(|entry| entry.kind == HTB_CEILING.kind);
    let interfaces: HashSet<u32> = htb.map(|entry| entry.interface_index).collect();
    for interface in interfaces {
        let mut classes = dump_entries(socket, libc::RTM_GETTCLASS, interface)?;
        classes.retain(|class| class.kind == HTB_CEILING.kind);
        set_total_rates(&mut entries, &classes);
        entries.append(&mut classes);
    }
    Ok(entries)
}

/// Sets the rate of each htb qdisc: the sum of the ceilings of its top classes.
fn set_total_rates(qdiscs: &mut [TrafficControlEntry], classes: &[TrafficControlEntry]) {
    let mut totals: HashMap<(u32, u32), u64> = HashMap::new();
    for class in classes
        .iter()
        .filter(|class| class.parent == TOP_LEVEL_PARENT)
    {
        let major = (class.interface_index, class.handle >> 16);
        *totals.entry(major).or_default() += class.rate_bps.unwrap_or(0);
    }
    let is_htb = |entry: &&mut TrafficControlEntry| entry.kind == HTB_CEILING.kind;
    for qdisc in qdiscs.iter_mut().filter(is_htb) {
        let major = (qdisc.interface_index, qdisc.handle >> 16);
        qdisc.rate_bps = totals.get(&major).copied().or(qdisc.rate_bps);
    }
}

/// Counts the filters of these qdiscs.
pub fn read_filters(
    socket: &mut NetlinkSocket,
    qdiscs: &[TrafficControlEntry],
) -> io::Result<FilterCounts> {
    let mut counts = FilterCounts::default();
    for qdisc in qdiscs.iter().filter(|entry| !entry.is_class) {
        let parents = match qdisc.kind.as_str() {
            "ingress" => &[INGRESS_FILTERS][..],
            "clsact" => &CLSACT_FILTERS[..],
            _ => &[qdisc.handle][..],
        };
        for parent in parents {
            let request = make_request(qdisc.interface_index, *parent);
            socket.request(libc::RTM_GETTFILTER, NLM_F_DUMP, &request, |body| {
                if let Some(drops) = parse_police_drops_of_filter(body) {
                    counts.filters += 1;
                    counts.police_drops += if qdisc.is_filter_hook() { 0 } else { drops };
                }
                Ok(())
            })?;
        }
    }
    Ok(counts)
}

fn make_request(interface_index: u32, parent: u32) -> RawRequest {
    let mut header = vec![0; TC_HEADER_BYTES];
    header[4..8].copy_from_slice(&interface_index.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    RawRequest(header)
}

fn dump_entries(
    socket: &mut NetlinkSocket,
    message_type: u16,
    interface_index: u32,
) -> io::Result<Vec<TrafficControlEntry>> {
    let is_class = message_type == libc::RTM_GETTCLASS;
    let mut entries = Vec::new();
    let request = make_request(interface_index, 0);
    socket.request(message_type, NLM_F_DUMP, &request, |body| {
        entries.extend(parse_entry(body, is_class));
        Ok(())
    })?;
    Ok(entries)
}

fn parse_entry(body: &[u8], is_class: bool) -> Option<TrafficControlEntry> {
    let attributes = body.get(TC_HEADER_BYTES..)?;
    let kind = parse_string(find_attribute(attributes, libc::TCA_KIND)?).ok()?;
    let statistics = find_attribute(attributes, libc::TCA_STATS2).unwrap_or_default();
    let basic = find_attribute(statistics, TCA_STATS_BASIC).unwrap_or_default();
    let queue = find_attribute(statistics, TCA_STATS_QUEUE).unwrap_or_default();
    let options = find_attribute(attributes, libc::TCA_OPTIONS).unwrap_or_default();
    let rate = match is_class {
        true => (kind == HTB_CEILING.kind).then_some(&HTB_CEILING),
        false => QDISC_RATES.iter().find(|rate| rate.kind == kind),
    };
    Some(TrafficControlEntry {
        interface_index: parse_u32(body, 4)?,
        is_class,
        handle: parse_u32(body, 8)?,
        parent: parse_u32(body, 12)?,
        backlog_bytes: parse_u32(queue, 4).unwrap_or(0),
        drops: parse_u32(queue, 8).unwrap_or(0),
        overlimits: parse_u32(queue, 16).unwrap_or(0),
        sent_bytes: parse_u64(basic).unwrap_or(0),
        sent_packets: parse_u32(basic, 8).unwrap_or(0),
        rate_bps: rate.and_then(|rate| rate.find_bits_per_s(options)),
        kind,
    })
}

impl RateOption {
    fn find_bits_per_s(&self, options: &[u8]) -> Option<u64> {
        let long = find_attribute(options, self.long).and_then(parse_u64);
        let bytes_per_s = long.filter(|rate| *rate > 0).or_else(|| {
            let (attribute, offset) = self.short?;
            parse_u32(find_attribute(options, attribute)?, offset).map(u64::from)
        })?;
        (bytes_per_s > 0).then(|| bytes_per_s.saturating_mul(8))
    }
}

/// Returns the drops of a filter's `police` actions; `None` for a message that describes no single filter.
fn parse_police_drops_of_filter(body: &[u8]) -> Option<u64> {
    let handle = parse_u32(body, 8)?;
    let options = find_attribute(body.get(TC_HEADER_BYTES..)?, libc::TCA_OPTIONS)?;
    let attributes = body.get(TC_HEADER_BYTES..)?;
    let is_u32 = find_attribute(attributes, libc::TCA_KIND).is_some_and(|kind| kind == b"u32\0");
    if handle == 0 || is_u32 && find_attribute(options, TCA_U32_DIVISOR).is_some() {
        return None;
    }
    // Each classifier has another attribute with the list of actions; only such a list has elements with these kinds.
    let actions = iterate_attributes(options).flat_map(|(_, list)| iterate_attributes(list));
    Some(
        actions
            .filter_map(|(_, action)| parse_police_drops(action))
            .sum(),
    )
}

fn parse_police_drops(action: &[u8]) -> Option<u64> {
    find_attribute(action, ACTION_KIND).filter(|kind| *kind == b"police\0")?;
    let statistics = find_attribute(action, ACTION_STATISTICS)?;
    parse_u32(find_attribute(statistics, TCA_STATS_QUEUE)?, 8).map(u64::from)
}

/// Formats a handle as tc(8) does.
pub fn format_handle(handle: u32) -> String {
    let (major, minor) = (handle >> 16, handle & 0xffff);
    match (handle, minor) {
        (TOP_LEVEL_PARENT, _) => "root".into(),
        (0xffff_fff1, _) => "ingress".into(),
        (_, 0) => format!("{major:x}:"),
        _ => format!("{major:x}:{minor:x}"),
    }
}

fn parse_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    let word = bytes.get(offset..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*word))
}

fn parse_u64(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.first_chunk()?))
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
        assert_eq!(
            parse_police_drops_of_filter(&filter_with_action("police", 7)),
            Some(7)
        );
        assert_eq!(
            parse_police_drops_of_filter(&filter_with_action("gact", 7)),
            Some(0)
        );
    }

    #[test]
    fn a_message_about_the_classifier_itself_is_no_filter() {
        let mut message = filter_with_action("police", 7);
        message[8] = 0;
        assert_eq!(parse_police_drops_of_filter(&message), None);
        assert_eq!(parse_police_drops_of_filter(&message[..10]), None);
    }

    #[test]
    fn a_rate_of_64_bits_has_precedence() {
        let tbf = &QDISC_RATES[0];
        let mut parameters = vec![0; 36];
        parameters[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        let short = DefaultNla::new(1, parameters);
        let long = DefaultNla::new(4, 5_000_000_000_u64.to_ne_bytes().into());
        let only_short = bytes(std::slice::from_ref(&short));
        assert_eq!(
            tbf.find_bits_per_s(&only_short),
            Some(8 * u64::from(u32::MAX))
        );
        assert_eq!(
            tbf.find_bits_per_s(&bytes(&[short, long])),
            Some(40_000_000_000)
        );
        assert_eq!(tbf.find_bits_per_s(&[]), None);
    }

    #[test]
    fn handles_are_formatted_as_tc_does() {
        let of = [TOP_LEVEL_PARENT, 0xffff_fff1, 0x8001_0000, 0x0001_0020].map(format_handle);
        assert_eq!(of, ["root", "ingress", "8001:", "1:20"]);
    }
}
