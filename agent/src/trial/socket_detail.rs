//! Detailed socket values, reported for the first streams of an endpoint only: further `TCP_INFO` fields and socket memory.

use serde::Serialize;

use vnetbench_counters::socket_memory::SocketMemory;
use vnetbench_counters::tcp_info::TcpReading;
use vnetbench_streams::Role;

/// The number of detailed streams for each role and part of the load. Details of all streams would make samples too long.
pub const MAX_DETAILED_STREAMS_PER_PART_AND_ROLE: usize = 64;

/// The detailed values of one stream's socket.
#[derive(Serialize)]
#[serde(untagged)]
pub enum SocketDetailByRole {
    /// The socket of a source.
    Source(SourceDetail),
    /// The socket of a sink.
    Sink(SinkDetail),
}

/// Detailed values of a source, from `TCP_INFO` and `SO_MEMINFO`.
#[derive(Serialize)]
pub struct SourceDetail {
    mss_bytes: u32,
    app_limited: u8,
    ca_state: u8,
    backoff: u8,
    rto_us: u32,
    lost: u32,
    reordering: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pacing_max_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snd_wnd_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_retransmitted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dsack_dups: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reord_seen: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeouts: Option<u16>,
    #[serde(flatten)]
    memory: Option<SendMemory>,
}

/// Detailed values of a sink, from `TCP_INFO` and `SO_MEMINFO`.
#[derive(Serialize)]
pub struct SinkDetail {
    mss_bytes: u32,
    rcv_space_bytes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rcv_rtt_us: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rcv_ooopack: Option<u32>,
    #[serde(flatten)]
    memory: Option<ReceiveMemory>,
}

/// The send memory that the kernel accounts to a socket, at the end of the interval.
#[derive(Serialize)]
struct SendMemory {
    sndbuf_bytes: u32,
    wmem_queued_bytes: u32,
}

/// The receive memory that the kernel accounts to a socket, at the end of the interval.
#[derive(Serialize)]
pub struct ReceiveMemory {
    rcvbuf_bytes: u32,
    rmem_bytes: u32,
}

impl SocketDetailByRole {
    /// Returns the values at `now`, and the increase of the counters since the last details up to `then`.
    ///
    /// Returns `None` if `now` did not read details, or if there are none before.
    pub fn between(role: Role, then: &TcpReading, now: &TcpReading) -> Option<Self> {
        let new_detail = now.detail.as_ref().filter(|_| now.has_new_detail);
        let (tcp, before) = (new_detail?, then.detail.as_ref()?);
        Some(match role {
            Role::Source => Self::Source(SourceDetail {
                mss_bytes: now.mss,
                app_limited: u8::from(tcp.app_limited),
                ca_state: tcp.ca_state,
                backoff: tcp.backoff,
                rto_us: tcp.rto_us,
                lost: tcp.lost,
                reordering: tcp.reordering,
                pacing_max_bps: tcp.pacing_max_bps,
                snd_wnd_bytes: tcp.snd_wnd_bytes,
                bytes_retransmitted: tcp
                    .bytes_retransmitted
                    .zip(before.bytes_retransmitted)
                    .map(|(now, then)| now.saturating_sub(then)),
                dsack_dups: counter_increase(before.dsack_dups, tcp.dsack_dups),
                reord_seen: counter_increase(before.reord_seen, tcp.reord_seen),
                timeouts: tcp
                    .timeouts
                    .zip(before.timeouts)
                    .map(|(now, then)| now.wrapping_sub(then)),
                memory: tcp.memory.map(SendMemory::from),
            }),
            Role::Sink => Self::Sink(SinkDetail {
                mss_bytes: tcp.rcv_mss,
                rcv_space_bytes: tcp.rcv_space_bytes,
                rcv_rtt_us: tcp.rcv_rtt_us,
                rcv_ooopack: counter_increase(before.rcv_ooopack, tcp.rcv_ooopack),
                memory: tcp.memory.map(ReceiveMemory::from),
            }),
        })
    }
}

fn counter_increase(earlier: Option<u32>, later: Option<u32>) -> Option<u32> {
    Some(later?.wrapping_sub(earlier?))
}

impl From<SocketMemory> for SendMemory {
    fn from(memory: SocketMemory) -> Self {
        Self {
            sndbuf_bytes: memory.sndbuf_bytes,
            wmem_queued_bytes: memory.wmem_queued_bytes,
        }
    }
}

impl From<SocketMemory> for ReceiveMemory {
    fn from(memory: SocketMemory) -> Self {
        Self {
            rcvbuf_bytes: memory.rcvbuf_bytes,
            rmem_bytes: memory.rmem_bytes,
        }
    }
}
