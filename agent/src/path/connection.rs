//! Path probes through a TCP connection: a message is answered by a small message and by one of its own size.
//!
//! A message is a header and zeroes. The header has the magic number `VNBT` and the payload length (u32, big endian). The small
//! answer is the header alone. The kernel divides a message into segments of the path's maximum size, and repeats lost ones.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use socket2::{Domain, SockAddr, Socket, Type};

use super::socket::MAX_PACKET_BYTES;
use vnetbench_system::error::{RequestError, Result};
use vnetbench_system::waiting::{WaitOutcome, Waker, wait};

const MAGIC: &[u8; 4] = b"VNBT";
const HEADER_BYTES: usize = 8;
/// IPv4 and TCP headers with timestamps; IPv6 has 20 more.
const MIN_HEADERS_ON_WIRE_BYTES: usize = 52;
/// A responder waits no longer for the rest of a message.
const RESPONDER_READ_TIMEOUT: Duration = Duration::from_secs(60);

/// How far a probe came.
#[derive(Debug, Default, PartialEq)]
pub struct ConnectionProbe {
    pub forward_works: bool,
    pub reverse_works: bool,
    pub rtt: Option<Duration>,
    pub reason: String,
}

/// Returns the payload of a message whose first segment is a packet of this size, or a longer one.
pub fn payload_bytes(packet_bytes: usize) -> usize {
    packet_bytes.saturating_sub(MIN_HEADERS_ON_WIRE_BYTES)
}

/// Opens the listener of a responder.
pub fn listen(address: IpAddr, port: u16) -> Result<TcpListener> {
    let open = || {
        let bound = SocketAddr::new(address, port);
        let socket = Socket::new(Domain::for_address(bound), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SockAddr::from(bound))?;
        socket.listen(16)?;
        socket.set_nonblocking(true)?;
        Ok(TcpListener::from(socket))
    };
    open().map_err(|error: io::Error| RequestError::system(format!("listen on {address}"), error))
}

/// Answers one connection after another until the waker is woken.
pub fn answer_until_woken(listener: &TcpListener, waker: &Waker) {
    let mut ready = Vec::new();
    while let Ok(WaitOutcome::Ready) = wait(
        &[(listener.as_fd(), PollFlags::IN)],
        &mut ready,
        waker,
        None,
    ) {
        if let Ok((stream, _)) = listener.accept() {
            let deadline = Instant::now() + RESPONDER_READ_TIMEOUT;
            // A connection that fails is the prober's result.
            let _ = answer_connection(&Connection {
                stream,
                waker,
                deadline,
            });
        }
    }
}

fn answer_connection(connection: &Connection<'_>) -> io::Result<()> {
    connection.stream.set_nonblocking(true)?;
    connection.stream.set_nodelay(true)?;
    let mut header = [0; HEADER_BYTES];
    connection.read_exact(&mut header)?;
    let length = parse_header(&header).ok_or(ErrorKind::InvalidData)?;
    let mut payload = vec![0; length];
    connection.read_exact(&mut payload)?;
    connection.write_all(&header)?;
    connection.write_all(&[&header[..], &payload].concat())
}

/// Opens a connection, sends one message, and waits for both answers until the deadline.
pub fn probe_through_new_connection(
    from: IpAddr,
    to: SocketAddr,
    length: usize,
    patience: Duration,
) -> Result<ConnectionProbe> {
    let waker = Waker::new().map_err(|error| RequestError::system("wait for answers", error))?;
    let started = Instant::now();
    let mut result = ConnectionProbe::default();
    let done = run_probe(from, to, length, &waker, started + patience, |has_large| {
        result.rtt.get_or_insert(started.elapsed());
        result.forward_works = true;
        result.reverse_works = has_large;
    });
    if let Err(error) = done {
        result.reason = match error.kind() {
            ErrorKind::TimedOut => "no answer".into(),
            _ => format!("unreachable: {error}"),
        };
    }
    Ok(result)
}

