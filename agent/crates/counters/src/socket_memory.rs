//! Memory of a socket, and its drops for lack of memory: `SO_MEMINFO` (include/uapi/linux/sock_diag.h).

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::unwrapped_counter::UnwrappedCounter;

/// SK_MEMINFO_VARS.
const MEMINFO_VALUE_COUNT: usize = 9;

/// Memory that the kernel accounts to a socket, with its overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketMemory {
    /// Memory of data that waits to be read.
    pub rmem_bytes: u32,
    /// Size of the receive buffer.
    pub rcvbuf_bytes: u32,
    /// Size of the send buffer.
    pub sndbuf_bytes: u32,
    /// Memory of data that is not sent or not acknowledged.
    pub wmem_queued_bytes: u32,
    /// Drops since the socket was created, modulo 2^32.
    drops: u32,
}

/// Counts the drops of one socket.
#[derive(Default)]
pub struct SocketDropMeter(UnwrappedCounter);

impl SocketDropMeter {
    /// Returns the drops since the first reading. An aggregate of datagrams (UDP_GRO) counts once.
    pub fn update_total_drops(&mut self, memory: Option<&SocketMemory>) -> u64 {
        match memory {
            Some(memory) => self.0.update(memory.drops),
            None => self.0.total(),
        }
    }
}

/// Reads the memory of a socket. Returns `None` if the kernel does not report it.
pub fn read_socket_memory(socket: BorrowedFd<'_>) -> Option<SocketMemory> {
    let mut values = [0u32; MEMINFO_VALUE_COUNT];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: `values` is valid for writes of `length` bytes, and the kernel writes at most `length`.
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
    Some(SocketMemory {
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
    fn queued_data_and_drops_are_counted() {
        let sink = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let source = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let to = sink.local_addr().expect("bound");
        let before = read_socket_memory(sink.as_fd()).expect("the kernel reports it");
        assert_eq!((before.rmem_bytes, before.drops), (0, 0));
        assert!(before.rcvbuf_bytes > 0 && before.sndbuf_bytes > 0);
        let mut meter = SocketDropMeter::default();
        assert_eq!(meter.update_total_drops(Some(&before)), 0);
        let mut now = before;
        for _ in 0..before.rcvbuf_bytes {
            source.send_to(&[0; 1000], to).expect("sent");
            now = read_socket_memory(sink.as_fd()).expect("the kernel reports it");
            if now.drops > 0 {
                break;
            }
        }
        assert!(meter.update_total_drops(Some(&now)) > 0);
        assert!(now.rmem_bytes > before.rcvbuf_bytes / 2, "{now:?}");
    }
}
