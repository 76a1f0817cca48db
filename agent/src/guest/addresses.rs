//! Reads and changes the addresses of an interface (rtnetlink(7), include/uapi/linux/if_addr.h).

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
/// Skips duplicate address detection, so that the address is usable at once.
const IFA_F_NODAD: u8 = 0x02;
/// `struct ifaddrmsg`.
const HEADER_BYTES: usize = 8;

/// An IP address with its prefix length: `10.0.0.1/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The address.
    pub ip: IpAddr,
    /// The length of the network prefix, in bits.
    pub prefix: u8,
}

impl FromStr for InterfaceAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(ip, prefix)| {
            let ip: IpAddr = ip.parse().ok()?;
            let max_prefix = if ip.is_ipv4() { 32 } else { 128 };
            let prefix = prefix.parse().ok().filter(|prefix| *prefix <= max_prefix)?;
            Some(Self { ip, prefix })
        });
        parsed.ok_or_else(|| {
            format!("\"{text}\" is not an address with a prefix length, such as 10.0.0.1/16")
        })
    }
}

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.ip, self.prefix)
    }
}

/// Returns all addresses of the interface, in the kernel's order.
pub fn read(interface: u32) -> io::Result<Vec<InterfaceAddress>> {
    let message = Message::new(RTM_GETADDR, NLM_F_DUMP, &[0; HEADER_BYTES]);
    let replies = request(&netlink::open(None)?, &message)?;
    let addresses = replies
        .iter()
        .filter_map(|(_, body)| parse_address(body, interface));
    Ok(addresses.collect())
}

/// Sets the addresses of the interface, and removes all others.
pub fn set(interface: u32, addresses: &[InterfaceAddress]) -> io::Result<()> {
    let current = read(interface)?;
    let socket = netlink::open(None)?;
    for address in current
        .iter()
        .filter(|address| !addresses.contains(address))
    {
        change(&socket, RTM_DELADDR, 0, interface, *address)?;
    }
    for address in addresses
        .iter()
        .filter(|address| !current.contains(address))
    {
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        change(&socket, RTM_NEWADDR, flags, interface, *address)?;
    }
    Ok(())
}

/// Returns the address family for netlink messages.
pub fn address_family(ip: IpAddr) -> u8 {
    let family = if ip.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    family as u8
}

/// Returns the address in network byte order, for netlink attributes.
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
    let (mut local, mut peer) = (None, None);
    for (kind, value) in attributes(rest) {
        match kind {
            IFA_LOCAL => local = parse_ip(value),
            IFA_ADDRESS => peer = parse_ip(value),
            _ => {}
        }
    }
    // IPv6 has IFA_ADDRESS only. On a point-to-point link of IPv4, IFA_ADDRESS is the peer's address.
    Some(InterfaceAddress {
        ip: local.or(peer)?,
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
    fn addresses_are_parsed_and_formatted_with_their_prefix() {
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
    fn the_address_of_the_loopback_is_read() {
        let address: InterfaceAddress = "127.0.0.1/8".parse().expect("valid");
        // The loopback of a new namespace has no address until it is up.
        let current = read(1).expect("rtnetlink");
        assert!(
            current.is_empty() || current.contains(&address),
            "{current:?}"
        );
    }
}
