//! The root queueing discipline (qdisc) of an interface: backlog, drops, overlimits and requeues (RTM_GETQDISC;
//! include/uapi/linux/rtnetlink.h, pkt_sched.h, gen_stats.h). The kernel includes child qdiscs in the counts of the root
//! (qdisc_tree_reduce_backlog, mq_dump).

use std::os::fd::OwnedFd;

use rustix::net::netdevice::name_to_index;
use serde::Serialize;

use crate::reading::{CounterValue, Counters};
use crate::unwrapped_counter::UnwrappedCounter;
use vnetbench_interfaces::netlink::{self, Message, NLM_F_ECHO, attributes, request};

const RTM_GETQDISC: u16 = 38;
/// `struct tcmsg`: family and padding, index, handle, parent, info.
const HEADER_BYTES: usize = 20;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
/// Kind of the root qdisc of an interface without a queue.
const NO_QUEUE: &str = "noqueue";

/// Counters of a qdisc at one moment, or between two; the backlog is always that of the later moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QdiscCounters {
    kind: String,
    drops: u64,
    overlimits: u64,
    requeues: u64,
    backlog_bytes: u32,
    backlog_packets: u32,
}

/// Reads the root qdisc of one interface, through a socket in its network namespace.
pub struct Qdisc {
    index: u32,
    handle: u32,
    counts: [UnwrappedCounter; 3],
    last: QdiscCounters,
}

impl Qdisc {
    /// Opens the root qdisc. Returns `None` for `noqueue`, or if the kernel does not report it.
    pub fn open(socket: &OwnedFd, interface: &str) -> Option<Self> {
        let index = name_to_index(socket, interface).ok()?;
        let (kind, root) = read_root_qdisc(socket, index).filter(|(kind, _)| kind != NO_QUEUE)?;
        let mut qdisc = Self {
            index,
            handle: root.handle,
            counts: Default::default(),
            last: QdiscCounters {
                kind,
                drops: 0,
                overlimits: 0,
                requeues: 0,
                backlog_bytes: 0,
                backlog_packets: 0,
            },
        };
        qdisc.update(&root);
        Some(qdisc)
    }

    /// Reads the counters. Keeps the last ones if the qdisc is gone or was replaced, because a new one counts from 0.
    pub fn read(&mut self, socket: &OwnedFd) -> QdiscCounters {
        if let Some((kind, root)) = read_root_qdisc(socket, self.index)
            && (kind == self.last.kind && root.handle == self.handle)
        {
            self.update(&root);
        }
        self.last.clone()
    }

    fn update(&mut self, root: &RootQdisc) {
        // A new qdisc of the same kind and handle shows as counters that decrease.
        let [drops, overlimits, requeues] = &mut self.counts;
        self.last.drops = drops.update_or_restart(root.drops);
        self.last.overlimits = overlimits.update_or_restart(root.overlimits);
        self.last.requeues = requeues.update_or_restart(root.requeues);
        self.last.backlog_bytes = root.backlog;
        self.last.backlog_packets = root.qlen;
    }
}

impl QdiscCounters {
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            drops: self.drops - earlier.drops,
            overlimits: self.overlimits - earlier.overlimits,
            requeues: self.requeues - earlier.requeues,
            ..self.clone()
        }
    }
}

/// Reads the root qdisc of the endpoint's own interface as counters.
pub struct InterfaceQdisc {
    socket: OwnedFd,
    qdisc: Qdisc,
}

impl InterfaceQdisc {
    pub fn open(interface: &str) -> Option<Self> {
        let socket = netlink::open(None).ok()?;
        let qdisc = Qdisc::open(&socket, interface)?;
        Some(Self { socket, qdisc })
    }

    pub fn read(&mut self) -> Counters {
        let now = self.qdisc.read(&self.socket);
        let level = |level| CounterValue::Level(u64::from(level));
        Counters(vec![
            ("qdisc_drops", CounterValue::Count(now.drops)),
            ("qdisc_overlimits", CounterValue::Count(now.overlimits)),
            ("qdisc_requeues", CounterValue::Count(now.requeues)),
            ("qdisc_backlog_bytes", level(now.backlog_bytes)),
            ("qdisc_backlog_packets", level(now.backlog_packets)),
        ])
    }
}

/// A root qdisc as the kernel reports it, with `struct gnet_stats_queue`.
struct RootQdisc {
    handle: u32,
    qlen: u32,
    backlog: u32,
    drops: u32,
    requeues: u32,
    overlimits: u32,
}

fn read_root_qdisc(socket: &OwnedFd, index: u32) -> Option<(String, RootQdisc)> {
    let mut head = [0; HEADER_BYTES];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[12..16].copy_from_slice(&TC_H_ROOT.to_ne_bytes());
    // Without NLM_F_ECHO, some kernels notify every listener but not the requester.
    let answers = request(socket, &Message::new(RTM_GETQDISC, NLM_F_ECHO, &head)).ok()?;
    parse(&answers.first()?.1)
}

fn parse(body: &[u8]) -> Option<(String, RootQdisc)> {
    let (head, rest) = body.split_at_checked(HEADER_BYTES)?;
    let kind = find_attribute(rest, TCA_KIND)?;
    let counts = find_attribute(find_attribute(rest, TCA_STATS2)?, TCA_STATS_QUEUE)?;
    let number = |fields: &[u8], index: usize| {
        let bytes = fields.get(4 * index..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    };
    let root = RootQdisc {
        handle: number(head, 2)?,
        qlen: number(counts, 0)?,
        backlog: number(counts, 1)?,
        drops: number(counts, 2)?,
        requeues: number(counts, 3)?,
        overlimits: number(counts, 4)?,
    };
    let kind = String::from_utf8_lossy(kind);
    Some((kind.trim_end_matches('\0').to_owned(), root))
}

fn find_attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut matches = attributes(bytes).filter(|(kind, _)| *kind == wanted);
    matches.next().map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_without_queue_has_no_qdisc() {
        let socket = netlink::open(None).expect("netlink");
        let index = name_to_index(&socket, "lo").expect("lo exists");
        let (kind, _) = read_root_qdisc(&socket, index).expect("the kernel reports it");
        assert_eq!(kind, NO_QUEUE);
        assert!(Qdisc::open(&socket, "lo").is_none());
        assert!(Qdisc::open(&socket, "vnb-absent").is_none());
    }
}
