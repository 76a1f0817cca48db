//! State of a TCP connection: `TCP_INFO` (include/uapi/linux/tcp.h, struct tcp_info).

use std::mem::offset_of;
use std::os::fd::BorrowedFd;

use crate::socket_memory::{self, SocketMemory};
use crate::unwrapped_counter::UnwrappedCounter;
use vnetbench_system::socket_option::{self, FilledOption, PlainOldData};

/// `struct tcp_info` up to the last field used. An older kernel leaves the missing fields zero; a newer one truncates its
/// answer.
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
    /// `APP_LIMITED`, and two bits of TCP Fast Open
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
    /// rcv_wnd, rehash
    unused_d: [u32; 2],
    total_rto: u16,
    total_rto_recoveries: u16,
    total_rto_time: u32,
}

/// States in which a socket has sent no FIN (include/net/tcp_states.h): TCP_ESTABLISHED and TCP_CLOSE_WAIT.
const STATES_WITHOUT_FIN: [u8; 2] = [1, 8];

/// `tcpi_delivery_rate_app_limited`, a bit field of C.
const APP_LIMITED_BIT: u8 = if cfg!(target_endian = "little") {
    1
} else {
    0x80
};

// SAFETY: all fields are integers, without padding.
unsafe impl PlainOldData for RawTcpInfo {}

/// A connection at one moment. Totals count from the meter's first reading.
#[derive(Clone, Copy, Default)]
pub struct TcpReading {
    /// Smoothed round-trip time.
    pub rtt_us: u32,
    /// Mean deviation of the round-trip time.
    pub rttvar_us: u32,
    /// Minimum round-trip time; `None` before the first measurement.
    pub min_rtt_us: Option<u32>,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Maximum segment size for sending, in bytes.
    pub mss: u32,
    /// Segments sent and not yet acknowledged.
    pub unacked: u32,
    /// Bytes in the send buffer that are not sent yet.
    pub notsent_bytes: u32,
    /// Bytes acknowledged. The kernel counts the FIN as one of them.
    pub bytes_acked: u64,
    /// Whether the socket has sent its FIN, so that it sends no more.
    pub has_sent_fin: bool,
    /// Last measured delivery rate.
    pub delivery_rate_bps: u64,
    /// Pacing rate; `None` if unlimited.
    pub pacing_rate_bps: Option<u64>,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Time with data to send or unacknowledged data.
    pub busy_us: u64,
    /// Busy time limited by the receive window.
    pub rwnd_limited_us: u64,
    /// Busy time limited by the send buffer.
    pub sndbuf_limited_us: u64,
    /// Further values, from the last reading that requested them; `None` before the first one.
    pub detail: Option<TcpDetail>,
    /// Whether this reading requested them.
    pub has_new_detail: bool,
}

/// Further values of a connection. A value is `None` if this kernel does not report it. Totals count from the start of the
/// connection.
#[derive(Clone, Copy, Default)]
pub struct TcpDetail {
    /// Whether the application limited the last measured delivery rate.
    pub app_limited: bool,
    /// State of congestion avoidance (`enum tcp_ca_state`).
    pub ca_state: u8,
    /// Consecutive retransmission timeouts.
    pub backoff: u8,
    /// Retransmission timeout.
    pub rto_us: u32,
    /// Segments marked lost, until they are acknowledged (net/ipv4/tcp_input.c, `lost_out`).
    pub lost: u32,
    /// Reordering distance in segments beyond which a segment counts as lost.
    pub reordering: u32,
    /// Maximum pacing rate; `None` if not set.
    pub pacing_max_bps: Option<u64>,
    /// Bytes retransmitted.
    pub bytes_retransmitted: Option<u64>,
    /// Duplicate segments that the peer reported (DSACK).
    pub dsack_dups: Option<u32>,
    /// Reordering events.
    pub reord_seen: Option<u32>,
    /// Segments received out of order.
    pub rcv_ooopack: Option<u32>,
    /// Retransmission timeouts.
    pub timeouts: Option<u16>,
    /// Receive window of the peer.
    pub snd_wnd_bytes: Option<u32>,
    /// Maximum segment size of received segments, in bytes.
    pub rcv_mss: u32,
    /// Round-trip time estimated by the receiver; `None` before the first measurement.
    pub rcv_rtt_us: Option<u32>,
    /// Target size of the receive buffer (receive buffer autotuning).
    pub rcv_space_bytes: u32,
    /// Memory of the socket.
    pub memory: Option<SocketMemory>,
}

/// Reads one connection repeatedly.
#[derive(Default)]
pub struct TcpMeter {
    retransmits: UnwrappedCounter,
    segments_out: UnwrappedCounter,
    segments_in: UnwrappedCounter,
    acked_at_start: Option<u64>,
    last: TcpReading,
}

