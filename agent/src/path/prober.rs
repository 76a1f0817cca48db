//! The near side of a probe: sends, waits for both answers, and says what came.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::Deserialize;
use serde_json::{Value, json};
use socket2::{SockAddr, Socket};

use super::socket::{MAX_PACKET_BYTES, header_bytes, open_unfragmented};
use super::wire::{
    self, HEADER_BYTES, LONG_ANSWER, PROBE, SHORT_ANSWER, SHORT_ANSWER_BYTES, Token,
};
use vnetbench_system::error::{Error, Result};
use vnetbench_system::waiting::{WaitOutcome, Waker, wait};

const MAX_ATTEMPTS: u32 = 100;
const MAX_TIMEOUT_S: f64 = 60.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeRequest {
    from: IpAddr,
    to: IpAddr,
    port: u16,
    packet_bytes: usize,
    attempts: u32,
    timeout_s: f64,
}

#[derive(Default)]
struct ProbeResult {
    forward_works: bool,
    reverse_works: bool,
    rtt: Option<Duration>,
    reason: String,
}

/// Sends all attempts, and keeps the shortest round trip: the first one also has to find the neighbour.
pub fn probe(request: ProbeRequest) -> Result<Value> {
    let payload_bytes = checked_payload_bytes(&request)?;
    let socket = open_unfragmented(request.from, 0)?;
    let waker = Waker::new().map_err(|error| Error::system("wait for answers", error))?;
    let mut found = ProbeResult::default();
    if let Err(error) = socket.connect(&SockAddr::from(SocketAddr::new(request.to, request.port))) {
        found.reason = sender_reason(&error);
    } else {
        let mut probe = vec![0; payload_bytes];
        let mut token: Token = [0; 20];
        getrandom(&mut token[..16], GetRandomFlags::empty())
            .map_err(|error| Error::system("draw random bytes", error))?;
        for attempt in 0..request.attempts {
            token[16..].copy_from_slice(&attempt.to_be_bytes());
            wire::write_header(&mut probe, PROBE, &token);
            let until = Instant::now() + Duration::from_secs_f64(request.timeout_s);
            match send_probe(&socket, &probe, &token, &waker, until, &mut found) {
                // Trying again cannot make the interface's MTU larger.
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                    found.reason = "larger than the MTU of the sending interface".into();
                    break;
                }
                Err(error) => found.reason = sender_reason(&error),
                Ok(()) => {}
            }
        }
    }
    if found.forward_works && found.reverse_works {
        found.reason.clear();
    } else if found.reason.is_empty() {
        found.reason = "no answer".into();
    }
    Ok(json!({
        "forward": found.forward_works,
        "back": found.reverse_works,
        "reason": found.reason,
        "rtt_us": found.rtt.map(|rtt| rtt.as_secs_f64() * 1e6),
    }))
}

/// The bytes of payload that make a packet of the size that is asked for.
fn checked_payload_bytes(request: &ProbeRequest) -> Result<usize> {
    let bad = |what: String| Err(Error::BadParameter(what));
    let smallest = header_bytes(request.to) + SHORT_ANSWER_BYTES;
    if request.from.is_ipv4() != request.to.is_ipv4() {
        return bad("from and to are of different versions of IP".into());
    }
    if !(smallest..=MAX_PACKET_BYTES).contains(&request.packet_bytes) {
        return bad(format!(
            "packet_bytes must lie within {smallest} and {MAX_PACKET_BYTES}"
        ));
    }
    if !(1..=MAX_ATTEMPTS).contains(&request.attempts) {
        return bad(format!("attempts must lie within 1 and {MAX_ATTEMPTS}"));
    }
    if !(0.0..=MAX_TIMEOUT_S).contains(&request.timeout_s) {
        return bad(format!("timeout_s must lie within 0 and {MAX_TIMEOUT_S}"));
    }
    Ok(request.packet_bytes - header_bytes(request.to))
}

/// Returns when both answers have come, or the moment has.
fn send_probe(
    socket: &Socket,
    probe: &[u8],
    token: &Token,
    waker: &Waker,
    until: Instant,
    found: &mut ProbeResult,
) -> io::Result<()> {
    let sent = Instant::now();
    socket.send(probe)?;
    let (mut long, mut short) = (false, false);
    let mut ready = Vec::new();
    while !(long && short) {
        let waited = wait(
            &[(socket.as_fd(), PollFlags::IN)],
            &mut ready,
            waker,
            Some(until),
        )?;
        if waited != WaitOutcome::Ready {
            return Ok(());
        }
        let mut answer = [0; SHORT_ANSWER_BYTES];
        let length = match rustix::net::recv(socket, &mut answer, rustix::net::RecvFlags::TRUNC) {
            Ok((_, length)) => length,
            Err(rustix::io::Errno::AGAIN) => continue,
            Err(error) => return Err(error.into()),
        };
        match wire::read_header(&answer[..length.min(answer.len())]) {
            Some((LONG_ANSWER, answered)) if answered == token && length == probe.len() => {
                long = true;
                found.reverse_works = true;
            }
            Some((SHORT_ANSWER, answered)) if answered == token && length == SHORT_ANSWER_BYTES => {
                short = true;
                found.forward_works = true;
                let errno =
                    i32::from_be_bytes(answer[HEADER_BYTES..].try_into().expect("four bytes"));
                if errno != 0 {
                    found.reason = responder_reason(errno);
                    return Ok(());
                }
            }
            _ => continue,
        }
        let rtt = sent.elapsed();
        found.rtt = Some(found.rtt.map_or(rtt, |shortest| shortest.min(rtt)));
    }
    Ok(())
}

fn sender_reason(error: &io::Error) -> String {
    format!("unreachable: {error}")
}

fn responder_reason(errno: i32) -> String {
    if errno == libc::EMSGSIZE {
        return "larger than the MTU of the answering interface".into();
    }
    format!(
        "the far side cannot answer: {}",
        io::Error::from_raw_os_error(errno)
    )
}
