//! What the kernel says of one TCP connection: `TCP_INFO` (include/uapi/linux/tcp.h, struct tcp_info).

use std::os::fd::BorrowedFd;

use super::wrap::Unwrapped;
use crate::socket_option::{self, Plain};

/// `struct tcp_info` up to the field that is used last. A kernel that knows fewer fields leaves the rest zero; one that
/// knows more cuts its answer.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawTcpInfo {
    /// state, ca_state, retransmits, probes, backoff, options, and two bytes of bit fields
    small: [u8; 8],
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    /// sacked, lost, retrans, fackets, last_data_sent, last_ack_sent, last_data_recv, last_ack_recv, pmtu, rcv_ssthresh
    unused_a: [u32; 10],
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    /// advmss, reordering, rcv_rtt, rcv_space
    unused_b: [u32; 4],
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
}

// SAFETY: integers only, whose offsets leave no gap.
unsafe impl Plain for RawTcpInfo {}

/// One connection at one moment. Totals count from the meter's first reading.
#[derive(Clone, Copy, Default)]
pub struct TcpReading {
    pub rtt_us: u32,
    pub rttvar_us: u32,
    /// `None` before the first measurement.
    pub min_rtt_us: Option<u32>,
    /// In segments.
    pub cwnd: u32,
    /// Bytes of a segment on the way out.
    pub mss: u32,
    /// In segments.
    pub unacked: u32,
    pub notsent_bytes: u32,
    pub bytes_acked: u64,
    pub delivery_rate_bps: u64,
    /// `None` where nothing limits it.
    pub pacing_rate_bps: Option<u64>,
    pub retransmits: u64,
    pub segments_out: u64,
    pub segments_in: u64,
    pub busy_us: u64,
    pub rwnd_limited_us: u64,
    pub sndbuf_limited_us: u64,
}

/// Reads one connection again and again.
#[derive(Default)]
pub struct Meter {
    retransmits: Unwrapped,
    segments_out: Unwrapped,
    segments_in: Unwrapped,
    acked_before: Option<u64>,
    last: TcpReading,
}

impl Meter {
    pub fn read(&mut self, socket: BorrowedFd<'_>) -> TcpReading {
        if let Ok(raw) =
            socket_option::get::<RawTcpInfo>(&socket, libc::IPPROTO_TCP, libc::TCP_INFO)
        {
            self.last = self.reading_of(&raw);
        }
        self.last
    }

    fn reading_of(&mut self, raw: &RawTcpInfo) -> TcpReading {
        let acked_before = *self.acked_before.get_or_insert(raw.bytes_acked);
        TcpReading {
            bytes_acked: raw.bytes_acked.saturating_sub(acked_before),
            rtt_us: raw.rtt,
            rttvar_us: raw.rttvar,
            min_rtt_us: (raw.min_rtt != u32::MAX).then_some(raw.min_rtt),
            cwnd: raw.snd_cwnd,
            mss: raw.snd_mss,
            unacked: raw.unacked,
            notsent_bytes: raw.notsent_bytes,
            delivery_rate_bps: raw.delivery_rate.saturating_mul(8),
            pacing_rate_bps: (raw.pacing_rate != u64::MAX)
                .then(|| raw.pacing_rate.saturating_mul(8)),
            retransmits: self.retransmits.update(raw.total_retrans),
            segments_out: self.segments_out.update(raw.segs_out),
            segments_in: self.segments_in.update(raw.segs_in),
            busy_us: raw.busy_time,
            rwnd_limited_us: raw.rwnd_limited,
            sndbuf_limited_us: raw.sndbuf_limited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_fields_lie_where_the_kernel_puts_them() {
        assert_eq!(offset_of!(RawTcpInfo, unacked), 24);
        assert_eq!(offset_of!(RawTcpInfo, rtt), 68);
        assert_eq!(offset_of!(RawTcpInfo, snd_cwnd), 80);
        assert_eq!(offset_of!(RawTcpInfo, total_retrans), 100);
        assert_eq!(offset_of!(RawTcpInfo, pacing_rate), 104);
        assert_eq!(offset_of!(RawTcpInfo, segs_out), 136);
        assert_eq!(offset_of!(RawTcpInfo, min_rtt), 148);
        assert_eq!(offset_of!(RawTcpInfo, delivery_rate), 160);
        assert_eq!(offset_of!(RawTcpInfo, sndbuf_limited), 184);
    }
}
