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
    let [t, u] = 29u16.to_ne_bytes();
    let [a, b, c, d] = 8u32.to_ne_bytes();
    [l, m, t, u, a, b, c, d]
};
/// IFLA_XDP and its elements (include/uapi/linux/if_link.h).
const IFLA_XDP: u16 = 43;
const XDP_ATTACHED: u16 = 2;
const XDP_PROGRAM_ID: u16 = 4;

/// An interface, and its XDP program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
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
    let request = make_link_request(0);
    let mut links = Vec::new();
    socket.request(libc::RTM_GETLINK, NLM_F_DUMP, &request, |body| {
        links.extend(parse_link(body));
        Ok(())
    })?;
    Ok(links)
}

/// Reads the inodes of all packet sockets.
pub fn read_packet_sockets() -> Option<Vec<u64>> {
    let text = match fs::read_to_string("/proc/thread-self/net/packet") {
        Ok(text) => text,
        // The kernel has no packet sockets.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
        Err(_) => return None,
    };
    let inode = |line: &str| line.split_ascii_whitespace().next_back()?.parse().ok();
    Some(text.lines().skip(1).filter_map(inode).collect())
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
    let xdp = find_attribute(attributes, IFLA_XDP).unwrap_or_default();
    let is_attached = find_attribute(xdp, XDP_ATTACHED).is_some_and(|mode| mode != [0]);
    let id = || {
        Some(u32::from_ne_bytes(
            *find_attribute(xdp, XDP_PROGRAM_ID)?.first_chunk()?,
        ))
    };
    Some(Link {
        index: u32::from_ne_bytes(*body.get(4..)?.first_chunk()?),
        name,
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
        assert!(!before.contains(&inode));
        assert!(read_packet_sockets().expect("readable").contains(&inode));
        assert!(AgentHandles::find().has_socket(inode));
    }
}
