//! Traffic control of the calling thread's network namespace: all queueing disciplines (qdiscs) and classes of htb
//! (RTM_GETQDISC, RTM_GETTCLASS; include/uapi/linux/pkt_sched.h). `traffic_filters` has their filters.

use std::collections::{HashMap, HashSet};
use std::io;

use netlink_packet_core::{NLM_F_DUMP, parse_string};

use vnetbench_interfaces::netlink::{NetlinkSocket, RawRequest, find_attribute};

/// `struct tcmsg`.
pub const TC_HEADER_BYTES: usize = 20;
const TCA_STATS_BASIC: u16 = 1;
pub const TCA_STATS_QUEUE: u16 = 3;
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
pub fn read_qdiscs_and_htb_classes(
    socket: &mut NetlinkSocket,
) -> io::Result<Vec<TrafficControlEntry>> {
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

/// Returns a request for what a qdisc or an interface has.
pub fn make_request(interface_index: u32, parent: u32) -> RawRequest {
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

pub fn parse_u32(bytes: &[u8], offset: usize) -> Option<u32> {
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
    use crate::test_attributes::bytes;

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
