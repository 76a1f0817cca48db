//! The generic netlink family `netdev`: queues and NAPI instances of an interface (include/uapi/linux/netdev.h;
//! Documentation/netlink/specs/netdev.yaml).

use std::io;

use netlink_packet_core::{DefaultNla, Emitable, NLM_F_DUMP};

use crate::interface::Interface;
use crate::netlink::{NetlinkSocket, find_attribute};

/// `struct genlmsghdr`, before the attributes.
const GENERIC_HEADER_BYTES: usize = 4;
/// The attribute with the interface index, equal in all requests.
const IFINDEX_ATTRIBUTE: u16 = 1;

/// The body of a generic netlink request.
struct GenericRequest {
    command: u8,
    attributes: Vec<DefaultNla>,
}

impl Emitable for GenericRequest {
    fn buffer_len(&self) -> usize {
        GENERIC_HEADER_BYTES + self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        let (header, attributes) = buffer.split_at_mut(GENERIC_HEADER_BYTES);
        // Command, version, and two reserved bytes.
        header.copy_from_slice(&[self.command, 1, 0, 0]);
        self.attributes.as_slice().emit(attributes);
    }
}

/// The attributes of one entry of a reply, such as a queue.
pub struct NetdevReplyEntry(Vec<u8>);

impl NetdevReplyEntry {
    /// Creates a reply with these attributes, for tests.
    pub fn from_attributes_for_tests(attributes: &[DefaultNla]) -> Self {
        let mut bytes = vec![0; attributes.buffer_len()];
        attributes.emit(&mut bytes);
        Self(bytes)
    }

    /// Returns a 32-bit attribute.
    pub fn find_u32(&self, attribute_type: u16) -> Option<u32> {
        let value = find_attribute(&self.0, attribute_type)?;
        Some(u32::from_ne_bytes(*value.first_chunk()?))
    }

    /// Returns an attribute of 32 or 64 bits (NLA_UINT).
    pub fn find_u32_or_u64(&self, attribute_type: u16) -> Option<u64> {
        let value = find_attribute(&self.0, attribute_type)?;
        match value.first_chunk() {
            Some(long) => Some(u64::from_ne_bytes(*long)),
            None => self.find_u32(attribute_type).map(u64::from),
        }
    }
}

/// Sends a request for one interface, with additional attributes, and returns all entries of the reply. Fails with
/// ENOENT if the kernel lacks the family.
pub fn request_netdev(
    interface: &Interface,
    command: u8,
    mut attributes: Vec<DefaultNla>,
) -> io::Result<Vec<NetdevReplyEntry>> {
    attributes.push(u32_attribute(IFINDEX_ATTRIBUTE, interface.index()?));
    let request = GenericRequest {
        command,
        attributes,
    };
    let mut socket = NetlinkSocket::open_generic()?;
    let mut replies = Vec::new();
    let family_id = resolve_netdev(&mut socket)?;
    socket.request(family_id, NLM_F_DUMP, &request, |body| {
        replies.push(NetdevReplyEntry(
            body.get(GENERIC_HEADER_BYTES..).unwrap_or_default().into(),
        ));
        Ok(())
    })?;
    Ok(replies)
}

/// Creates an attribute of 32 bits.
pub fn u32_attribute(attribute_type: u16, value: u32) -> DefaultNla {
    DefaultNla::new(attribute_type, value.to_ne_bytes().into())
}

/// Returns the number that the kernel gave the family `netdev`.
fn resolve_netdev(socket: &mut NetlinkSocket) -> io::Result<u16> {
    let name = DefaultNla::new(libc::CTRL_ATTR_FAMILY_NAME as u16, b"netdev\0".into());
    let request = GenericRequest {
        command: libc::CTRL_CMD_GETFAMILY as u8,
        attributes: vec![name],
    };
    let mut family_id = None;
    socket.request(libc::GENL_ID_CTRL as u16, 0, &request, |body| {
        let attributes = body.get(GENERIC_HEADER_BYTES..).unwrap_or_default();
        let id = find_attribute(attributes, libc::CTRL_ATTR_FAMILY_ID as u16);
        family_id = id.and_then(|id| Some(u16::from_ne_bytes(*id.first_chunk()?)));
        Ok(())
    })?;
    family_id.ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))
}
