//! Packet sockets and XDP programs of other programs in the calling thread's network namespace.

use std::collections::HashSet;
use std::fs;
use std::io;

use netlink_packet_core::{NLM_F_DUMP, parse_string};

use crate::process_table::{BenchProcesses, ProcessId, list_processes};
use vnetbench_interfaces::netlink::{NetlinkSocket, RawRequest, find_attribute};

/// `struct ifinfomsg`.
const LINK_HEADER_BYTES: usize = 16;
/// The attribute IFLA_EXT_MASK with RTEXT_FILTER_SKIP_STATS.
const SKIP_STATISTICS_ATTRIBUTE: [u8; 8] = {
    let [l, m] = 8u16.to_ne_bytes();
    let [t, u] = libc::IFLA_EXT_MASK.to_ne_bytes();
    let [a, b, c, d] = libc::RTEXT_FILTER_SKIP_STATS.to_ne_bytes();
    [l, m, t, u, a, b, c, d]
};
/// Elements of IFLA_XDP (include/uapi/linux/if_link.h).
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;

/// An interface with its place among the others, its XDP program, and its counters since it was created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// The type of a virtual interface, such as `vlan`; empty for hardware.
    pub kind: String,
    /// The bridge, bond or team that this interface is a part of.
    pub master: Option<u32>,
    /// The interface below a VLAN, macvlan or tunnel, if it is in the same namespace.
    pub lower: Option<u32>,
    pub rx_packets: u64,
    pub tx_packets: u64,
    /// The program's id, or 0 if the kernel does not report a single one.
    pub xdp_program: Option<u32>,
}

/// Sockets and BPF programs that the bench's agents hold.
pub struct AgentHandles {
    sockets: HashSet<u64>,
    programs: HashSet<u32>,
}

/// Returns a request for an interface, or for all of a dump, without the statistics.
pub fn make_link_request(interface_index: u32) -> RawRequest {
    let mut request = vec![0; LINK_HEADER_BYTES];
    request[4..8].copy_from_slice(&interface_index.to_ne_bytes());
    request.extend(SKIP_STATISTICS_ATTRIBUTE);
    RawRequest(request)
}

/// Reads all interfaces.
pub fn read_links(socket: &mut NetlinkSocket) -> io::Result<Vec<Link>> {
    let request = RawRequest(vec![0; LINK_HEADER_BYTES]);
    let mut links = Vec::new();
    socket.request(libc::RTM_GETLINK, NLM_F_DUMP, &request, |body| {
        links.extend(parse_link(body));
        Ok(())
    })?;
    Ok(links)
}

/// A packet socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketSocket {
    pub inode: u64,
    /// The interface whose packets it gets; 0 for all.
    pub interface_index: u32,
}

/// Reads all packet sockets.
pub fn read_packet_sockets() -> Option<Vec<PacketSocket>> {
    let text = match fs::read_to_string("/proc/thread-self/net/packet") {
        Ok(text) => text,
        // The kernel has no packet sockets.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
        Err(_) => return None,
    };
    Some(
        text.lines()
            .skip(1)
            .filter_map(parse_packet_socket)
            .collect(),
    )
}

/// Parses a line of /proc/net/packet: address, references, type, protocol, interface, state, memory, user and inode.
fn parse_packet_socket(line: &str) -> Option<PacketSocket> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    Some(PacketSocket {
        inode: words.last()?.parse().ok()?,
        interface_index: words.get(4)?.parse().ok()?,
    })
}

impl AgentHandles {
    /// Finds what the agents on this machine hold.
    pub fn find() -> Self {
        let bench = BenchProcesses::find();
        let mut handles = Self {
            sockets: HashSet::new(),
            programs: HashSet::new(),
        };
        let processes = list_processes().into_iter().flatten();
        for pid in processes.filter(|pid| bench.is_agent(*pid)) {
            handles.add_process(pid);
        }
        handles
    }

