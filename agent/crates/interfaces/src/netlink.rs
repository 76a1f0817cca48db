//! Netlink: sends a request to the kernel and reads its replies (netlink(7), include/uapi/linux/netlink.h). The crates
//! `netlink-packet-*` build and parse the messages.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use netlink_packet_core::{
    DecodeError, Emitable, NLA_HEADER_SIZE, NLM_F_ACK, NLM_F_REQUEST, NLMSG_ALIGNTO, NLMSG_DONE,
    NLMSG_ERROR, NLMSG_NOOP, NetlinkBuffer, NetlinkHeader, NlasIterator, Parseable,
};
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{
    Timeout, set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, set_socket_timeout,
};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// Size of the buffer. The kernel puts at most 32 KiB into a datagram of a dump (`netlink_recvmsg`,
/// net/netlink/af_netlink.c).
const RECEIVE_BUFFER_BYTES: usize = 64 << 10;

/// Size of the socket's own buffer (SO_RCVBUF). It holds a reply and the acknowledgement that follows. With the system's
/// default (net.core.rmem_default), which may be smaller than one reply, the kernel would drop the acknowledgement.
const SOCKET_BUFFER_BYTES: usize = 256 << 10;
/// Longest wait for a reply. The kernel answers at once, unless it dropped the reply.
const MAX_REPLY_WAIT: Duration = Duration::from_secs(5);

/// A netlink socket in the network namespace of the thread that opens it.
pub struct NetlinkSocket {
    socket: OwnedFd,
    /// The sequence number of the last request. The kernel repeats it in each reply.
    sequence_number: u32,
    buffer: Vec<u8>,
}

impl NetlinkSocket {
    /// Opens a socket of the protocol NETLINK_ROUTE: links, addresses, neighbours and queueing disciplines.
    pub fn open_route() -> io::Result<Self> {
        // NETLINK_ROUTE is protocol 0.
        Self::open(None)
    }

    /// Opens a socket of the protocol NETLINK_NETFILTER.
    pub fn open_netfilter() -> io::Result<Self> {
        Self::open(Some(rustix::net::netlink::NETFILTER))
    }

    /// Opens a socket of the protocol NETLINK_GENERIC.
    pub(crate) fn open_generic() -> io::Result<Self> {
        Self::open(Some(rustix::net::netlink::GENERIC))
    }

    fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
        // Without CAP_NET_ADMIN, net.core.rmem_max limits the size.
        set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER_BYTES)
            .or_else(|_| set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(MAX_REPLY_WAIT))?;
        Ok(Self {
            socket,
            sequence_number: 0,
            buffer: vec![0; RECEIVE_BUFFER_BYTES],
        })
    }

    /// Sends a request and waits until the kernel has completed it. Passes the body of each reply to `on_reply`.
    ///
    /// # Errors
    ///
    /// Fails with the kernel's error, with EMSGSIZE if a reply exceeds the buffer, and with EAGAIN if no reply comes
    /// within MAX_REPLY_WAIT. The next request skips the replies that a failed request leaves in the socket.
    pub fn request(
        &mut self,
        message_type: u16,
        flags: u16,
        message: &impl Emitable,
        mut on_reply: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.send(message_type, flags, message)?;
        while self.receive(&mut on_reply)?.is_continue() {}
        Ok(())
    }

    fn send(&mut self, message_type: u16, flags: u16, message: &impl Emitable) -> io::Result<()> {
        self.sequence_number = self.sequence_number.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        let length = header.buffer_len() + message.buffer_len();
        header.length = length as u32;
        header.message_type = message_type;
        header.flags = flags | NLM_F_REQUEST | NLM_F_ACK;
        header.sequence_number = self.sequence_number;
        let bytes = &mut self.buffer[..length];
        header.emit(bytes);
        message.emit(&mut bytes[header.buffer_len()..]);
        retry_on_intr(|| send(&self.socket, bytes, SendFlags::empty()))?;
        Ok(())
    }

    /// Receives one datagram, which has one or more replies. Breaks after the last reply to the request.
    fn receive(
        &mut self,
        on_reply: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<ControlFlow<()>> {
        let Self { socket, buffer, .. } = self;
        // With MSG_TRUNC, `recv` returns the size of the whole datagram.
        let (_, size) = retry_on_intr(|| recv(&*socket, &mut buffer[..], RecvFlags::TRUNC))?;
        let datagram = self.buffer.get(..size);
        let datagram = datagram.ok_or_else(|| io::Error::from_raw_os_error(libc::EMSGSIZE))?;
        read_replies(datagram, self.sequence_number, on_reply)
    }
}

