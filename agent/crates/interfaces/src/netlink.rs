//! Netlink: builds, sends and parses messages with attributes (netlink(7), include/uapi/linux/netlink.h).

use std::io;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// Returns all entries.
pub const NLM_F_DUMP: u16 = 0x300;
/// Sends notifications to the requester too.
pub const NLM_F_ECHO: u16 = 0x08;
/// Replaces an existing entry.
pub const NLM_F_REPLACE: u16 = 0x100;
/// Creates a missing entry.
pub const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x01;
const NLM_F_ACK: u16 = 0x04;
/// `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// `struct nlattr`.
const ATTRIBUTE_BYTES: usize = 4;
/// Maximum size of one answer (NLMSG_GOODSIZE; larger in a dump).
const RECEIVE_BUFFER_BYTES: usize = 64 << 10;

/// A request under construction.
pub struct Message(Vec<u8>);

impl Message {
    /// Creates a message. `head` is the family's header before the attributes.
    pub fn new(kind: u16, flags: u16, head: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        bytes.extend(head);
        Self(bytes).finish()
    }

    /// Appends an attribute.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        let length = (ATTRIBUTE_BYTES + value.len()) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self.finish()
    }

    fn finish(mut self) -> Self {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self
    }
}

/// Opens a netlink socket. `None` is NETLINK_ROUTE, which is protocol 0.
pub fn open(protocol: Option<Protocol>) -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?)
}

/// Sends a request and returns type and body of all answers. Fails with the kernel's error.
pub fn request(socket: &OwnedFd, message: &Message) -> io::Result<Vec<(u16, Vec<u8>)>> {
    send(socket, &message.0, SendFlags::empty())?;
    let mut answers = Vec::new();
    let mut buffer = Vec::with_capacity(RECEIVE_BUFFER_BYTES);
    loop {
        buffer.clear();
        recv(socket, spare_capacity(&mut buffer), RecvFlags::empty())?;
        let mut rest = &buffer[..];
        while let Some((kind, body, after)) = split_next(rest, HEADER_BYTES, message_header) {
            match kind {
                NLMSG_DONE => return Ok(answers),
                NLMSG_ERROR => return check_acknowledgement(body).map(|()| answers),
                _ => answers.push((kind, body.to_vec())),
            }
            rest = after;
        }
    }
}

/// Returns type and value of each attribute.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (kind, value, after) = split_next(bytes, ATTRIBUTE_BYTES, attribute_header)?;
        bytes = after;
        Some((kind, value))
    })
}

/// Checks the body of NLMSG_ERROR: 0, or a negative error number.
fn check_acknowledgement(body: &[u8]) -> io::Result<()> {
    let code = body
        .first_chunk()
        .map_or(-libc::EPROTO, |code| i32::from_ne_bytes(*code));
    if code == 0 {
        return Ok(());
    }
    Err(io::Error::from_raw_os_error(-code))
}

fn message_header(head: &[u8]) -> (usize, u16) {
    let length = u32::from_ne_bytes(head[..4].try_into().expect("four bytes"));
    (length as usize, u16::from_ne_bytes([head[4], head[5]]))
}

fn attribute_header(head: &[u8]) -> (usize, u16) {
    let length = u16::from_ne_bytes([head[0], head[1]]);
    (length.into(), u16::from_ne_bytes([head[2], head[3]]))
}

/// Splits off the first of several entries aligned to four bytes. Returns its type, its body and the remaining bytes.
fn split_next(
    bytes: &[u8],
    head_bytes: usize,
    read_head: fn(&[u8]) -> (usize, u16),
) -> Option<(u16, &[u8], &[u8])> {
    let (length, kind) = read_head(bytes.get(..head_bytes)?);
    let body = bytes.get(head_bytes..length)?;
    let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_any_length_can_be_parsed_again() {
        let message = Message::new(20, 0, &[1, 2, 3, 4])
            .with(7, b"odd")
            .with(8, b"even");
        let (kind, body, rest) =
            split_next(&message.0, HEADER_BYTES, message_header).expect("whole");
        assert_eq!((kind, rest.len()), (20, 0));
        let parsed: Vec<_> = attributes(&body[4..]).collect();
        assert_eq!(parsed, [(7, &b"odd"[..]), (8, &b"even"[..])]);
    }

    #[test]
    fn a_truncated_message_is_rejected() {
        let message = Message::new(20, 0, &[]).with(1, &[0; 16]);
        for length in 0..message.0.len() {
            assert!(split_next(&message.0[..length], HEADER_BYTES, message_header).is_none());
        }
    }
}
