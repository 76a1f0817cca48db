//! Many datagrams in one call: `sendmmsg` and `recvmmsg`, with the kernel's segmentation (UDP_SEGMENT) and aggregation
//! (UDP_GRO) where they are on (udp(7), include/uapi/linux/udp.h).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::send::make_message;
use vnetbench_streams::datagram_header::{DatagramHeader, HEADER_BYTES, MAX_DATAGRAM_BYTES};

/// Messages of one call.
const MAX_MESSAGES: usize = 64;
/// Bytes that one call may send: more would not stay in the processor's cache.
const BATCH_BYTES: usize = 256 << 10;
/// Datagrams that the kernel cuts one message into: UDP_MAX_SEGMENTS, and that of kernels before 6.9.
const MAX_SEGMENTS: usize = 128;
const FALLBACK_SEGMENTS: usize = 64;
/// Messages of one call where each may hold an aggregate of 64 KiB.
const MAX_AGGREGATES: usize = 16;
const AGGREGATE_BYTES: usize = 64 << 10;

/// Datagrams to be sent, one behind the other in memory. It stays with the thread that made it.
pub struct SendBatch {
    bytes: Vec<u8>,
    datagram_bytes: usize,
    /// Datagrams that one message holds.
    segments: usize,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl SendBatch {
    pub fn new(datagram_bytes: usize, segmented: bool) -> Self {
        let segments = if segmented {
            (MAX_DATAGRAM_BYTES / datagram_bytes).clamp(1, MAX_SEGMENTS)
        } else {
            1
        };
        let message_bytes = segments * datagram_bytes;
        let messages = (BATCH_BYTES / message_bytes).clamp(1, MAX_MESSAGES);
        let bytes = make_message(messages * message_bytes).to_vec();
        let messages = messages * segments.div_ceil(FALLBACK_SEGMENTS);
        // SAFETY: all zero is a valid `mmsghdr`: null pointers with lengths of 0.
        let headers = vec![unsafe { std::mem::zeroed() }; messages];
        Self {
            bytes,
            datagram_bytes,
            segments,
            iovecs: Vec::with_capacity(messages),
            headers,
        }
    }

    pub fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    /// Datagrams that one call sends at most.
    pub fn max_datagrams(&self) -> usize {
        self.bytes.len() / self.datagram_bytes
    }

    /// Sends up to `count` datagrams, numbered from the head's number on; returns how many the kernel took.
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
        match self.send_messages(socket, count) {
            // Refused whole, and before anything was sent (udp_sendmsg): an older kernel.
            Err(error)
                if error.raw_os_error() == Some(libc::EINVAL)
                    && self.segments > FALLBACK_SEGMENTS =>
            {
                self.segments = FALLBACK_SEGMENTS;
                self.send_messages(socket, count)
            }
            done => done,
        }
    }

    fn send_messages(&mut self, socket: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
        let used = &mut self.bytes[..count * self.datagram_bytes];
        self.iovecs.clear();
        for piece in used.chunks_mut(self.segments * self.datagram_bytes) {
            self.iovecs.push(libc::iovec {
                iov_base: piece.as_mut_ptr().cast(),
                iov_len: piece.len(),
            });
        }
        for (header, piece) in self.headers.iter_mut().zip(&mut self.iovecs) {
            header.msg_hdr.msg_iov = &raw mut *piece;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first `pieces.len()` headers point each to a piece, and those into `bytes`; all live through the
        // call, and nothing else uses them meanwhile.
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

/// Room for the control messages of one message: a time stamp and the size of an aggregate's segments.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Datagrams that have come. Where they are not aggregated only their heads are copied out of the kernel. It stays with
/// the thread that made it.
pub struct ReceiveBatch {
    bytes: Vec<u8>,
    message_bytes: usize,
    iovecs: Vec<libc::iovec>,
    controls: Vec<Control>,
    headers: Vec<libc::mmsghdr>,
}

/// One message that has come.
pub struct ReceivedMessage<'a> {
    /// Of an aggregate all its bytes, else the head.
    bytes: &'a [u8],
    /// As long as it was sent.
    length: usize,
    segment_bytes: usize,
    /// When the kernel took it in, CLOCK_REALTIME in nanoseconds.
    pub received_at_nanos: Option<u64>,
}

/// Datagrams that came one behind the other and were sent so, in one call.
#[derive(Debug, PartialEq, Eq)]
pub struct DatagramRun {
    /// Of the first; those after it have the next numbers and all else alike. `None` where it is too short for one.
    pub first: Option<DatagramHeader>,
    pub datagrams: u64,
    /// Of each.
    pub length: usize,
}

impl ReceivedMessage<'_> {
    /// All its datagrams, in runs as long as can be.
    pub fn runs(&self) -> impl Iterator<Item = DatagramRun> {
        let step = self.segment_bytes.max(1);
        let mut starts = (0..self.length.max(1)).step_by(step).peekable();
        std::iter::from_fn(move || {
            let start = starts.next()?;
            let length = step.min(self.length - start);
            let first = self.bytes.get(start..).and_then(DatagramHeader::read);
            let mut datagrams = 1;
            if let Some(first) = first {
                let goes_on = |start: usize, datagrams| {
                    let bytes = self.bytes.get(start..start + length);
                    bytes.is_some_and(|bytes| first.is_followed_by(bytes, datagrams))
                };
                while starts.next_if(|start| goes_on(*start, datagrams)).is_some() {
                    datagrams += 1;
                }
            }
            Some(DatagramRun {
                first,
                datagrams,
                length,
            })
        })
    }
}

impl ReceiveBatch {
    pub fn new(aggregated: bool) -> Self {
        let (messages, message_bytes) = if aggregated {
            (MAX_AGGREGATES, AGGREGATE_BYTES)
        } else {
            (MAX_MESSAGES, HEADER_BYTES)
        };
        let mut bytes = vec![0; messages * message_bytes];
        let mut iovecs: Vec<libc::iovec> = bytes
            .chunks_exact_mut(message_bytes)
            .map(|piece: &mut [u8]| libc::iovec {
                iov_base: piece.as_mut_ptr().cast(),
                iov_len: message_bytes,
            })
            .collect();
        let mut controls = vec![Control([0; 64]); messages];
        // SAFETY: all zero is a valid `mmsghdr`: null pointers with lengths of 0.
        let mut headers: Vec<libc::mmsghdr> = vec![unsafe { std::mem::zeroed() }; messages];
        for ((header, piece), control) in headers.iter_mut().zip(&mut iovecs).zip(&mut controls) {
            header.msg_hdr.msg_iov = &raw mut *piece;
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

    /// Waits for messages, as long as the socket's calls wait, and takes those that are there.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
    ) -> io::Result<impl ExactSizeIterator<Item = ReceivedMessage<'_>>> {
        debug_assert_eq!(self.iovecs.len(), self.controls.len());
        for header in &mut self.headers {
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: every header points to its own piece of `bytes` and its own of `controls`, vectors that have not been
        // moved or grown since they were made; all live through the call, and nothing else uses them meanwhile.
        let came = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as u32,
                libc::MSG_WAITFORONE | libc::MSG_TRUNC,
                std::ptr::null_mut(),
            )
        };
        let came = usize::try_from(came).map_err(|_| io::Error::last_os_error())?;
        let pieces = self.bytes.chunks_exact(self.message_bytes);
        Ok(self.headers[..came].iter().zip(pieces).map(parse_message))
    }
}

