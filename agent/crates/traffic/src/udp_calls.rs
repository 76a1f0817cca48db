//! Sends and receives many datagrams per call, with `sendmmsg` and `recvmmsg`.
//!
//! Supports the kernel's segmentation (UDP_SEGMENT) and aggregation (UDP_GRO); see udp(7) and include/uapi/linux/udp.h.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::send::make_message;
use vnetbench_streams::datagram_header::{DatagramHeader, HEADER_BYTES, MAX_DATAGRAM_BYTES};

/// Maximum number of messages per call.
const MAX_MESSAGES_PER_CALL: usize = 64;
/// Maximum bytes that one call sends. More would not stay in the processor's cache.
const MAX_SEND_BATCH_BYTES: usize = 256 << 10;
/// Maximum number of datagrams that the kernel cuts one message into (UDP_MAX_SEGMENTS).
const MAX_GSO_SEGMENTS: usize = 128;
/// UDP_MAX_SEGMENTS of kernels before 6.9.
const OLD_KERNEL_GSO_SEGMENTS: usize = 64;
/// Maximum number of messages per call with aggregation.
const MAX_AGGREGATES_PER_CALL: usize = 16;
/// Maximum size of an aggregate.
const MAX_AGGREGATE_BYTES: usize = 64 << 10;

/// The memory of datagrams to send, which are consecutive in it. It stays on the thread that created it.
pub(crate) struct SendBatch {
    bytes: Vec<u8>,
    datagram_bytes: usize,
    /// Datagrams per message.
    segments: usize,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl SendBatch {
    /// Creates a batch; `uses_udp_gso` if the socket has UDP_SEGMENT.
    pub fn new(datagram_bytes: usize, uses_udp_gso: bool) -> Self {
        let segments = if uses_udp_gso {
            (MAX_DATAGRAM_BYTES / datagram_bytes).clamp(1, MAX_GSO_SEGMENTS)
        } else {
            1
        };
        let message_bytes = segments * datagram_bytes;
        let messages = (MAX_SEND_BATCH_BYTES / message_bytes).clamp(1, MAX_MESSAGES_PER_CALL);
        let bytes = make_message(messages * message_bytes).to_vec();
        let messages = messages * segments.div_ceil(OLD_KERNEL_GSO_SEGMENTS);
        // SAFETY: an all-zero `mmsghdr` is valid: null pointers with lengths of 0.
        let headers = vec![unsafe { std::mem::zeroed() }; messages];
        Self {
            bytes,
            datagram_bytes,
            segments,
            iovecs: Vec::with_capacity(messages),
            headers,
        }
    }

    /// Returns the size of a datagram.
    pub fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    /// Returns the maximum number of datagrams per call.
    pub fn max_datagrams(&self) -> usize {
        self.bytes.len() / self.datagram_bytes
    }

    /// Sends up to `count` datagrams, numbered from that of the first header; returns how many the kernel accepted.
    ///
    /// # Errors
    ///
    /// The kernel accepted none.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        first: DatagramHeader,
        count: usize,
    ) -> io::Result<usize> {
        let count = count.min(self.max_datagrams());
        let used = &mut self.bytes[..count * self.datagram_bytes];
        for (datagram, number) in used
            .chunks_exact_mut(self.datagram_bytes)
            .zip(first.number..)
        {
            DatagramHeader { number, ..first }.write(datagram);
        }
        match self.send_first_datagrams(socket, count) {
            // An older kernel refuses the whole message before it sends anything (udp_sendmsg).
            Err(error)
                if error.raw_os_error() == Some(libc::EINVAL)
                    && self.segments > OLD_KERNEL_GSO_SEGMENTS =>
            {
                self.segments = OLD_KERNEL_GSO_SEGMENTS;
                self.send_first_datagrams(socket, count)
            }
            result => result,
        }
    }

