//! What the kernel says of one TCP connection: `TCP_INFO` (include/uapi/linux/tcp.h, struct tcp_info).

use std::mem::offset_of;
use std::os::fd::BorrowedFd;

use crate::socket_memory::{self, Memory};
use crate::wrap::Unwrapped;
use vnetbench_system::socket_option::{self, Plain};

/// `struct tcp_info` up to the field that is used last. A kernel that knows fewer fields leaves the rest zero; one that
/// knows more cuts its answer.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawTcpInfo {
    state: u8,
    ca_state: u8,
    /// retransmits, probes
    unused_a: [u8; 2],
    backoff: u8,
    /// options, and the scales of both windows
    unused_b: [u8; 2],
    /// `APP_LIMITED`, and two bits on fast open
    bits: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    /// retrans, fackets, last_data_sent, last_ack_sent, last_data_recv, last_ack_recv, pmtu, rcv_ssthresh
    unused_c: [u32; 8],
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
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
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
}

/// `tcpi_delivery_rate_app_limited`, a bit field of C.
const APP_LIMITED: u8 = if cfg!(target_endian = "little") {
    1
} else {
    0x80
};

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
    /// `None` where only the above is wanted, or the socket is not TCP's.
    pub detail: Option<TcpDetail>,
}

/// The rest of what is told, of some connections only. `None` where this kernel does not know it. Totals count from the
/// connection's beginning.
#[derive(Clone, Copy, Default)]
pub struct TcpDetail {
    /// Whether the last measured rate is that of a sender with nothing more to send.
    pub app_limited: bool,
    pub ca_state: u8,
    /// How many timeouts have come one after another.
    pub backoff: u8,
    pub rto_us: u32,
    /// In segments; those that were sent again stay lost until they are acknowledged (net/ipv4/tcp_input.c, `lost_out`).
    pub lost: u32,
    /// In segments: how far they may be apart before one counts as lost.
    pub reordering: u32,
    /// `None` where nobody has set one.
    pub pacing_max_bps: Option<u64>,
    pub bytes_retransmitted: Option<u64>,
    pub dsack_dups: Option<u32>,
    pub reord_seen: Option<u32>,
    pub rcv_ooopack: Option<u32>,
    /// What the other side has room for.
    pub snd_wnd_bytes: Option<u32>,
    /// Bytes of a segment on the way in.
    pub rcv_mss: u32,
    /// `None` before the first measurement.
    pub rcv_rtt_us: Option<u32>,
    pub rcv_space_bytes: u32,
    pub memory: Option<Memory>,
}

/// Reads one connection again and again.
#[derive(Default)]
pub struct Meter {
    is_detailed: bool,
    retransmits: Unwrapped,
    segments_out: Unwrapped,
    segments_in: Unwrapped,
    acked_before: Option<u64>,
    last: TcpReading,
}

impl Meter {
    pub fn new(is_detailed: bool) -> Self {
        Self {
            is_detailed,
            ..Self::default()
        }
    }

    pub fn read(&mut self, socket: BorrowedFd<'_>) -> TcpReading {
        if let Ok((raw, length)) =
            socket_option::get_sized::<RawTcpInfo>(&socket, libc::IPPROTO_TCP, libc::TCP_INFO)
        {
            self.last = self.reading_of(&raw);
            self.last.detail = self.is_detailed.then(|| TcpDetail {
                memory: socket_memory::of(socket),
                ..TcpDetail::of(&raw, length)
            });
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
            detail: None,
        }
    }
}

impl TcpDetail {
    fn of(raw: &RawTcpInfo, length: usize) -> Self {
        let since_4_19 = length >= offset_of!(RawTcpInfo, rcv_ooopack);
        let since_5_4 = length >= size_of::<RawTcpInfo>();
        Self {
            app_limited: raw.bits & APP_LIMITED != 0,
            ca_state: raw.ca_state,
            backoff: raw.backoff,
            rto_us: raw.rto,
            lost: raw.lost,
            reordering: raw.reordering,
            pacing_max_bps: (raw.max_pacing_rate != u64::MAX)
                .then(|| raw.max_pacing_rate.saturating_mul(8)),
            bytes_retransmitted: since_4_19.then_some(raw.bytes_retrans),
            dsack_dups: since_4_19.then_some(raw.dsack_dups),
            reord_seen: since_4_19.then_some(raw.reord_seen),
            rcv_ooopack: since_5_4.then_some(raw.rcv_ooopack),
            snd_wnd_bytes: since_5_4.then_some(raw.snd_wnd),
            rcv_mss: raw.rcv_mss,
            rcv_rtt_us: (raw.rcv_rtt != 0).then_some(raw.rcv_rtt),
            rcv_space_bytes: raw.rcv_space,
            memory: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_lie_where_the_kernel_puts_them() {
        assert_eq!(offset_of!(RawTcpInfo, backoff), 4);
        assert_eq!(offset_of!(RawTcpInfo, bits), 7);
        assert_eq!(offset_of!(RawTcpInfo, rcv_mss), 20);
        assert_eq!(offset_of!(RawTcpInfo, unacked), 24);
        assert_eq!(offset_of!(RawTcpInfo, lost), 32);
        assert_eq!(offset_of!(RawTcpInfo, rtt), 68);
        assert_eq!(offset_of!(RawTcpInfo, snd_cwnd), 80);
        assert_eq!(offset_of!(RawTcpInfo, reordering), 88);
        assert_eq!(offset_of!(RawTcpInfo, rcv_space), 96);
        assert_eq!(offset_of!(RawTcpInfo, total_retrans), 100);
        assert_eq!(offset_of!(RawTcpInfo, pacing_rate), 104);
        assert_eq!(offset_of!(RawTcpInfo, segs_out), 136);
        assert_eq!(offset_of!(RawTcpInfo, min_rtt), 148);
        assert_eq!(offset_of!(RawTcpInfo, delivery_rate), 160);
        assert_eq!(offset_of!(RawTcpInfo, sndbuf_limited), 184);
        assert_eq!(offset_of!(RawTcpInfo, bytes_retrans), 208);
        assert_eq!(offset_of!(RawTcpInfo, dsack_dups), 216);
        assert_eq!(offset_of!(RawTcpInfo, reord_seen), 220);
        assert_eq!(offset_of!(RawTcpInfo, rcv_ooopack), 224);
        assert_eq!(offset_of!(RawTcpInfo, snd_wnd), 228);
        assert_eq!(size_of::<RawTcpInfo>(), 232);
    }

    #[test]
    fn what_an_older_kernel_leaves_out_is_not_known() {
        let raw = RawTcpInfo {
            max_pacing_rate: u64::MAX,
            ..RawTcpInfo::default()
        };
        let old = TcpDetail::of(&raw, offset_of!(RawTcpInfo, delivered));
        assert_eq!((old.reord_seen, old.snd_wnd_bytes), (None, None));
        assert_eq!(old.pacing_max_bps, None);
        let newer = TcpDetail::of(&raw, offset_of!(RawTcpInfo, rcv_ooopack));
        assert_eq!((newer.reord_seen, newer.snd_wnd_bytes), (Some(0), None));
        let newest = TcpDetail::of(&raw, size_of::<RawTcpInfo>());
        assert_eq!(
            (newest.reord_seen, newest.snd_wnd_bytes),
            (Some(0), Some(0))
        );
    }
}
