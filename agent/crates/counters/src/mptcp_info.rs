//! State of an MPTCP connection: `MPTCP_INFO` (include/uapi/linux/mptcp.h, struct mptcp_info).

use std::os::fd::AsFd;

use vnetbench_system::socket_option::{self, PlainOldData};

/// From include/uapi/linux/mptcp.h, as `MPTCP_INFO` below.
const SOL_MPTCP: i32 = 284;
const MPTCP_INFO: i32 = 1;
const MPTCP_INFO_FLAG_FALLBACK: u32 = 1;

/// `struct mptcp_info` up to the last field used; newer kernels truncate their answer.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawMptcpInfo {
    /// Subflows in addition to the first.
    subflows: u8,
    /// add_addr_signal, add_addr_accepted, subflows_max, add_addr_signal_max, add_addr_accepted_max, and two of padding
    unused: [u8; 7],
    flags: u32,
}

// SAFETY: all fields are integers, and the padding is a field.
unsafe impl PlainOldData for RawMptcpInfo {}

/// Returns the number of subflows; `None` for TCP, including MPTCP that fell back to TCP.
pub fn read_subflow_count(socket: &impl AsFd) -> Option<u32> {
    let raw: RawMptcpInfo = socket_option::get(socket, SOL_MPTCP, MPTCP_INFO).ok()?;
    (raw.flags & MPTCP_INFO_FLAG_FALLBACK == 0).then_some(u32::from(raw.subflows) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_offsets_match_the_kernel() {
        assert_eq!(std::mem::offset_of!(RawMptcpInfo, flags), 8);
    }
}