fn parse_message<'a>((header, piece): (&libc::mmsghdr, &'a [u8])) -> ReceivedMessage<'a> {
    let length = header.msg_len as usize;
    let mut message = ReceivedMessage {
        bytes: &piece[..length.min(piece.len())],
        length,
        segment_bytes: length,
        received_at_nanos: None,
    };
    // SAFETY: the kernel has filled in the header, whose control messages lie in a `Control` that is still there.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(&raw const header.msg_hdr) };
    while !control.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return what lies wholly within the control buffer, or null; the kernel
        // writes these two kinds with data of these two types.
        unsafe {
            let data = libc::CMSG_DATA(control);
            match ((*control).cmsg_level, (*control).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let at = data.cast::<libc::timespec>().read_unaligned();
                    let nanos = at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64;
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

    fn aggregate(
        heads: &[DatagramHeader],
        length: usize,
        segment_bytes: usize,
    ) -> Vec<DatagramRun> {
        let mut bytes = vec![0; length];
        for (datagram, head) in bytes.chunks_mut(segment_bytes).zip(heads) {
            head.write(datagram);
        }
        let message = ReceivedMessage {
            bytes: &bytes,
            length,
            segment_bytes,
            received_at_nanos: None,
        };
        message.runs().collect()
    }

    fn run(first: DatagramHeader, datagrams: u64, length: usize) -> DatagramRun {
        DatagramRun {
            first: Some(first),
            datagrams,
            length,
        }
    }

    fn numbered(number: u64) -> DatagramHeader {
        DatagramHeader { number, ..FIRST }
    }

    #[test]
    fn what_was_sent_in_one_call_is_one_run() {
        let heads = [100, 101, 102].map(numbered);
        assert_eq!(aggregate(&heads, 192, 64), [run(FIRST, 3, 64)]);
    }

    #[test]
    fn a_run_ends_at_a_gap_at_another_call_and_at_another_length() {
        let gap = [100, 102].map(numbered);
        let parted = [run(FIRST, 1, 64), run(numbered(102), 1, 64)];
        assert_eq!(aggregate(&gap, 128, 64), parted);
        let later = DatagramHeader {
            sent_nanos: 6,
            ..numbered(101)
        };
        let parted = [run(FIRST, 1, 64), run(later, 1, 64)];
        assert_eq!(aggregate(&[FIRST, later], 128, 64), parted);
        let parted = [run(FIRST, 1, 64), run(numbered(101), 1, 32)];
        assert_eq!(aggregate(&[FIRST, numbered(101)], 96, 64), parted);
    }

    #[test]
    fn a_number_never_wraps_and_what_has_no_head_is_a_run_of_its_own() {
        let last = [u64::MAX, 0].map(numbered);
        assert_eq!(aggregate(&last, 128, 64).len(), 2);
        let short = aggregate(&[FIRST], 64 + 17, 64);
        assert_eq!((short[1].first, short[1].length), (None, 17));
    }
}