impl AsFd for NetlinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Passes the replies of a datagram with this sequence number to `on_reply`. Breaks at the end of a dump and at an
/// acknowledgement.
fn read_replies(
    mut datagram: &[u8],
    sequence_number: u32,
    on_reply: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<ControlFlow<()>> {
    while !datagram.is_empty() {
        let message = NetlinkBuffer::new_checked(datagram).map_err(decode_error_to_io)?;
        let header = NetlinkHeader::parse(&message).map_err(decode_error_to_io)?;
        let body = message.payload();
        let aligned_length = (header.length as usize).next_multiple_of(NLMSG_ALIGNTO.into());
        datagram = datagram.get(aligned_length..).unwrap_or_default();
        match header.message_type {
            // A reply to an earlier request that failed before its last reply.
            _ if header.sequence_number != sequence_number => {}
            NLMSG_NOOP => {}
            NLMSG_ERROR | NLMSG_DONE => {
                // 0 or more, or a negative error number. Some kernels end a dump without it.
                let status = body
                    .first_chunk()
                    .map_or(0, |code| i32::from_ne_bytes(*code));
                return if status < 0 {
                    Err(io::Error::from_raw_os_error(-status))
                } else {
                    Ok(ControlFlow::Break(()))
                };
            }
            _ => on_reply(body)?,
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// A request of these bytes: a fixed header, and perhaps attributes.
pub struct RawRequest(pub Vec<u8>);

impl Emitable for RawRequest {
    fn buffer_len(&self) -> usize {
        self.0.len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        buffer[..self.0.len()].copy_from_slice(&self.0);
    }
}

/// Returns the value of the first attribute of this type, without a copy.
pub fn find_attribute(attributes: &[u8], attribute_type: u16) -> Option<&[u8]> {
    let mut all = iterate_attributes(attributes);
    let (_, value) = all.find(|(attribute, _)| *attribute == attribute_type)?;
    Some(value)
}

/// Returns the type and the value of each attribute.
pub fn iterate_attributes(attributes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(attributes)
        .flatten()
        .filter_map(|attribute| {
            let (kind, length) = (attribute.kind(), attribute.length().into());
            Some((kind, attribute.into_inner().get(NLA_HEADER_SIZE..length)?))
        })
}

/// Converts the error of a parser of replies.
pub fn decode_error_to_io(error: DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use netlink_packet_core::{DefaultNla, DoneMessage, NetlinkMessage, NetlinkPayload};
    use netlink_packet_route::RouteNetlinkMessage;
    use netlink_packet_route::link::LinkMessage;

    use super::*;

    /// The index of the loopback in every network namespace.
    const LOOPBACK: u32 = 1;

    /// Sends a request with one reply.
    fn send_link_request(socket: &mut NetlinkSocket, index: u32) {
        let mut link = LinkMessage::default();
        link.header.index = index;
        socket.send(libc::RTM_GETLINK, 0, &link).expect("send");
    }

    /// Returns the indices in the replies to a request.
    fn request_link(socket: &mut NetlinkSocket, index: u32) -> io::Result<Vec<u32>> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        let mut indices = Vec::new();
        socket.request(libc::RTM_GETLINK, 0, &link, |body| {
            let reply = LinkMessage::parse(body).map_err(decode_error_to_io)?;
            indices.push(reply.header.index);
            Ok(())
        })?;
        Ok(indices)
    }

    fn os_error<T>(result: io::Result<T>) -> Option<i32> {
        result.err().and_then(|error| error.raw_os_error())
    }

    #[test]
    fn a_reply_that_does_not_fit_beside_the_acknowledgement_ends_the_wait() {
        let mut socket = NetlinkSocket::open_route().expect("socket");
        let system_default = 2304;
        set_socket_recv_buffer_size(&socket.socket, system_default / 2).expect("smallest buffer");
        let wait = Some(Duration::from_millis(100));
        set_socket_timeout(&socket.socket, Timeout::Recv, wait).expect("timeout");
        // The kernel drops the acknowledgement, and reports it unless the socket is congested already.
        let error = os_error(request_link(&mut socket, LOOPBACK));
        assert!(
            matches!(error, Some(libc::ENOBUFS | libc::EAGAIN)),
            "{error:?}"
        );
        // The buffer of a new socket holds both, whatever the system's default.
        let mut socket = NetlinkSocket::open_route().expect("socket");
        let links = request_link(&mut socket, LOOPBACK).expect("reply and acknowledgement");
        assert_eq!(links, [LOOPBACK]);
    }

    #[test]
    fn the_kernels_error_is_returned() {
        let mut socket = NetlinkSocket::open_route().expect("netlink");
        let absent = request_link(&mut socket, i32::MAX as u32);
        assert_eq!(os_error(absent), Some(libc::ENODEV));
    }

    #[test]
    fn replies_to_an_abandoned_request_are_skipped() {
        let mut socket = NetlinkSocket::open_route().expect("netlink");
        send_link_request(&mut socket, LOOPBACK);
        let absent = request_link(&mut socket, i32::MAX as u32);
        assert_eq!(os_error(absent), Some(libc::ENODEV));
        send_link_request(&mut socket, i32::MAX as u32);
        let loopback = request_link(&mut socket, LOOPBACK);
        assert_eq!(loopback.expect("exists"), [LOOPBACK]);
    }

    #[test]
    fn a_truncated_reply_is_an_error_and_the_next_request_works() {
        let mut socket = NetlinkSocket::open_route().expect("netlink");
        socket.buffer.truncate(64);
        let truncated = request_link(&mut socket, LOOPBACK);
        assert_eq!(os_error(truncated), Some(libc::EMSGSIZE));
        socket.buffer.resize(RECEIVE_BUFFER_BYTES, 0);
        let loopback = request_link(&mut socket, LOOPBACK);
        assert_eq!(loopback.expect("exists"), [LOOPBACK]);
    }

    #[test]
    fn a_signal_does_not_end_the_wait_for_a_reply() {
        extern "C" fn ignore_signal(_: libc::c_int) {}
        let handler = ignore_signal as extern "C" fn(libc::c_int);
        // SAFETY: an all-zero `sigaction` is valid. Without SA_RESTART, a signal ends a system call with EINTR.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as libc::sighandler_t;
        // SAFETY: `action` is valid during the call, and its handler does nothing.
        let status = unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
        assert_eq!(status, 0);

        let mut socket = NetlinkSocket::open_route().expect("netlink");
        let mut sender = NetlinkSocket {
            socket: socket.socket.try_clone().expect("clone"),
            sequence_number: 0,
            buffer: vec![0; RECEIVE_BUFFER_BYTES],
        };
        socket.sequence_number = 1;
        let (thread_sender, thread_receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            let receiver = scope.spawn(move || {
                thread_sender.send(rustix::thread::gettid()).expect("sent");
                while socket.receive(&mut |_| Ok(()))?.is_continue() {}
                io::Result::Ok(())
            });
            let thread = thread_receiver.recv().expect("received").as_raw_pid();
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(5));
                // SAFETY: the call accesses no memory. A thread that has ended gives ESRCH.
                let _ = unsafe {
                    libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1)
                };
            }
            send_link_request(&mut sender, LOOPBACK);
            let received = receiver.join().expect("no panic");
            assert!(received.is_ok(), "{received:?}");
        });
    }

    fn end_of_dump(status: i32) -> Vec<u8> {
        let mut done = DoneMessage::default();
        done.code = status;
        let payload = NetlinkPayload::<RouteNetlinkMessage>::Done(done);
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
        message.header.sequence_number = 7;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }

    #[test]
    fn a_dump_that_fails_later_is_an_error() {
        let read = |status| read_replies(&end_of_dump(status), 7, &mut |_| Ok(()));
        assert_eq!(read(0).ok(), Some(ControlFlow::Break(())));
        assert_eq!(os_error(read(-libc::EOPNOTSUPP)), Some(libc::EOPNOTSUPP));
        let of_other_request = read_replies(&end_of_dump(0), 8, &mut |_| Ok(()));
        assert_eq!(of_other_request.ok(), Some(ControlFlow::Continue(())));
    }

    #[test]
    fn an_incomplete_message_is_rejected() {
        let message = end_of_dump(0);
        for length in 1..message.len() {
            let read = read_replies(&message[..length], 7, &mut |_| Ok(()));
            assert!(read.is_err(), "{length} bytes");
        }
    }

    #[test]
    fn attributes_of_any_length_are_found() {
        let attributes = [
            DefaultNla::new(7, b"odd".to_vec()),
            DefaultNla::new(8, b"even".to_vec()),
        ];
        let mut bytes = vec![0; attributes.as_slice().buffer_len()];
        attributes.as_slice().emit(&mut bytes);
        assert_eq!(find_attribute(&bytes, 7), Some(&b"odd"[..]));
        assert_eq!(find_attribute(&bytes, 8), Some(&b"even"[..]));
        assert_eq!(find_attribute(&bytes, 9), None);
        assert_eq!(find_attribute(&bytes[..bytes.len() - 1], 8), None);
    }
}
