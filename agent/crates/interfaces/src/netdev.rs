//! The generic netlink family `netdev`: queues and NAPI instances of an interface (include/uapi/linux/netdev.h;
//! Documentation/netlink/specs/netdev.yaml).

use std::io;

use crate::interface::Interface;
use crate::netlink::{self, Message, NLM_F_DUMP, attributes, request};

// include/uapi/linux/genetlink.h
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// `struct genlmsghdr`.
const HEADER_BYTES: usize = 4;
/// The attribute with the interface index, equal in all requests.
const IFINDEX: u16 = 1;

/// One entry of an answer, such as a queue.
pub struct NetdevReply(Vec<u8>);

impl NetdevReply {
    /// Creates an answer with these attributes, for tests.
    pub fn from_attributes(attributes: &[(u16, &[u8])]) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        for (kind, value) in attributes {
            bytes.extend((4 + value.len() as u16).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(*value);
        }
        Self(bytes)
    }

    /// Returns a 32-bit attribute.
    pub fn u32(&self, attribute: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.value(attribute)?.first_chunk()?))
    }

    /// Returns an attribute of 32 or 64 bits (NLA_UINT).
    pub fn uint(&self, attribute: u16) -> Option<u64> {
        let value = self.value(attribute)?;
        match value.first_chunk() {
            Some(long) => Some(u64::from_ne_bytes(*long)),
            None => self.u32(attribute).map(u64::from),
        }
    }

    fn value(&self, wanted: u16) -> Option<&[u8]> {
        attributes(self.0.get(HEADER_BYTES..)?)
            .find(|(kind, _)| *kind == wanted)
            .map(|(_, value)| value)
    }
}

/// Sends a request for one interface, with additional attributes, and returns all answers.
pub fn request_netdev(
    interface: &Interface,
    command: u8,
    attributes: &[(u16, u32)],
) -> io::Result<Vec<NetdevReply>> {
    let socket = netlink::open(Some(rustix::net::netlink::GENERIC))?;
    let generic_header = |command| [command, 1, 0, 0];
    let family_request = Message::new(GENL_ID_CTRL, 0, &generic_header(CTRL_CMD_GETFAMILY))
        .with(CTRL_ATTR_FAMILY_NAME, b"netdev\0");
    let (_, family) = request(&socket, &family_request)?
        .pop()
        .ok_or_else(unknown_family)?;
    let family = NetdevReply(family);
    let id = family
        .value(CTRL_ATTR_FAMILY_ID)
        .ok_or_else(unknown_family)?;
    let id = u16::from_ne_bytes(*id.first_chunk().ok_or_else(unknown_family)?);
    let mut dump_request = Message::new(id, NLM_F_DUMP, &generic_header(command))
        .with(IFINDEX, &interface.index()?.to_ne_bytes());
    for (attribute, value) in attributes {
        dump_request = dump_request.with(*attribute, &value.to_ne_bytes());
    }
    let answers = request(&socket, &dump_request)?;
    Ok(answers
        .into_iter()
        .map(|(_, body)| NetdevReply(body))
        .collect())
}

fn unknown_family() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}
