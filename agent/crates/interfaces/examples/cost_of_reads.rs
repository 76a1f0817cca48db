//! Measures the CPU time of reading an interface's flags and its root queueing discipline, for "Written by hand" in
//! docs/architecture.md:
//!
//!     cargo run --release -p vnetbench-interfaces --example cost_of_reads -- INTERFACE

use std::io;

use netlink_packet_core::{Emitable, NLM_F_ECHO, Parseable};
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::tc::{TcHandle, TcHeader, TcMessage, TcStatsQueue};
use rustix::time::{ClockId, clock_gettime};
use vnetbench_interfaces::interface::Interface;
use vnetbench_interfaces::netlink::{NetlinkSocket, find_attribute};

/// The kinds of reads take turns in each round, so that changes of the clock rate affect all of them.
const ROUNDS: usize = 200;
const READS_IN_A_ROUND: u32 = 500;
const TCA_STATS_QUEUE: u16 = 3;

/// The name of a kind of read, and the function that reads once and returns whether that succeeded.
type NamedRead<'a> = (&'a str, Box<dyn FnMut() -> bool + 'a>);

fn main() -> io::Result<()> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "lo".into());
    let interface = Interface::open(&name)?;
    let mut link = LinkMessage::default();
    link.header.index = interface.index()?;
    let mut qdisc = TcMessage::with_index(interface.index()?.cast_signed());
    qdisc.header.parent = TcHandle::ROOT;
    let (get_link, get_qdisc) = (libc::RTM_GETLINK, libc::RTM_GETQDISC);
    let mut reads: [NamedRead<'_>; 4] = [
        ("flags, ioctl", Box::new(|| interface.is_running().is_ok())),
        ("flags, netlink", netlink_read(get_link, &link, |_| true)?),
        (
            "qdisc, counted attributes",
            netlink_read(get_qdisc, &qdisc, parse_queue)?,
        ),
        (
            "qdisc, whole message",
            netlink_read(get_qdisc, &qdisc, |body| TcMessage::parse(body).is_ok())?,
        ),
    ];
    let mut nanos_by_read = reads.each_ref().map(|_| Vec::with_capacity(ROUNDS));
    for _ in 0..ROUNDS {
        for ((_, read), nanos) in reads.iter_mut().zip(&mut nanos_by_read) {
            let start = thread_cpu_nanos();
            for _ in 0..READS_IN_A_ROUND {
                assert!(std::hint::black_box(read()));
            }
            nanos.push((thread_cpu_nanos() - start) / i64::from(READS_IN_A_ROUND));
        }
    }
    for ((read, _), mut nanos) in reads.iter().zip(nanos_by_read) {
        nanos.sort_unstable();
        println!("{read:26} median {:5} ns of CPU time", nanos[ROUNDS / 2]);
    }
    Ok(())
}

/// Returns a read by netlink that passes each reply to `parse`.
fn netlink_read<'a>(
    message_type: u16,
    message: &'a impl Emitable,
    parse: fn(&[u8]) -> bool,
) -> io::Result<Box<dyn FnMut() -> bool + 'a>> {
    let mut socket = NetlinkSocket::open_route()?;
    Ok(Box::new(move || {
        let mut is_parsed = false;
        let result = socket.request(message_type, NLM_F_ECHO, message, |body| {
            is_parsed = parse(body);
            Ok(())
        });
        result.is_ok() && is_parsed
    }))
}

fn parse_queue(body: &[u8]) -> bool {
    let attributes = &body[TcHeader::default().buffer_len()..];
    let statistics = find_attribute(attributes, libc::TCA_STATS2).unwrap_or_default();
    let queue = find_attribute(statistics, TCA_STATS_QUEUE).unwrap_or_default();
    find_attribute(attributes, libc::TCA_KIND).is_some() && TcStatsQueue::parse(queue).is_ok()
}

fn thread_cpu_nanos() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
