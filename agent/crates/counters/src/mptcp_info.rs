//! What the kernel says of one MPTCP connection: `MPTCP_INFO` (include/uapi/linux/mptcp.h, struct mptcp_info).

use std::os::fd::AsFd;

use vnetbench_system::socket_option::{self, Plain};

/// `SOL_MPTCP` and `MPTCP_INFO` of the same header.
const SOL_MPTCP: i32 = 284;
const MPTCP_INFO: i32 = 1;
const FLAG_FALLBACK: u32 = 1;

/// `struct mptcp_info` up to the field that is used last; a kernel that knows more cuts its answer.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawMptcpInfo {
    /// Those beside the first.
    subflows: u8,
    /// add_addr_signal, add_addr_accepted, subflows_max, add_addr_signal_max, add_addr_accepted_max, and two of padding
    unused: [u8; 7],
    flags: u32,
}

// SAFETY: integers only, and the padding has a name.
unsafe impl Plain for RawMptcpInfo {}

/// How many subflows the connection has now; `None` where it is TCP: as such, or fallen back to it.
pub fn subflows(socket: &impl AsFd) -> Option<u32> {
    let raw: RawMptcpInfo = socket_option::get(socket, SOL_MPTCP, MPTCP_INFO).ok()?;
    (raw.flags & FLAG_FALLBACK == 0).then_some(u32::from(raw.subflows) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_lie_where_the_kernel_puts_them() {
        assert_eq!(std::mem::offset_of!(RawMptcpInfo, flags), 8);
    }
}