    fn add_process(&mut self, pid: ProcessId) {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
        for entry in descriptors.into_iter().flatten().flatten() {
            let Ok(target) = fs::read_link(entry.path()) else {
                continue;
            };
            let target = target.to_string_lossy();
            if let Some(inode) = target.strip_prefix("socket:[") {
                self.sockets
                    .extend(inode.trim_end_matches(']').parse::<u64>());
            } else if target.starts_with("anon_inode:bpf") {
                let number = entry.file_name();
                let path = format!("/proc/{pid}/fdinfo/{}", number.to_string_lossy());
                let text = fs::read_to_string(path).unwrap_or_default();
                let mut lines = text.lines();
                let id = lines.find_map(|line| line.strip_prefix("prog_id:"));
                self.programs
                    .extend(id.and_then(|id| id.trim().parse::<u32>().ok()));
            }
        }
    }

    pub fn has_socket(&self, inode: u64) -> bool {
        self.sockets.contains(&inode)
    }

    pub fn has_program(&self, id: u32) -> bool {
        self.programs.contains(&id)
    }
}

fn parse_link(body: &[u8]) -> Option<Link> {
    let attributes = body.get(LINK_HEADER_BYTES..)?;
    let name = parse_string(find_attribute(attributes, libc::IFLA_IFNAME)?).ok()?;
    let xdp = find_attribute(attributes, libc::IFLA_XDP).unwrap_or_default();
    let is_attached = find_attribute(xdp, IFLA_XDP_ATTACHED).is_some_and(|mode| mode != [0]);
    let id = || {
        Some(u32::from_ne_bytes(
            *find_attribute(xdp, IFLA_XDP_PROG_ID)?.first_chunk()?,
        ))
    };
    let information = find_attribute(attributes, libc::IFLA_LINKINFO).unwrap_or_default();
    let kind =
        find_attribute(information, libc::IFLA_INFO_KIND).and_then(|kind| parse_string(kind).ok());
    let index = |attribute| {
        Some(u32::from_ne_bytes(
            *find_attribute(attributes, attribute)?.first_chunk()?,
        ))
    };
    // The interface of IFLA_LINK is then in another namespace.
    let is_elsewhere = find_attribute(attributes, libc::IFLA_LINK_NETNSID).is_some();
    let counters = find_attribute(attributes, libc::IFLA_STATS64).unwrap_or_default();
    let count = |offset: usize| Some(u64::from_ne_bytes(*counters.get(offset..)?.first_chunk()?));
    Some(Link {
        index: u32::from_ne_bytes(*body.get(4..)?.first_chunk()?),
        name,
        kind: kind.unwrap_or_default(),
        master: index(libc::IFLA_MASTER),
        lower: index(libc::IFLA_LINK).filter(|_| !is_elsewhere),
        rx_packets: count(0).unwrap_or(0),
        tx_packets: count(8).unwrap_or(0),
        xdp_program: is_attached.then(|| id().unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

    use super::*;

    #[test]
    fn the_loopback_is_listed_without_a_program() {
        let mut socket = NetlinkSocket::open_route().expect("netlink");
        let links = read_links(&mut socket).expect("readable");
        let loopback = links.iter().find(|link| link.name == "lo").expect("exists");
        assert_eq!(loopback.xdp_program, None);
        assert_eq!(loopback.index, 1);
        assert_eq!(
            (loopback.master, loopback.lower, loopback.kind.as_str()),
            (None, None, "")
        );
    }

    #[test]
    fn an_own_packet_socket_is_listed_and_recognized() {
        let before = read_packet_sockets().expect("readable");
        let (family, kind) = (AddressFamily::PACKET, SocketType::DGRAM);
        let Ok(socket) = socket_with(family, kind, SocketFlags::CLOEXEC, None) else {
            eprintln!("skipped: this user may not open packet sockets");
            return;
        };
        let inode = rustix::fs::fstat(socket.as_fd()).expect("a socket").st_ino;
        assert!(before.iter().all(|socket| socket.inode != inode));
        let own = PacketSocket {
            inode,
            interface_index: 0,
        };
        assert!(read_packet_sockets().expect("readable").contains(&own));
        assert!(AgentHandles::find().has_socket(inode));
    }
}
