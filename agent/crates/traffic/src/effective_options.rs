//! What a stream's socket really has, once it is connected: read back, not what was asked.

use rustix::net::sockopt::tcp_congestion;
use serde::Serialize;
use socket2::{Domain, Socket};

use crate::route::Transport;
use vnetbench_counters::mptcp_info;
use vnetbench_streams::datagrams::DatagramFlow;
use vnetbench_streams::{Role, Stream};
use vnetbench_system::socket_option;

/// What a stream's socket really has.
#[derive(Debug, Clone, Default, Serialize)]
pub struct EffectiveOptions {
    id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'static str>,
    mss: Option<u32>,
    congestion_control: Option<String>,
    send_buffer_bytes: Option<usize>,
    receive_buffer_bytes: Option<usize>,
    no_delay: Option<bool>,
    busy_poll_us: Option<u32>,
    pacing_rate_bps: Option<u64>,
    /// Of connections that carry the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<Transport>,
    /// Of MPTCP.
    subflows: Option<u32>,
    /// The rest is of datagrams only. What UDP_SEGMENT has the kernel cut messages into; 0: it cuts none.
    #[serde(skip_serializing_if = "Option::is_none")]
    udp_segment_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udp_gro: Option<bool>,
    /// Of a sink.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_clock: Option<bool>,
}

/// What the stream's connection is: MPTCP may have fallen back to TCP, from the start or later.
pub fn transport(stream: &Stream) -> Transport {
    match (stream.socket.domain(), mptcp_info::subflows(&stream.socket)) {
        (Ok(Domain::VSOCK), _) => Transport::Vsock,
        (_, Some(_)) => Transport::Mptcp,
        (_, None) => Transport::Tcp,
    }
}

pub fn read_effective_options(stream: &Stream) -> EffectiveOptions {
    let socket = &stream.socket;
    if let Some(datagrams) = &stream.datagrams {
        return read_datagram_options(stream, datagrams);
    }
    if stream.frames.is_some() {
        return EffectiveOptions {
            id: stream.id,
            ..EffectiveOptions::default()
        };
    }
    EffectiveOptions {
        id: stream.id,
        part: stream.part,
        mss: socket.tcp_mss().ok(),
        congestion_control: tcp_congestion(socket).ok(),
        send_buffer_bytes: socket.send_buffer_size().ok(),
        receive_buffer_bytes: socket.recv_buffer_size().ok(),
        no_delay: socket.tcp_nodelay().ok(),
        busy_poll_us: socket_option::get(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL).ok(),
        pacing_rate_bps: pacing_rate_bps(socket),
        transport: Some(transport(stream)),
        subflows: mptcp_info::subflows(socket),
        ..EffectiveOptions::default()
    }
}

fn read_datagram_options(stream: &Stream, datagrams: &DatagramFlow) -> EffectiveOptions {
    let socket = &datagrams.socket;
    let of_udp = |option| socket_option::get::<u32>(socket, libc::SOL_UDP, option).ok();
    EffectiveOptions {
        id: stream.id,
        send_buffer_bytes: socket.send_buffer_size().ok(),
        receive_buffer_bytes: socket.recv_buffer_size().ok(),
        udp_segment_bytes: of_udp(libc::UDP_SEGMENT),
        udp_gro: of_udp(libc::UDP_GRO).map(|on| on != 0),
        shared_clock: (stream.role == Role::Sink).then_some(datagrams.delay.is_some()),
        ..EffectiveOptions::default()
    }
}

/// The rate that a socket is held to; `None` where it is to none.
fn pacing_rate_bps(socket: &Socket) -> Option<u64> {
    let bytes_per_s: u64 =
        socket_option::get(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE).ok()?;
    bytes_per_s.checked_mul(8)
}
