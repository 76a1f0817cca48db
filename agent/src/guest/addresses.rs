//! The addresses of an interface, read and changed by rtnetlink (rtnetlink(7), include/uapi/linux/if_addr.h).

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::str::FromStr;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x01;
const NLM_F_ACK: u16 = 0x04;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// It is used at once, and not tried for a second first.
const IFA_F_NODAD: u8 = 0x02;
/// `struct nlmsghdr`, and `struct ifaddrmsg` after it.
const HEAD_BYTES: usize = 16;
const MESSAGE_BYTES: usize = HEAD_BYTES + 8;

/// An address of an interface with the length of its network's prefix: `10.0.0.1/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    ip: IpAddr,
    prefix: u8,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(ip, prefix)| {
            let ip: IpAddr = ip.parse().ok()?;
            let longest = if ip.is_ipv4() { 32 } else { 128 };
            let prefix = prefix.parse().ok().filter(|prefix| *prefix <= longest)?;
            Some(Self { ip, prefix })
        });
        parsed.ok_or_else(|| {
            format!("\"{text}\" is no address with its prefix; write it as 10.0.0.1/16")
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.ip, self.prefix)
    }
}

/// All that the interface has, in the kernel's order.
pub fn read(interface: u32) -> io::Result<Vec<Address>> {
    let socket = open()?;
    ask(&socket, &message(RTM_GETADDR, NLM_F_DUMP, 0, None))?;
    let mut found = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = &buffer[..length];
        while let Some((kind, body, after)) = next(rest, HEAD_BYTES, whole_message) {
            match kind {
                NLMSG_DONE => return Ok(found),
                NLMSG_ERROR => return acknowledged(body).map(|()| found),
                RTM_NEWADDR => found.extend(address_of(body, interface)),
                _ => {}
            }
            rest = after;
        }
    }
}

/// Makes these the addresses of the interface, and takes all others away.
pub fn set(interface: u32, wanted: &[Address]) -> io::Result<()> {
    let found = read(interface)?;
    let socket = open()?;
    for address in found.iter().filter(|address| !wanted.contains(address)) {
        change(&socket, RTM_DELADDR, 0, interface, *address)?;
    }
    for address in wanted.iter().filter(|address| !found.contains(address)) {
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        change(&socket, RTM_NEWADDR, flags, interface, *address)?;
    }
    Ok(())
}

