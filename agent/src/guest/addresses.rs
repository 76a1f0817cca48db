//! Reads and changes the addresses of an interface (rtnetlink(7), include/uapi/linux/if_addr.h).

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::str::FromStr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, Parseable};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use vnetbench_interfaces::netlink::{NetlinkSocket, decode_error_to_io};

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
pub fn read_addresses(interface_index: u32) -> io::Result<Vec<InterfaceAddress>> {
    let mut addresses = Vec::new();
    let request = AddressMessage::default();
    NetlinkSocket::open_route()?.request(libc::RTM_GETADDR, NLM_F_DUMP, &request, |body| {
        let message = AddressMessage::parse(body).map_err(decode_error_to_io)?;
        if message.header.index == interface_index {
            addresses.extend(parse_address_message(&message));
        }
        Ok(())
    })?;
    Ok(addresses)
}

/// Sets the addresses of the interface, and removes all others.
pub fn set_addresses(interface_index: u32, addresses: &[InterfaceAddress]) -> io::Result<()> {
    let current = read_addresses(interface_index)?;
    let mut socket = NetlinkSocket::open_route()?;
    for address in current
        .iter()
        .filter(|address| !addresses.contains(address))
    {
        let message = build_address_message(interface_index, *address);
        socket.request(libc::RTM_DELADDR, 0, &message, |_| Ok(()))?;
    }
    for address in addresses
        .iter()
        .filter(|address| !current.contains(address))
    {
        let message = build_address_message(interface_index, *address);
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        socket.request(libc::RTM_NEWADDR, flags, &message, |_| Ok(()))?;
    }
    Ok(())
}

/// Returns the address family for netlink messages.
pub fn address_family(ip: IpAddr) -> AddressFamily {
    if ip.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    }
}

fn build_address_message(interface: u32, address: InterfaceAddress) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = address_family(address.ip);
    message.header.prefix_len = address.prefix;
    message.header.index = interface;
    // Without duplicate address detection, the address is usable at once.
    message.header.flags = AddressHeaderFlags::Nodad;
    message.attributes = vec![
        AddressAttribute::Local(address.ip),
        AddressAttribute::Address(address.ip),
    ];
    message
}

fn parse_address_message(message: &AddressMessage) -> Option<InterfaceAddress> {
    let (mut local, mut peer) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => peer = Some(*ip),
            _ => {}
        }
    }
    // IPv6 has IFA_ADDRESS only. On a point-to-point link of IPv4, IFA_ADDRESS is the peer's address.
    Some(InterfaceAddress {
        ip: local.or(peer)?,
        prefix: message.header.prefix_len,
    })
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
        let current = read_addresses(1).expect("rtnetlink");
        assert!(
            current.is_empty() || current.contains(&address),
            "{current:?}"
        );
    }
}
