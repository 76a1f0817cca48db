//! The addresses of an interface, read and changed by rtnetlink (rtnetlink(7), include/uapi/linux/if_addr.h).

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::str::FromStr;

use vnetbench_interfaces::netlink::{
    self, Message, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, attributes, request,
};

const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// It is used at once, and not tried for a second first.
const IFA_F_NODAD: u8 = 0x02;
/// `struct ifaddrmsg`.
const HEADER_BYTES: usize = 8;

/// An address of an interface with the length of its network's prefix: `10.0.0.1/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceAddress {
    pub ip: IpAddr,
    pub prefix: u8,
}

impl FromStr for InterfaceAddress {
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

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.ip, self.prefix)
    }
}

/// All that the interface has, in the kernel's order.
pub fn read(interface: u32) -> io::Result<Vec<InterfaceAddress>> {
    let all = Message::new(RTM_GETADDR, NLM_F_DUMP, &[0; HEADER_BYTES]);
    let found = request(&netlink::open(None)?, &all)?;
    let ours = found
        .iter()
        .filter_map(|(_, body)| parse_address(body, interface));
    Ok(ours.collect())
}

/// Makes these the addresses of the interface, and takes all others away.
pub fn set(interface: u32, wanted: &[InterfaceAddress]) -> io::Result<()> {
    let found = read(interface)?;
    let socket = netlink::open(None)?;
    for address in found.iter().filter(|address| !wanted.contains(address)) {
        change(&socket, RTM_DELADDR, 0, interface, *address)?;
    }
    for address in wanted.iter().filter(|address| !found.contains(address)) {
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        change(&socket, RTM_NEWADDR, flags, interface, *address)?;
    }
    Ok(())
}

/// As netlink's messages name the version of an address.
pub fn address_family(ip: IpAddr) -> u8 {
    let family = if ip.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    family as u8
}

/// As netlink's attributes have it.
pub fn address_octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn change(
    socket: &OwnedFd,
    kind: u16,
    flags: u16,
    interface: u32,
    address: InterfaceAddress,
) -> io::Result<()> {
    let octets = address_octets(address.ip);
    let message = Message::new(kind, flags, &message_header(interface, address))
        .with(IFA_LOCAL, &octets)
        .with(IFA_ADDRESS, &octets);
    request(socket, &message).map(drop)
}

/// `struct ifaddrmsg`.
fn message_header(interface: u32, address: InterfaceAddress) -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = interface.to_ne_bytes();
    let family = address_family(address.ip);
    [family, address.prefix, IFA_F_NODAD, 0, a, b, c, d]
}

fn parse_address(body: &[u8], interface: u32) -> Option<InterfaceAddress> {
    let (head, rest) = body.split_at_checked(HEADER_BYTES)?;
    if u32::from_ne_bytes(head[4..8].try_into().ok()?) != interface {
        return None;
    }
    let (mut local, mut other) = (None, None);
    for (kind, value) in attributes(rest) {
        match kind {
            IFA_LOCAL => local = parse_ip(value),
            IFA_ADDRESS => other = parse_ip(value),
            _ => {}
        }
    }
    // IPv6 has the second only; of a point-to-point link of IPv4 that is the other side's.
    Some(InterfaceAddress {
        ip: local.or(other)?,
        prefix: head[1],
    })
}

fn parse_ip(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(IpAddr::from(*value.first_chunk::<4>()?)),
        _ => Some(IpAddr::from(*value.first_chunk::<16>()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_with_its_prefix() {
        for text in ["10.77.1.1/16", "fd77::1:1/64", "0.0.0.0/0"] {
            let address: InterfaceAddress = text.parse().expect("valid");
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
            assert!(text.parse::<InterfaceAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_loopback_has_its_address() {
        let address: InterfaceAddress = "127.0.0.1/8".parse().expect("valid");
        // A namespace whose loopback was never set up has none.
        let found = read(1).expect("rtnetlink");
        assert!(found.is_empty() || found.contains(&address), "{found:?}");
    }
}
