//! The effective options of a stream's connected socket, read back from the kernel.

use std::io;

use rustix::net::sockopt::tcp_congestion;
use serde::Serialize;
use socket2::{Domain, SockAddr, Socket};

use crate::route::Transport;
use vnetbench_counters::mptcp_info;
use vnetbench_streams::datagrams::DatagramFlow;
use vnetbench_streams::{Role, Stream};
use vnetbench_system::socket_option;

/// The effective options of a stream's socket; options of other protocols are `None`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct EffectiveOptions {
    id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'static str>,
    /// Port of this endpoint, and of the other one, on the socket that carries the load; none with VSOCK.
    local_port: Option<u16>,
    remote_port: Option<u16>,
    mss: Option<u32>,
    congestion_control: Option<String>,
    send_buffer_bytes: Option<usize>,
    receive_buffer_bytes: Option<usize>,
    no_delay: Option<bool>,
    busy_poll_us: Option<u32>,
    pacing_rate_bps: Option<u64>,
    /// For streams whose connection carries the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<Transport>,
    /// Number of MPTCP subflows.
    subflows: Option<u32>,
    /// UDP_SEGMENT: size of the datagrams that the kernel cuts messages into; 0 if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    udp_segment_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udp_gro: Option<bool>,
    /// Whether a sink of datagrams shares the clock of its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_clock: Option<bool>,
}

/// Returns the current transport of the stream's connection. MPTCP can fall back to TCP at any time.
pub fn read_transport(stream: &Stream) -> Transport {
    match (
        stream.socket.domain(),
        mptcp_info::read_subflow_count(&stream.socket),
    ) {
        (Ok(Domain::VSOCK), _) => Transport::Vsock,
        (_, Some(_)) => Transport::Mptcp,
        (_, None) => Transport::Tcp,
    }
}

/// Reads the effective options of the stream's socket.
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
        local_port: read_port(socket.local_addr()),
        remote_port: read_port(socket.peer_addr()),
        mss: socket.tcp_mss().ok(),
        congestion_control: tcp_congestion(socket).ok(),
        send_buffer_bytes: socket.send_buffer_size().ok(),
        receive_buffer_bytes: socket.recv_buffer_size().ok(),
        no_delay: socket.tcp_nodelay().ok(),
        busy_poll_us: socket_option::get(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL).ok(),
        pacing_rate_bps: read_pacing_rate_bps(socket),
        transport: Some(read_transport(stream)),
        subflows: mptcp_info::read_subflow_count(socket),
        ..EffectiveOptions::default()
    }
}

fn read_datagram_options(stream: &Stream, datagrams: &DatagramFlow) -> EffectiveOptions {
    let socket = &datagrams.socket;
    let udp_option = |option| socket_option::get::<u32>(socket, libc::SOL_UDP, option).ok();
    EffectiveOptions {
        id: stream.id,
        local_port: read_port(socket.local_addr()),
        remote_port: read_port(socket.peer_addr()),
        send_buffer_bytes: socket.send_buffer_size().ok(),
        receive_buffer_bytes: socket.recv_buffer_size().ok(),
        udp_segment_bytes: udp_option(libc::UDP_SEGMENT),
        udp_gro: udp_option(libc::UDP_GRO).map(|value| value != 0),
        shared_clock: (stream.role == Role::Sink).then_some(datagrams.delay.is_some()),
        ..EffectiveOptions::default()
    }
}

/// Returns the port of a socket's address (getsockname, getpeername); `None` for VSOCK.
fn read_port(address: io::Result<SockAddr>) -> Option<u16> {
    address.ok()?.as_socket().map(|ip| ip.port())
}

/// Returns the pacing rate of a socket, or `None` if it has none.
fn read_pacing_rate_bps(socket: &Socket) -> Option<u64> {
    let bytes_per_s: u64 =
        socket_option::get(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE).ok()?;
    bytes_per_s.checked_mul(8)
}