fn open() -> io::Result<OwnedFd> {
    // NETLINK_ROUTE is netlink's protocol 0, which is what none means.
    Ok(socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

fn ask(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    send(socket, message, SendFlags::empty())?;
    Ok(())
}

fn change(
    socket: &OwnedFd,
    kind: u16,
    flags: u16,
    interface: u32,
    address: Address,
) -> io::Result<()> {
    let flags = flags | NLM_F_ACK;
    ask(socket, &message(kind, flags, interface, Some(address)))?;
    let mut buffer = [0; 4096];
    let (length, _) = recv(socket, &mut buffer[..], RecvFlags::empty())?;
    match next(&buffer[..length], HEAD_BYTES, whole_message) {
        Some((NLMSG_ERROR, body, _)) => acknowledged(body),
        _ => Err(io::Error::other("the kernel's answer is none")),
    }
}

/// The body of NLMSG_ERROR: 0 for what was done, else the error below zero.
fn acknowledged(body: &[u8]) -> io::Result<()> {
    let code = body
        .first_chunk()
        .map_or(-libc::EPROTO, |code| i32::from_ne_bytes(*code));
    if code == 0 {
        return Ok(());
    }
    Err(io::Error::from_raw_os_error(-code))
}

fn message(kind: u16, flags: u16, interface: u32, address: Option<Address>) -> Vec<u8> {
    let octets = address.map(|address| match address.ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    });
    let family = match address.map(|address| address.ip) {
        None => libc::AF_UNSPEC,
        Some(IpAddr::V4(_)) => libc::AF_INET,
        Some(IpAddr::V6(_)) => libc::AF_INET6,
    };
    let mut bytes = vec![0; HEAD_BYTES];
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
    let prefix = address.map_or(0, |address| address.prefix);
    bytes.extend([family as u8, prefix, IFA_F_NODAD, 0]);
    bytes.extend(interface.to_ne_bytes());
    for octets in octets.iter() {
        for kind in [IFA_LOCAL, IFA_ADDRESS] {
            // A multiple of four, so that nothing is to be filled up.
            bytes.extend((4 + octets.len() as u16).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(octets);
        }
    }
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes
}

fn address_of(body: &[u8], interface: u32) -> Option<Address> {
    let (head, mut rest) = body.split_at_checked(MESSAGE_BYTES - HEAD_BYTES)?;
    if u32::from_ne_bytes(head[4..8].try_into().ok()?) != interface {
        return None;
    }
    let (mut local, mut other) = (None, None);
    while let Some((kind, value, after)) = next(rest, 4, whole_attribute) {
        match kind {
            IFA_LOCAL => local = ip_of(value),
            IFA_ADDRESS => other = ip_of(value),
            _ => {}
        }
        rest = after;
    }
    // IPv6 has the second only; of a point-to-point link of IPv4 that is the other side's.
    Some(Address {
        ip: local.or(other)?,
        prefix: head[1],
    })
}

fn ip_of(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(IpAddr::from(*value.first_chunk::<4>()?)),
        _ => Some(IpAddr::from(*value.first_chunk::<16>()?)),
    }
}

fn whole_message(head: &[u8]) -> (usize, u16) {
    let length = u32::from_ne_bytes(head[..4].try_into().expect("four bytes are four"));
    (length as usize, u16::from_ne_bytes([head[4], head[5]]))
}

fn whole_attribute(head: &[u8]) -> (usize, u16) {
    let length = u16::from_ne_bytes([head[0], head[1]]);
    (length.into(), u16::from_ne_bytes([head[2], head[3]]))
}

/// The first of what lies one after another, each aligned to four bytes: its kind, what is in it, and what follows.
fn next(
    bytes: &[u8],
    head_bytes: usize,
    read_head: fn(&[u8]) -> (usize, u16),
) -> Option<(u16, &[u8], &[u8])> {
    let (length, kind) = read_head(bytes.get(..head_bytes)?);
    let body = bytes.get(head_bytes..length)?;
    let after = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_with_its_prefix() {
        for text in ["10.77.1.1/16", "fd77::1:1/64", "0.0.0.0/0"] {
            let address: Address = text.parse().expect("valid");
            assert_eq!(address.to_string(), text);
        }
        for text in [
            "10.0.0.1",
            "10.0.0.1/33",
            "fd77::1/129",
            "/8",
            "a/8",
            "10.0.0.1/-1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_loopback_has_its_address() {
        let address: Address = "127.0.0.1/8".parse().expect("valid");
        // A namespace whose loopback was never set up has none.
        let found = read(1).expect("rtnetlink");
        assert!(found.is_empty() || found.contains(&address), "{found:?}");
    }

    #[test]
    fn what_the_kernel_says_of_an_address_is_what_was_asked_for() {
        for text in ["10.77.1.1/16", "fd77::1:1/64"] {
            let address: Address = text.parse().expect("valid");
            let bytes = message(RTM_NEWADDR, 0, 7, Some(address));
            let (kind, body, rest) = next(&bytes, HEAD_BYTES, whole_message).expect("whole");
            assert_eq!((kind, rest.len()), (RTM_NEWADDR, 0));
            assert_eq!(address_of(body, 7), Some(address));
            assert_eq!(address_of(body, 8), None, "another interface's");
        }
    }

    #[test]
    fn what_is_cut_short_is_no_message() {
        let address: Address = "fd77::1:1/64".parse().expect("valid");
        let bytes = message(RTM_NEWADDR, 0, 7, Some(address));
        for length in 0..bytes.len() {
            assert!(next(&bytes[..length], HEAD_BYTES, whole_message).is_none());
        }
    }
}