impl TcpReading {
    /// Returns the bytes of payload that were acknowledged.
    ///
    /// `written` is the payload of all finished writes. During a write, more than that can be acknowledged: a write of
    /// 1 MiB takes almost a second at 10 Mbit/s.
    pub fn payload_acked(&self, written: u64) -> u64 {
        match self.has_sent_fin {
            true => self.bytes_acked.min(written),
            false => self.bytes_acked,
        }
    }
}

impl TcpMeter {
    /// Reads the connection; returns the last reading if that fails.
    pub fn read_or_keep_last(&mut self, socket: BorrowedFd<'_>) -> TcpReading {
        self.read(socket, false)
    }

    /// Reads the connection with [`TcpDetail`]; returns the last reading if that fails.
    pub fn read_with_detail(&mut self, socket: BorrowedFd<'_>) -> TcpReading {
        self.read(socket, true)
    }

    fn read(&mut self, socket: BorrowedFd<'_>, reads_detail: bool) -> TcpReading {
        let info = socket_option::get_with_length(&socket, libc::IPPROTO_TCP, libc::TCP_INFO);
        if let Ok(FilledOption {
            value: raw,
            length_bytes,
        }) = info
        {
            let last_detail = self.last.detail;
            self.last = self.make_reading(&raw);
            self.last.has_new_detail = reads_detail;
            self.last.detail = if reads_detail {
                Some(TcpDetail {
                    memory: socket_memory::read_socket_memory(socket),
                    ..TcpDetail::from_raw(&raw, length_bytes)
                })
            } else {
                last_detail
            };
        }
        self.last
    }

    fn make_reading(&mut self, raw: &RawTcpInfo) -> TcpReading {
        let acked_before = *self.acked_at_start.get_or_insert(raw.bytes_acked);
        TcpReading {
            bytes_acked: raw.bytes_acked.saturating_sub(acked_before),
            has_sent_fin: !STATES_WITHOUT_FIN.contains(&raw.state),
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
            has_new_detail: false,
        }
    }
}

impl TcpDetail {
    fn from_raw(raw: &RawTcpInfo, length_bytes: usize) -> Self {
        let since_4_19 = length_bytes >= offset_of!(RawTcpInfo, rcv_ooopack);
        let since_5_4 = length_bytes >= offset_of!(RawTcpInfo, unused_d);
        let since_6_7 = length_bytes >= size_of::<RawTcpInfo>();
        Self {
            app_limited: raw.bits & APP_LIMITED_BIT != 0,
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
            timeouts: since_6_7.then_some(raw.total_rto),
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
    fn acknowledged_payload_includes_an_open_write_and_no_fin() {
        let mut meter = TcpMeter::default();
        let mut read = |state, bytes_acked| {
            meter.make_reading(&RawTcpInfo {
                state,
                bytes_acked,
                ..RawTcpInfo::default()
            })
        };
        const ESTABLISHED: u8 = 1;
        const FIN_WAIT2: u8 = 5;
        assert_eq!(read(ESTABLISHED, 38).payload_acked(0), 0);
        assert_eq!(read(ESTABLISHED, 500_038).payload_acked(0), 500_000);
        assert_eq!(
            read(FIN_WAIT2, 1_000_039).payload_acked(1_000_000),
            1_000_000
        );
    }

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
        assert_eq!(offset_of!(RawTcpInfo, total_rto), 240);
        assert_eq!(size_of::<RawTcpInfo>(), 248);
    }

    #[test]
    fn what_an_older_kernel_leaves_out_is_not_known() {
        let raw = RawTcpInfo {
            max_pacing_rate: u64::MAX,
            ..RawTcpInfo::default()
        };
        let old = TcpDetail::from_raw(&raw, offset_of!(RawTcpInfo, delivered));
        assert_eq!((old.reord_seen, old.snd_wnd_bytes), (None, None));
        assert_eq!(old.pacing_max_bps, None);
        let newer = TcpDetail::from_raw(&raw, offset_of!(RawTcpInfo, rcv_ooopack));
        assert_eq!((newer.reord_seen, newer.snd_wnd_bytes), (Some(0), None));
        let since_5_4 = TcpDetail::from_raw(&raw, offset_of!(RawTcpInfo, unused_d));
        assert_eq!(
            (since_5_4.snd_wnd_bytes, since_5_4.timeouts),
            (Some(0), None)
        );
        let complete = TcpDetail::from_raw(&raw, size_of::<RawTcpInfo>());
        assert_eq!(complete.timeouts, Some(0));
    }
}