    /// Sends the first `count` datagrams of the memory.
    fn send_first_datagrams(&mut self, socket: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
        let used = &mut self.bytes[..count * self.datagram_bytes];
        self.iovecs.clear();
        for message in used.chunks_mut(self.segments * self.datagram_bytes) {
            self.iovecs.push(libc::iovec {
                iov_base: message.as_mut_ptr().cast(),
                iov_len: message.len(),
            });
        }
        for (header, iovec) in self.headers.iter_mut().zip(&mut self.iovecs) {
            header.msg_hdr.msg_iov = &raw mut *iovec;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: each of the first `iovecs.len()` headers points to an iovec, which points into `bytes`. All outlive
        // the call, and nothing else uses them during it.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.iovecs.len() as u32,
                libc::MSG_NOSIGNAL,
            )
        };
        match usize::try_from(sent) {
            Ok(messages) => Ok((messages * self.segments).min(count)),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

/// Space for the control messages of one message: a timestamp, and the segment size of an aggregate.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct ControlMessageBuffer([u8; 64]);

/// The memory of received datagrams. It stays on the thread that created it.
///
/// Without aggregation, the kernel copies only the headers to it.
pub(crate) struct ReceiveBatch {
    bytes: Vec<u8>,
    message_bytes: usize,
    iovecs: Vec<libc::iovec>,
    controls: Vec<ControlMessageBuffer>,
    headers: Vec<libc::mmsghdr>,
}

/// A received message.
pub(crate) struct ReceivedMessage<'a> {
    /// All bytes of an aggregate; otherwise, the header.
    bytes: &'a [u8],
    /// Full length of the message.
    length: usize,
    /// Size of its datagrams; the last can be smaller.
    segment_bytes: usize,
    /// Time of reception by the kernel: CLOCK_REALTIME in nanoseconds.
    pub received_at_nanos: Option<u64>,
}

/// Consecutive datagrams of one send call that arrived in sequence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConsecutiveDatagrams {
    /// Header of the first datagram; `None` if the datagram is too short.
    ///
    /// The headers of the others differ only by their consecutive numbers.
    pub first: Option<DatagramHeader>,
    /// Number of datagrams.
    pub datagrams: u64,
    /// Size of each datagram.
    pub length: usize,
}

impl ReceivedMessage<'_> {
    /// Returns the datagrams as runs of maximum length.
    pub fn runs(&self) -> impl Iterator<Item = ConsecutiveDatagrams> {
        let step = self.segment_bytes.max(1);
        let mut starts = (0..self.length.max(1)).step_by(step).peekable();
        std::iter::from_fn(move || {
            let start = starts.next()?;
            let length = step.min(self.length - start);
            let first = self.bytes.get(start..).and_then(DatagramHeader::read);
            let mut datagrams = 1;
            if let Some(first) = first {
                let continues = |start: usize, datagrams| {
                    let bytes = self.bytes.get(start..start + length);
                    bytes.is_some_and(|bytes| first.is_followed_by(bytes, datagrams))
                };
                while starts
                    .next_if(|start| continues(*start, datagrams))
                    .is_some()
                {
                    datagrams += 1;
                }
            }
            Some(ConsecutiveDatagrams {
                first,
                datagrams,
                length,
            })
        })
    }
}

impl ReceiveBatch {
    /// Creates a batch; `uses_udp_gro` if the socket has UDP_GRO.
    pub fn new(uses_udp_gro: bool) -> Self {
        let (messages, message_bytes) = if uses_udp_gro {
            (MAX_AGGREGATES_PER_CALL, MAX_AGGREGATE_BYTES)
        } else {
            (MAX_MESSAGES_PER_CALL, HEADER_BYTES)
        };
        let mut bytes = vec![0; messages * message_bytes];
        let mut iovecs: Vec<libc::iovec> = bytes
            .chunks_exact_mut(message_bytes)
            .map(|buffer: &mut [u8]| libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: message_bytes,
            })
            .collect();
        let mut controls = vec![ControlMessageBuffer([0; 64]); messages];
        // SAFETY: an all-zero `mmsghdr` is valid: null pointers with lengths of 0.
        let mut headers: Vec<libc::mmsghdr> = vec![unsafe { std::mem::zeroed() }; messages];
        for ((header, iovec), control) in headers.iter_mut().zip(&mut iovecs).zip(&mut controls) {
            header.msg_hdr.msg_iov = &raw mut *iovec;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = (&raw mut control.0).cast();
        }
        Self {
            bytes,
            message_bytes,
            iovecs,
            controls,
            headers,
        }
    }

    /// Waits for messages up to the socket's time limit, and receives the available ones.
    ///
    /// # Errors
    ///
    /// The call fails, with `EAGAIN` at the time limit.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
    ) -> io::Result<impl ExactSizeIterator<Item = ReceivedMessage<'_>>> {
        debug_assert_eq!(self.iovecs.len(), self.controls.len());
        for header in &mut self.headers {
            header.msg_hdr.msg_controllen = size_of::<ControlMessageBuffer>() as _;
        }
        // SAFETY: every header points to its own part of `bytes` and its own element of `controls`. These vectors have
        // not grown or moved their memory since their creation, outlive the call, and nothing else uses them during it.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as u32,
                libc::MSG_WAITFORONE | libc::MSG_TRUNC,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        let buffers = self.bytes.chunks_exact(self.message_bytes);
        Ok(self.headers[..count].iter().zip(buffers).map(parse_message))
    }
}

