//! What a socket has dropped because its receive buffer was full: `SO_MEMINFO` (include/uapi/linux/sock_diag.h).

use std::os::fd::{AsRawFd, BorrowedFd};

use super::wrap::Unwrapped;

/// SK_MEMINFO_DROPS and SK_MEMINFO_VARS.
const DROPS: usize = 8;
const VALUES: usize = 9;

/// Reads one socket again and again.
#[derive(Default)]
pub struct DropMeter(Unwrapped);

impl DropMeter {
    /// Since the first reading; none where the kernel does not say. An aggregate of datagrams (UDP_GRO) counts once.
    pub fn read(&mut self, socket: BorrowedFd<'_>) -> u64 {
        match drops_of(socket) {
            Some(drops) => self.0.update(drops),
            None => self.0.total(),
        }
    }
}

/// Since the socket was made, modulo 2^32.
fn drops_of(socket: BorrowedFd<'_>) -> Option<u32> {
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
    (status == 0 && length as usize == size_of_val(&values)).then(|| values[DROPS])
}
