//! The prober: sends probes, waits for both answers, and returns the result.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::Deserialize;
use serde_json::{Value, json};
use socket2::{SockAddr, Socket};

use super::connection;
use super::protocol::ProbeProtocol;
use super::socket::{MAX_PACKET_BYTES, ip_udp_header_bytes, open_unfragmented_udp_socket};
use super::wire::{
    self, FULL_SIZE_ANSWER_MAGIC, HEADER_BYTES, PROBE_MAGIC, SMALL_ANSWER_BYTES,
    SMALL_ANSWER_MAGIC, Token,
};
use vnetbench_system::error::{RequestError, Result};
use vnetbench_system::waiting::{WaitOutcome, Waker, wait};

const MAX_PROBE_ATTEMPTS: u32 = 100;
const MAX_ANSWER_TIMEOUT_S: f64 = 60.0;

/// The request `path.probe`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathProbeRequest {
    from: IpAddr,
    to: IpAddr,
    port: u16,
    packet_bytes: usize,
    attempts: u32,
    timeout_s: f64,
    #[serde(default)]
    protocol: ProbeProtocol,
}

#[derive(Default)]
struct ProbeResult {
    forward_works: bool,
    reverse_works: bool,
    shortest_rtt: Option<Duration>,
    reason: String,
}

/// Probes the path with datagrams, or through a connection.
pub fn probe_path(request: PathProbeRequest) -> Result<Value> {
    let payload_bytes = checked_payload_bytes(&request)?;
    let result = match request.protocol {
        ProbeProtocol::Udp => probe_with_datagrams(&request, payload_bytes)?,
        ProbeProtocol::Tcp => probe_through_connection(&request)?,
    };
    Ok(json!({
        "forward": result.forward_works,
        "reverse": result.reverse_works,
        "reason": result.reason,
        "rtt_us": result.shortest_rtt.map(|rtt| rtt.as_secs_f64() * 1e6),
    }))
}

/// Opens one connection: the kernel itself repeats what is lost, so all attempts together are its patience.
fn probe_through_connection(request: &PathProbeRequest) -> Result<ProbeResult> {
    let patience = Duration::from_secs_f64(request.timeout_s * f64::from(request.attempts));
    let to = SocketAddr::new(request.to, request.port);
    let length = connection::payload_bytes(request.packet_bytes);
    let done = connection::probe_through_new_connection(request.from, to, length, patience)?;
    Ok(ProbeResult {
        forward_works: done.forward_works,
        reverse_works: done.reverse_works,
        shortest_rtt: done.rtt,
        reason: done.reason,
    })
}

/// Sends all probes, and keeps the shortest round-trip time: the first probe may include neighbour discovery.
fn probe_with_datagrams(request: &PathProbeRequest, payload_bytes: usize) -> Result<ProbeResult> {
    let socket = open_unfragmented_udp_socket(request.from, 0)?;
    let waker = Waker::new().map_err(|error| RequestError::system("wait for answers", error))?;
    let mut result = ProbeResult::default();
    if let Err(error) = socket.connect(&SockAddr::from(SocketAddr::new(request.to, request.port))) {
        result.reason = explain_sender_error(&error);
    } else {
        let mut probe = vec![0; payload_bytes];
        let mut token: Token = [0; 20];
        getrandom(&mut token[..16], GetRandomFlags::empty())
            .map_err(|error| RequestError::system("draw random bytes", error))?;
        for attempt in 0..request.attempts {
            token[16..].copy_from_slice(&attempt.to_be_bytes());
            wire::write_header(&mut probe, PROBE_MAGIC, &token);
            let deadline = Instant::now() + Duration::from_secs_f64(request.timeout_s);
            match send_probe_and_await_answers(
                &socket,
                &probe,
                &token,
                &waker,
                deadline,
                &mut result,
            ) {
                // Another attempt cannot succeed either.
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                    result.reason =
                        "the packet is larger than the MTU of the sending interface".into();
                    break;
                }
                Err(error) => result.reason = explain_sender_error(&error),
                Ok(()) => {}
            }
        }
    }
    if result.forward_works && result.reverse_works {
        result.reason.clear();
    } else if result.reason.is_empty() {
        result.reason = "no answer".into();
    }
    Ok(result)
}