/// Returns the message of a header and its buffer, with its control messages.
fn parse_message<'a>((header, buffer): (&libc::mmsghdr, &'a [u8])) -> ReceivedMessage<'a> {
    let length = header.msg_len as usize;
    let mut message = ReceivedMessage {
        bytes: &buffer[..length.min(buffer.len())],
        length,
        segment_bytes: length,
        received_at_nanos: None,
    };
    // SAFETY: the kernel filled in the header, and the `ControlMessageBuffer` with its control messages still exists.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(&raw const header.msg_hdr) };
    while !control.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return a header within the control buffer, or null. The kernel writes
        // these two messages with data of these two types.
        unsafe {
            let data = libc::CMSG_DATA(control);
            match ((*control).cmsg_level, (*control).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time = data.cast::<libc::timespec>().read_unaligned();
                    let nanos = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                    message.received_at_nanos = Some(nanos);
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let bytes = data.cast::<i32>().read_unaligned();
                    message.segment_bytes = usize::try_from(bytes).unwrap_or(length);
                }
                _ => {}
            }
            control = libc::CMSG_NXTHDR(&raw const header.msg_hdr, control);
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: DatagramHeader = DatagramHeader {
        key: 7,
        number: 100,
        sent_nanos: 5,
    };

    fn aggregate_runs(
        headers: &[DatagramHeader],
        length: usize,
        segment_bytes: usize,
    ) -> Vec<ConsecutiveDatagrams> {
        let mut bytes = vec![0; length];
        for (datagram, header) in bytes.chunks_mut(segment_bytes).zip(headers) {
            header.write(datagram);
        }
        let message = ReceivedMessage {
            bytes: &bytes,
            length,
            segment_bytes,
            received_at_nanos: None,
        };
        message.runs().collect()
    }

    fn make_run(first: DatagramHeader, datagrams: u64, length: usize) -> ConsecutiveDatagrams {
        ConsecutiveDatagrams {
            first: Some(first),
            datagrams,
            length,
        }
    }

    fn header_numbered(number: u64) -> DatagramHeader {
        DatagramHeader { number, ..FIRST }
    }

    #[test]
    fn datagrams_of_one_call_form_one_run() {
        let headers = [100, 101, 102].map(header_numbered);
        assert_eq!(aggregate_runs(&headers, 192, 64), [make_run(FIRST, 3, 64)]);
    }

    #[test]
    fn a_run_ends_at_a_gap_a_new_call_or_a_new_length() {
        let gap = [100, 102].map(header_numbered);
        let runs = [
            make_run(FIRST, 1, 64),
            make_run(header_numbered(102), 1, 64),
        ];
        assert_eq!(aggregate_runs(&gap, 128, 64), runs);
        let next_call = DatagramHeader {
            sent_nanos: 6,
            ..header_numbered(101)
        };
        let runs = [make_run(FIRST, 1, 64), make_run(next_call, 1, 64)];
        assert_eq!(aggregate_runs(&[FIRST, next_call], 128, 64), runs);
        let runs = [
            make_run(FIRST, 1, 64),
            make_run(header_numbered(101), 1, 32),
        ];
        assert_eq!(aggregate_runs(&[FIRST, header_numbered(101)], 96, 64), runs);
    }

    #[test]
    fn numbers_do_not_wrap_and_a_datagram_without_header_is_its_own_run() {
        let wrapped = [u64::MAX, 0].map(header_numbered);
        assert_eq!(aggregate_runs(&wrapped, 128, 64).len(), 2);
        let short = aggregate_runs(&[FIRST], 64 + 17, 64);
        assert_eq!((short[1].first, short[1].length), (None, 17));
    }
}
