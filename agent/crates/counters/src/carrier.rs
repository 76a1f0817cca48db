//! How often the link of an interface came and went (IFLA_CARRIER_CHANGES, include/uapi/linux/if_link.h).

use rustix::net::netdevice::name_to_index;

use crate::packet_taps::make_link_request;
use crate::reading::{CounterValue, Counters};
use vnetbench_interfaces::netlink::{NetlinkSocket, find_attribute};

/// `struct ifinfomsg`.
const LINK_HEADER_BYTES: usize = 16;
const IFLA_CARRIER_CHANGES: u16 = 35;

/// Reads how often the carrier of an interface has changed, by the interface's index.
pub fn read_carrier_changes(socket: &mut NetlinkSocket, index: u32) -> Option<u64> {
    let mut changes = None;
    let request = make_link_request(index);
    let result = socket.request(libc::RTM_GETLINK, 0, &request, |body| {
        let attributes = body.get(LINK_HEADER_BYTES..).unwrap_or_default();
        let value = find_attribute(attributes, IFLA_CARRIER_CHANGES);
        changes = value.and_then(|value| Some(u32::from_ne_bytes(*value.first_chunk()?)));
        Ok(())
    });
    result.ok().and(changes).map(u64::from)
}

/// Reads the changes of the endpoint's own interface as a counter.
pub struct OwnInterfaceCarrierChanges {
    socket: NetlinkSocket,
    index: u32,
}

impl OwnInterfaceCarrierChanges {
    pub fn open(interface: &str) -> Option<Self> {
        let socket = NetlinkSocket::open_route().ok()?;
        let index = name_to_index(&socket, interface).ok()?;
        Some(Self { socket, index })
    }

    /// Appends the counter, if the interface still exists.
    pub fn read(&mut self, to: &mut Counters) {
        if let Some(changes) = read_carrier_changes(&mut self.socket, self.index) {
            to.push("carrier_changes", CounterValue::Count(changes));
        }
    }
}
