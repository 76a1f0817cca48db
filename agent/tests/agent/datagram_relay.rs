//! A relay between the endpoints of `udp_stream` that impairs datagrams as a test requests, and counts its actions.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// What a relay did to the datagrams of the load, without those of the path check.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RelayCounts {
    pub received: u64,
    pub dropped: u64,
    pub doubled: u64,
    pub swapped: u64,
    pub foreign: u64,
}

/// What the relay does with a datagram.
#[derive(Clone, Copy)]
pub enum DatagramAction {
    Pass,
    Drop,
    Double,
    /// Forwards it after its successor.
    Swap,
    /// Forwards it together with a foreign datagram.
    WithForeign,
}

/// Returns the action for a datagram with this number and length.
pub type ImpairmentSampler = fn(u64, usize) -> DatagramAction;

pub const PROBES: u64 = u64::MAX - 1;
/// How long a swapped datagram held_datagram for its successor before it is forwarded anyway.
const IDLE: Duration = Duration::from_millis(50);

pub struct Relay {
    /// The port to which the connecting endpoint, the source, connects.
    pub port: Value,
    counts: Receiver<RelayCounts>,
}

impl Relay {
    /// Starts a relay for one stream whose sink listens on this port.
    pub fn start(
        sink_port: &Value,
        sampler: impl FnMut(u64, usize) -> DatagramAction + Send + 'static,
    ) -> Self {
        let to = ("127.0.0.1", sink_port.as_u64().expect("a port") as u16);
        let sink = TcpStream::connect(to).expect("the sink listens");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = json!(listener.local_addr().expect("bound").port());
        let (sender, counts) = channel();
        std::thread::spawn(move || {
            let (source, _) = listener.accept().expect("the source connects");
            // Fails only after the test has ended.
            let _ = sender.send(relay(&source, &sink, sampler));
        });
        Self { port, counts }
    }

    /// Waits until both endpoints have ended, and returns the relay's counts.
    pub fn finish(self) -> RelayCounts {
        let timeout = Duration::from_secs(60);
        self.counts
            .recv_timeout(timeout)
            .expect("both endpoints end")
    }
}

fn relay(
    source: &TcpStream,
    sink: &TcpStream,
    sampler: impl FnMut(u64, usize) -> DatagramAction,
) -> RelayCounts {
    let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
    let (from_source, to_sink) = (clone(source), clone(sink));
    let forward = std::thread::spawn(move || copy_bytes(from_source, to_sink));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    // The sink first accepts the stream, then sends its UDP port.
    let (mut answer, mut port) = ([0; 32], [0; 2]);
    let mut counts = RelayCounts::default();
    let read = |bytes: &mut [u8]| clone(sink).read_exact(bytes).is_ok();
    if read(&mut answer) && clone(source).write_all(&answer).is_ok() && read(&mut port) {
        let to = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes(port)));
        let relay_port = socket.local_addr().expect("bound").port().to_be_bytes();
        let _ = clone(source).write_all(&relay_port);
        let (from_sink, to_source) = (clone(sink), clone(source));
        let reverse = std::thread::spawn(move || copy_bytes(from_sink, to_source));
        counts = relay_datagrams(&socket, to, sampler, || reverse.is_finished());
        let _ = reverse.join();
    }
    let _ = forward.join();
    counts
}

fn copy_bytes(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

fn relay_datagrams(
    socket: &UdpSocket,
    to: SocketAddr,
    mut sampler: impl FnMut(u64, usize) -> DatagramAction,
    is_over: impl Fn() -> bool,
) -> RelayCounts {
    socket.set_read_timeout(Some(IDLE)).expect("a timeout");
    let mut counts = RelayCounts::default();
    let mut bytes = vec![0; 65_536];
    let mut held_datagram: Option<Vec<u8>> = None;
    let forward = |datagram: &[u8]| {
        let _ = socket.send_to(datagram, to);
    };
    while !is_over() {
        let Ok(length) = socket.recv(&mut bytes) else {
            if let Some(datagram) = held_datagram.take() {
                forward(&datagram);
            }
            continue;
        };
        let datagram = &bytes[..length];
        let number = u64::from_be_bytes(datagram[4..12].try_into().expect("8 bytes"));
        let action = sampler(number, length);
        if number < PROBES {
            counts.received += 1;
        }
        let previous = held_datagram.take();
        match action {
            DatagramAction::Drop => counts.dropped += u64::from(number < PROBES),
            DatagramAction::Swap => held_datagram = Some(datagram.to_vec()),
            DatagramAction::Pass | DatagramAction::Double | DatagramAction::WithForeign => {
                forward(datagram)
            }
        }
        if let DatagramAction::Double = action {
            counts.doubled += 1;
            forward(datagram);
        }
        if let DatagramAction::WithForeign = action {
            counts.foreign += 1;
            let mut foreign = datagram.to_vec();
            foreign[0] ^= 1;
            forward(&foreign);
        }
        if let Some(previous) = previous {
            // Counts as reordered only if another datagram was forwarded before it.
            counts.swapped += u64::from(!matches!(
                action,
                DatagramAction::Drop | DatagramAction::Swap
            ));
            forward(&previous);
        }
    }
    counts
}