/// Checks the request, and returns the payload length that gives the requested packet size.
fn checked_payload_bytes(request: &PathProbeRequest) -> Result<usize> {
    let bad = |message: String| Err(RequestError::BadParameter(message));
    let min_bytes = ip_udp_header_bytes(request.to) + SMALL_ANSWER_BYTES;
    if request.from.is_ipv4() != request.to.is_ipv4() {
        return bad("from and to must have the same IP version".into());
    }
    if !(min_bytes..=MAX_PACKET_BYTES).contains(&request.packet_bytes) {
        return bad(format!(
            "packet_bytes must be between {min_bytes} and {MAX_PACKET_BYTES}"
        ));
    }
    if !(1..=MAX_PROBE_ATTEMPTS).contains(&request.attempts) {
        return bad(format!(
            "attempts must be between 1 and {MAX_PROBE_ATTEMPTS}"
        ));
    }
    if !(0.0..=MAX_ANSWER_TIMEOUT_S).contains(&request.timeout_s) {
        return bad(format!(
            "timeout_s must be between 0 and {MAX_ANSWER_TIMEOUT_S}"
        ));
    }
    Ok(request.packet_bytes - ip_udp_header_bytes(request.to))
}

/// Sends one probe, and returns when both answers have arrived or at the deadline.
fn send_probe_and_await_answers(
    socket: &Socket,
    probe: &[u8],
    token: &Token,
    waker: &Waker,
    deadline: Instant,
    result: &mut ProbeResult,
) -> io::Result<()> {
    let sent = Instant::now();
    socket.send(probe)?;
    let (mut has_probe_sized, mut has_small) = (false, false);
    let mut ready = Vec::new();
    while !(has_probe_sized && has_small) {
        let waited = wait(
            &[(socket.as_fd(), PollFlags::IN)],
            &mut ready,
            waker,
            Some(deadline),
        )?;
        if waited != WaitOutcome::Ready {
            return Ok(());
        }
        let mut answer = [0; SMALL_ANSWER_BYTES];
        let length = match rustix::net::recv(socket, &mut answer, rustix::net::RecvFlags::TRUNC) {
            Ok((_, length)) => length,
            Err(rustix::io::Errno::AGAIN) => continue,
            Err(error) => return Err(error.into()),
        };
        match wire::read_header(&answer[..length.min(answer.len())]) {
            Some((FULL_SIZE_ANSWER_MAGIC, answered))
                if answered == token && length == probe.len() =>
            {
                has_probe_sized = true;
                result.reverse_works = true;
            }
            Some((SMALL_ANSWER_MAGIC, answered))
                if answered == token && length == SMALL_ANSWER_BYTES =>
            {
                has_small = true;
                result.forward_works = true;
                let errno = i32::from_be_bytes(
                    answer[HEADER_BYTES..]
                        .try_into()
                        .expect("a small answer ends with four bytes"),
                );
                if errno != 0 {
                    result.reason = explain_responder_error(errno);
                    return Ok(());
                }
            }
            _ => continue,
        }
        let rtt = sent.elapsed();
        result.shortest_rtt = Some(result.shortest_rtt.unwrap_or(rtt).min(rtt));
    }
    Ok(())
}

fn explain_sender_error(error: &io::Error) -> String {
    format!("unreachable: {error}")
}

fn explain_responder_error(errno: i32) -> String {
    if errno == libc::EMSGSIZE {
        return "the packet is larger than the MTU of the answering interface".into();
    }
    format!(
        "the other endpoint cannot answer: {}",
        io::Error::from_raw_os_error(errno)
    )
}
