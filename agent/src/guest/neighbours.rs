//! Permanent neighbour entries, which need no address resolution (rtnetlink(7), include/uapi/linux/neighbour.h).

use std::net::IpAddr;

use serde::Deserialize;

use super::addresses::{address_family, address_octets};
use vnetbench_interfaces::interface::mac_bytes;
use vnetbench_interfaces::netlink::{self, Message, NLM_F_CREATE, NLM_F_REPLACE, request};
use vnetbench_system::error::{Error, Result};

const RTM_NEWNEIGH: u16 = 28;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_PERMANENT: u8 = 0x80;

/// The IP address and MAC address of a neighbour.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    address: IpAddr,
    mac: String,
}

/// Adds a permanent entry, or replaces the entry of this address. Keeps all other entries.
pub fn add_permanent(interface: u32, neighbour: &Neighbour) -> Result<()> {
    let Neighbour { address, mac } = neighbour;
    let mac = mac_bytes(mac)
        .ok_or_else(|| Error::BadParameter(format!("\"{mac}\" is not a MAC address")))?;
    let [a, b, c, d] = interface.to_ne_bytes();
    let [low, high] = u16::from(NUD_PERMANENT).to_ne_bytes();
    // `struct ndmsg`: family, three bytes of padding, interface, state, flags, type.
    let head = [
        address_family(*address),
        0,
        0,
        0,
        a,
        b,
        c,
        d,
        low,
        high,
        0,
        0,
    ];
    let message = Message::new(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &head)
        .with(NDA_DST, &address_octets(*address))
        .with(NDA_LLADDR, &mac);
    netlink::open(None)
        .and_then(|socket| request(&socket, &message))
        .map_err(|error| Error::system(format!("add the neighbour {address}"), error))?;
    Ok(())
}
