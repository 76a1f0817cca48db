//! Permanent neighbour entries, which need no address resolution (rtnetlink(7), include/uapi/linux/neighbour.h).

use std::net::IpAddr;

use serde::Deserialize;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};

use super::addresses::address_family;
use vnetbench_interfaces::interface::parse_mac;
use vnetbench_interfaces::netlink::NetlinkSocket;
use vnetbench_system::error::{RequestError, Result};

/// The IP address and MAC address of a neighbour.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    address: IpAddr,
    mac: String,
}

/// Adds a permanent entry, or replaces the entry of this address. Keeps all other entries.
pub fn add_permanent_neighbour(interface: u32, neighbour: &Neighbour) -> Result<()> {
    let Neighbour { address, mac } = neighbour;
    let mac = parse_mac(mac)
        .ok_or_else(|| RequestError::BadParameter(format!("\"{mac}\" is not a MAC address")))?;
    let mut message = NeighbourMessage::default();
    message.header.family = address_family(*address);
    message.header.ifindex = interface;
    message.header.state = NeighbourState::Permanent;
    message.attributes = vec![
        NeighbourAttribute::Destination((*address).into()),
        NeighbourAttribute::LinkLayerAddress(mac.into()),
    ];
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    NetlinkSocket::open_route()
        .and_then(|mut socket| socket.request(libc::RTM_NEWNEIGH, flags, &message, |_| Ok(())))
        .map_err(|error| RequestError::system(format!("add the neighbour {address}"), error))?;
    Ok(())
}