/// Runs a probe, and calls `on_answer_with_is_large` for each answer with whether it is the large one.
fn run_probe(
    from: IpAddr,
    to: SocketAddr,
    length: usize,
    waker: &Waker,
    deadline: Instant,
    mut on_answer_with_is_large: impl FnMut(bool),
) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.bind(&SockAddr::from(SocketAddr::new(from, 0)))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::from(to)) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
        _ => {}
    }
    let connection = Connection {
        stream: socket.into(),
        waker,
        deadline,
    };
    connection.wait_until_ready(PollFlags::OUT)?;
    if let Some(error) = connection.stream.take_error()? {
        return Err(error);
    }
    connection.stream.set_nodelay(true)?;
    let mut message = vec![0; HEADER_BYTES + length];
    message[..4].copy_from_slice(MAGIC);
    let stated = u32::try_from(length).expect("a packet's length fits 32 bits");
    message[4..HEADER_BYTES].copy_from_slice(&stated.to_be_bytes());
    connection.write_all(&message)?;
    let mut answer = vec![0; HEADER_BYTES];
    connection.read_exact(&mut answer)?;
    on_answer_with_is_large(false);
    answer.resize(message.len(), 0);
    connection.read_exact(&mut answer)?;
    on_answer_with_is_large(true);
    Ok(())
}

fn parse_header(header: &[u8; HEADER_BYTES]) -> Option<usize> {
    let (magic, length) = header.split_first_chunk::<4>()?;
    let length = u32::from_be_bytes(*length.first_chunk()?) as usize;
    (magic == MAGIC && length <= MAX_PACKET_BYTES).then_some(length)
}

/// A non-blocking connection with a deadline for all of its calls.
struct Connection<'a> {
    stream: TcpStream,
    waker: &'a Waker,
    deadline: Instant,
}

impl Connection<'_> {
    fn wait_until_ready(&self, flags: PollFlags) -> io::Result<()> {
        let sockets = [(self.stream.as_fd(), flags)];
        match wait(&sockets, &mut Vec::new(), self.waker, Some(self.deadline))? {
            WaitOutcome::Ready => Ok(()),
            WaitOutcome::Woken => Err(ErrorKind::Interrupted.into()),
            WaitOutcome::TimedOut => Err(ErrorKind::TimedOut.into()),
        }
    }

    fn read_exact(&self, buffer: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            match (&self.stream).read(&mut buffer[filled..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => filled += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait_until_ready(PollFlags::IN)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut written = 0;
        while written < bytes.len() {
            match (&self.stream).write(&bytes[written..]) {
                Ok(length) => written += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait_until_ready(PollFlags::OUT)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const PATIENCE: Duration = Duration::from_millis(300);

    #[test]
    fn a_message_is_answered_by_a_small_and_a_large_one() {
        let listener = listen(LOOPBACK, 0).expect("a free port");
        let to = listener.local_addr().expect("bound");
        let waker = Arc::new(Waker::new().expect("eventfd"));
        let responder_waker = Arc::clone(&waker);
        let responder = std::thread::spawn(move || answer_until_woken(&listener, &responder_waker));
        for length in [0, 76, 65_000] {
            let result = probe_through_new_connection(LOOPBACK, to, length, 10 * PATIENCE)
                .expect("a result");
            assert!(result.forward_works && result.reverse_works, "{result:?}");
            assert!(result.rtt > Some(Duration::ZERO));
        }
        waker.wake();
        responder.join().expect("the responder ends");
    }

    #[test]
    fn a_listener_that_never_answers_and_a_closed_port_are_results() {
        let listener = listen(LOOPBACK, 0).expect("a free port");
        let to = listener.local_addr().expect("bound");
        let silent = probe_through_new_connection(LOOPBACK, to, 1000, PATIENCE).expect("a result");
        assert_eq!(
            (silent.forward_works, silent.reason.as_str()),
            (false, "no answer")
        );
        drop(listener);
        let closed = probe_through_new_connection(LOOPBACK, to, 1000, PATIENCE).expect("a result");
        assert!(closed.reason.starts_with("unreachable: "), "{closed:?}");
    }

    #[test]
    fn a_header_with_another_magic_number_or_a_huge_length_is_rejected() {
        assert_eq!(parse_header(b"VNBT\0\0\x05\xdc"), Some(1500));
        assert_eq!(parse_header(b"GET \0\0\x05\xdc"), None);
        assert_eq!(parse_header(b"VNBT\xff\0\0\0"), None);
    }
}
