//! The queueing discipline at the root of an interface: what waits in it, and what it dropped, put off, or took back
//! (RTM_GETQDISC; include/uapi/linux/rtnetlink.h, pkt_sched.h, gen_stats.h). What it has below itself is in its own counts:
//! the kernel adds that up there (qdisc_tree_reduce_backlog, mq_dump).

use std::os::fd::OwnedFd;

use rustix::net::netdevice::name_to_index;
use serde::Serialize;

use crate::reading::{CounterValue, Counters};
use crate::wrap::Unwrapped;
use vnetbench_interfaces::netlink::{self, Message, NLM_F_ECHO, attributes, request};

const RTM_GETQDISC: u16 = 38;
/// `struct tcmsg`: family and padding, index, handle, parent, info.
const HEADER_BYTES: usize = 20;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
/// Of an interface that hands over at once what it is given.
const NO_QUEUE: &str = "noqueue";

/// One at one moment, or between two: then the first three are what came to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QdiscCounters {
    kind: String,
    drops: u64,
    overlimits: u64,
    requeues: u64,
    backlog_bytes: u32,
    backlog_packets: u32,
}

/// That of one interface, read again and again by a socket of its namespace.
pub struct Qdisc {
    index: u32,
    handle: u32,
    counts: [Unwrapped; 3],
    last: QdiscCounters,
}

impl Qdisc {
    /// `None` where nothing can wait, or the kernel does not say.
    pub fn open(socket: &OwnedFd, interface: &str) -> Option<Self> {
        let index = name_to_index(socket, interface).ok()?;
        let (kind, found) = root_of(socket, index).filter(|(kind, _)| kind != NO_QUEUE)?;
        let mut opened = Self {
            index,
            handle: found.handle,
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
        opened.take(&found);
        Some(opened)
    }

    /// As it was where it cannot be read any more, or another has taken its place: that one counts from 0.
    pub fn read(&mut self, socket: &OwnedFd) -> QdiscCounters {
        if let Some((kind, found)) = root_of(socket, self.index)
            && (kind == self.last.kind && found.handle == self.handle)
        {
            self.take(&found);
        }
        self.last.clone()
    }

    fn take(&mut self, found: &Root) {
        // One of the same kind and handle may have been put there anew, which its counts tell.
        let [drops, overlimits, requeues] = &mut self.counts;
        self.last.drops = drops.update_or_restart(found.drops);
        self.last.overlimits = overlimits.update_or_restart(found.overlimits);
        self.last.requeues = requeues.update_or_restart(found.requeues);
        self.last.backlog_bytes = found.backlog;
        self.last.backlog_packets = found.qlen;
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

/// Of the side's own interface, as counters.
pub struct OfInterface {
    socket: OwnedFd,
    qdisc: Qdisc,
}

impl OfInterface {
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

/// As the kernel tells it, with `struct gnet_stats_queue`.
struct Root {
    handle: u32,
    qlen: u32,
    backlog: u32,
    drops: u32,
    requeues: u32,
    overlimits: u32,
}

fn root_of(socket: &OwnedFd, index: u32) -> Option<(String, Root)> {
    let mut head = [0; HEADER_BYTES];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[12..16].copy_from_slice(&TC_H_ROOT.to_ne_bytes());
    // Without the echo some kernels tell everyone but who asks.
    let answers = request(socket, &Message::new(RTM_GETQDISC, NLM_F_ECHO, &head)).ok()?;
    parse(&answers.first()?.1)
}

fn parse(body: &[u8]) -> Option<(String, Root)> {
    let (head, rest) = body.split_at_checked(HEADER_BYTES)?;
    let kind = attribute(rest, TCA_KIND)?;
    let counts = attribute(attribute(rest, TCA_STATS2)?, TCA_STATS_QUEUE)?;
    let number = |of: &[u8], place: usize| {
        let bytes = of.get(4 * place..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    };
    let root = Root {
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

fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut found = attributes(bytes).filter(|(kind, _)| *kind == wanted);
    found.next().map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_can_wait_at_has_no_queue() {
        let socket = netlink::open(None).expect("netlink");
        let index = name_to_index(&socket, "lo").expect("lo is there");
        let (kind, _) = root_of(&socket, index).expect("the kernel says");
        assert_eq!(kind, NO_QUEUE);
        assert!(Qdisc::open(&socket, "lo").is_none());
        assert!(Qdisc::open(&socket, "vnb-absent").is_none());
    }
}
