//! The root queueing discipline (qdisc) of an interface: backlog, drops, overlimits and requeues (RTM_GETQDISC;
//! include/uapi/linux/rtnetlink.h, pkt_sched.h, gen_stats.h). The kernel includes child qdiscs in the counts of the root
//! (qdisc_tree_reduce_backlog, mq_dump).

use netlink_packet_core::{Emitable, NLM_F_ECHO, parse_string};
use netlink_packet_route::tc::{TcHandle, TcHeader, TcMessage, TcStatsQueue};
use rustix::net::netdevice::name_to_index;
use serde::Serialize;

use crate::reading::{CounterValue, Counters};
use crate::unwrapped_counter::UnwrappedCounter;
use vnetbench_interfaces::netlink::{NetlinkSocket, find_attribute};

/// The attribute in TCA_STATS2 with `struct gnet_stats_queue`.
const TCA_STATS_QUEUE: u16 = 3;
/// Kind of the root qdisc of an interface without a queue.
const NOQUEUE_QDISC: &str = "noqueue";

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
pub struct RootQdiscReader {
    index: u32,
    handle: TcHandle,
    counts: [UnwrappedCounter; 3],
    last: QdiscCounters,
}

impl RootQdiscReader {
    /// Opens the root qdisc. Returns `None` for `noqueue`, or if the kernel does not report it.
    pub fn open(socket: &mut NetlinkSocket, interface: &str) -> Option<Self> {
        let index = name_to_index(&*socket, interface).ok()?;
        let root = read_root_qdisc(socket, index).filter(|root| root.kind != NOQUEUE_QDISC)?;
        let mut qdisc = Self {
            index,
            handle: root.handle,
            counts: Default::default(),
            last: QdiscCounters {
                kind: root.kind.clone(),
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
    pub fn read(&mut self, socket: &mut NetlinkSocket) -> QdiscCounters {
        if let Some(root) = read_root_qdisc(socket, self.index)
            && (root.kind == self.last.kind && root.handle == self.handle)
        {
            self.update(&root);
        }
        self.last.clone()
    }

    fn update(&mut self, root: &RootQdisc) {
        // A new qdisc of the same kind and handle shows as counters that decrease.
        let [drops, overlimits, requeues] = &mut self.counts;
        self.last.drops = drops.update_or_restart(root.queue.drops);
        self.last.overlimits = overlimits.update_or_restart(root.queue.overlimits);
        self.last.requeues = requeues.update_or_restart(root.queue.requeues);
        self.last.backlog_bytes = root.queue.backlog;
        self.last.backlog_packets = root.queue.qlen;
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
pub struct OwnInterfaceQdisc {
    socket: NetlinkSocket,
    qdisc: RootQdiscReader,
}

impl OwnInterfaceQdisc {
    pub fn open(interface: &str) -> Option<Self> {
        let mut socket = NetlinkSocket::open_route().ok()?;
        let qdisc = RootQdiscReader::open(&mut socket, interface)?;
        Some(Self { socket, qdisc })
    }

    pub fn read(&mut self) -> Counters {
        let now = self.qdisc.read(&mut self.socket);
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

/// A root qdisc as the kernel reports it.
struct RootQdisc {
    kind: String,
    handle: TcHandle,
    queue: TcStatsQueue,
}

fn read_root_qdisc(socket: &mut NetlinkSocket, interface_index: u32) -> Option<RootQdisc> {
    let mut message = TcMessage::with_index(interface_index.cast_signed());
    message.header.parent = TcHandle::ROOT;
    let mut root = None;
    // Without NLM_F_ECHO, some kernels notify every listener but not the requester.
    let result = socket.request(libc::RTM_GETQDISC, NLM_F_ECHO, &message, |body| {
        root = parse_root_qdisc(body);
        Ok(())
    });
    result.ok().and(root)
}

/// Parses only the attributes that are counted. A parse of the whole message takes longer, and fails with it if a
/// kernel reports another attribute in a new form.
fn parse_root_qdisc(body: &[u8]) -> Option<RootQdisc> {
    let header = TcHeader::parse(body).ok()?;
    let attributes = body.get(header.buffer_len()..)?;
    let kind = find_attribute(attributes, libc::TCA_KIND)?;
    let statistics = find_attribute(attributes, libc::TCA_STATS2)?;
    let queue = find_attribute(statistics, TCA_STATS_QUEUE)?;
    Some(RootQdisc {
        kind: parse_string(kind).ok()?,
        handle: header.handle,
        queue: TcStatsQueue::parse(queue).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_without_queue_has_no_qdisc() {
        let mut socket = NetlinkSocket::open_route().expect("netlink");
        let index = name_to_index(&socket, "lo").expect("lo exists");
        let root = read_root_qdisc(&mut socket, index).expect("the kernel reports it");
        assert_eq!(root.kind, NOQUEUE_QDISC);
        assert!(RootQdiscReader::open(&mut socket, "lo").is_none());
        assert!(RootQdiscReader::open(&mut socket, "vnb-absent").is_none());
    }
}
