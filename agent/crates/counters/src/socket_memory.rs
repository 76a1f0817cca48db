//! The memory of a socket, and what it has dropped because that was full: `SO_MEMINFO` (include/uapi/linux/sock_diag.h).

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::wrap::Unwrapped;

/// SK_MEMINFO_VARS.
const VALUES: usize = 9;

/// What the kernel accounts for: buffers with all that it needs to keep them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Taken by what waits to be read.
    pub rmem_bytes: u32,
    pub rcvbuf_bytes: u32,
    pub sndbuf_bytes: u32,
    /// Taken by what is not sent, or not acknowledged.
    pub wmem_queued_bytes: u32,
    /// Since the socket was made, modulo 2^32.
    drops: u32,
}

/// Reads the drops of one socket again and again.
#[derive(Default)]
pub struct DropMeter(Unwrapped);

impl DropMeter {
    /// Since the first reading; none where the kernel does not say. An aggregate of datagrams (UDP_GRO) counts once.
    pub fn read(&mut self, memory: Option<&Memory>) -> u64 {
        match memory {
            Some(memory) => self.0.update(memory.drops),
            None => self.0.total(),
        }
    }
}

pub fn of(socket: BorrowedFd<'_>) -> Option<Memory> {
    let mut values = [0u32; VALUES];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: `values` is valid for writes of `length` bytes, and the kernel writes no more than `length`.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            (&raw mut values).cast(),
            &mut length,
        )
    };
    if status != 0 || length as usize != size_of_val(&values) {
        return None;
    }
    let [
        rmem_bytes,
        rcvbuf_bytes,
        _wmem,
        sndbuf_bytes,
        _forward,
        wmem_queued_bytes,
        _options,
        _backlog,
        drops,
    ] = values;
    Some(Memory {
        rmem_bytes,
        rcvbuf_bytes,
        sndbuf_bytes,
        wmem_queued_bytes,
        drops,
    })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_waits_and_what_found_no_room_is_told() {
        let sink = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let source = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let to = sink.local_addr().expect("bound");
        let before = of(sink.as_fd()).expect("the kernel says");
        assert_eq!((before.rmem_bytes, before.drops), (0, 0));
        assert!(before.rcvbuf_bytes > 0 && before.sndbuf_bytes > 0);
        let mut meter = DropMeter::default();
        assert_eq!(meter.read(Some(&before)), 0);
        let mut now = before;
        for _ in 0..before.rcvbuf_bytes {
            source.send_to(&[0; 1000], to).expect("sent");
            now = of(sink.as_fd()).expect("the kernel says");
            if now.drops > 0 {
                break;
            }
        }
        assert!(meter.read(Some(&now)) > 0);
        assert!(now.rmem_bytes > before.rcvbuf_bytes / 2, "{now:?}");
    }
}
