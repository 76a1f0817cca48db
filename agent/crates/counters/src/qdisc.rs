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
///
/// It follows the interface when somebody adds, replaces or removes its qdisc: the counts continue, and without a queue
/// (`noqueue`) they stay, and the backlog is 0.
pub struct RootQdiscReader {
    index: u32,
    handle: TcHandle,
    counts: [UnwrappedCounter; 3],
    last: QdiscCounters,
}

impl RootQdiscReader {
    /// Opens the root qdisc. Returns `None` if the kernel does not report it.
    pub fn open(socket: &mut NetlinkSocket, interface: &str) -> Option<Self> {
        let index = name_to_index(&*socket, interface).ok()?;
        let root = read_root_qdisc(socket, index)?;
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

    /// Reads the counters. Keeps the last ones if the interface is gone.
    pub fn read(&mut self, socket: &mut NetlinkSocket) -> QdiscCounters {
        if let Some(root) = read_root_qdisc(socket, self.index) {
            self.update(&root);
        }
        self.last.clone()
    }

    fn update(&mut self, root: &RootQdisc) {
        if root.kind != self.last.kind || root.handle != self.handle {
            self.handle = root.handle;
            self.last.kind.clone_from(&root.kind);
            // What the earlier qdisc counted since its last reading is unknown.
            self.counts
                .iter_mut()
                .for_each(UnwrappedCounter::continue_from_zero);
        }
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

    fn root(kind: &str, handle: u32, drops: u32, backlog: u32) -> RootQdisc {
        let mut queue = TcStatsQueue::default();
        (queue.drops, queue.overlimits, queue.backlog) = (drops, 10 * drops, backlog);
        RootQdisc {
            kind: kind.into(),
            handle: handle.into(),
            queue,
        }
    }

    fn reader_of(first: &RootQdisc) -> RootQdiscReader {
        let mut reader = RootQdiscReader {
            index: 1,
            handle: first.handle,
            counts: Default::default(),
            last: QdiscCounters {
                kind: first.kind.clone(),
                drops: 0,
                overlimits: 0,
                requeues: 0,
                backlog_bytes: 0,
                backlog_packets: 0,
            },
        };
        reader.update(first);
        reader
    }

    #[test]
    fn an_interface_without_queue_has_an_empty_one() {
        let mut socket = NetlinkSocket::open_route().expect("netlink");
        let mut reader = RootQdiscReader::open(&mut socket, "lo").expect("the kernel reports it");
        let now = reader.read(&mut socket);
        assert_eq!(
            (now.kind.as_str(), now.drops, now.backlog_bytes),
            ("noqueue", 0, 0)
        );
        assert!(RootQdiscReader::open(&mut socket, "vnb-absent").is_none());
    }

    #[test]
    fn a_qdisc_that_comes_and_goes_is_followed() {
        let mut reader = reader_of(&root("noqueue", 0, 0, 0));
        reader.update(&root("tbf", 0x8001_0000, 3, 900));
        assert_eq!((reader.last.drops, reader.last.overlimits), (3, 30));
        reader.update(&root("noqueue", 0, 0, 0));
        assert_eq!((reader.last.drops, reader.last.backlog_bytes), (3, 0));
        reader.update(&root("tbf", 0x8002_0000, 4, 500));
        assert_eq!((reader.last.drops, reader.last.backlog_bytes), (7, 500));
        assert_eq!(reader.last.kind, "tbf");
    }

    #[test]
    fn a_qdisc_that_was_there_before_counts_from_its_first_reading() {
        let mut reader = reader_of(&root("tbf", 0x8001_0000, 100, 0));
        reader.update(&root("tbf", 0x8001_0000, 102, 0));
        assert_eq!((reader.last.drops, reader.last.overlimits), (2, 20));
    }
}
