//! A relay between the endpoints of `udp_stream` that impairs datagrams as a test requests, and counts its actions.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// What a relay did to the datagrams of the load, without those of the path check.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RelayCounts {
    pub taken: u64,
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
/// How long a swapped datagram waits for its successor before it is forwarded anyway.
const IDLE: Duration = Duration::from_millis(50);

pub struct Relay {
    /// The port to which the connecting endpoint, the source, connects.
    pub port: Value,
    done: Receiver<RelayCounts>,
}

impl Relay {
    /// Starts a relay for one stream whose sink listens on this port.
    pub fn start(sink_port: &Value, sampler: ImpairmentSampler) -> Self {
        let to = ("127.0.0.1", sink_port.as_u64().expect("a port") as u16);
        let sink = TcpStream::connect(to).expect("the sink listens");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = json!(listener.local_addr().expect("bound").port());
        let (done, count) = channel();
        std::thread::spawn(move || {
            let (source, _) = listener.accept().expect("the source connects");
            // Fails only after the test has ended.
            let _ = done.send(relay(&source, &sink, sampler));
        });
        Self { port, done: count }
    }

    /// What it did until both sides were done.
    pub fn done(self) -> RelayCounts {
        let patience = Duration::from_secs(60);
        self.done.recv_timeout(patience).expect("both sides end")
    }
}

fn relay(source: &TcpStream, sink: &TcpStream, sampler: ImpairmentSampler) -> RelayCounts {
    let clone = |of: &TcpStream| of.try_clone().expect("a descriptor");
    let (from_source, to_sink) = (clone(source), clone(sink));
    let forth = std::thread::spawn(move || copy_bytes(from_source, to_sink));
    let here = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    // What the sink says first: that the stream was expected, and its UDP port.
    let (mut answer, mut port) = ([0; 32], [0; 2]);
    let mut done = RelayCounts::default();
    let heard = |bytes: &mut [u8]| clone(sink).read_exact(bytes).is_ok();
    if heard(&mut answer) && clone(source).write_all(&answer).is_ok() && heard(&mut port) {
        let to = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes(port)));
        let own = here.local_addr().expect("bound").port().to_be_bytes();
        let _ = clone(source).write_all(&own);
        let (from_sink, to_source) = (clone(sink), clone(source));
        let back = std::thread::spawn(move || copy_bytes(from_sink, to_source));
        done = relay_datagrams(&here, to, sampler, || back.is_finished());
        let _ = back.join();
    }
    let _ = forth.join();
    done
}

fn copy_bytes(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

fn relay_datagrams(
    here: &UdpSocket,
    to: SocketAddr,
    sampler: ImpairmentSampler,
    is_over: impl Fn() -> bool,
) -> RelayCounts {
    here.set_read_timeout(Some(IDLE)).expect("a timeout");
    let mut done = RelayCounts::default();
    let mut bytes = vec![0; 65_536];
    let mut waits: Option<Vec<u8>> = None;
    let pass = |datagram: &[u8]| {
        let _ = here.send_to(datagram, to);
    };
    while !is_over() {
        let Ok(length) = here.recv(&mut bytes) else {
            if let Some(datagram) = waits.take() {
                pass(&datagram);
            }
            continue;
        };
        let datagram = &bytes[..length];
        let number = u64::from_be_bytes(datagram[4..12].try_into().expect("8 bytes"));
        let fate = sampler(number, length);
        if number < PROBES {
            done.taken += 1;
        }
        let late = waits.take();
        match fate {
            DatagramAction::Drop => done.dropped += u64::from(number < PROBES),
            DatagramAction::Swap => waits = Some(datagram.to_vec()),
            DatagramAction::Pass | DatagramAction::Double | DatagramAction::WithForeign => {
                pass(datagram)
            }
        }
        if let DatagramAction::Double = fate {
            done.doubled += 1;
            pass(datagram);
        }
        if let DatagramAction::WithForeign = fate {
            done.foreign += 1;
            let mut foreign = datagram.to_vec();
            foreign[0] ^= 1;
            pass(&foreign);
        }
        if let Some(late) = late {
            // Out of order only where one went before it.
            done.swapped += u64::from(!matches!(fate, DatagramAction::Drop | DatagramAction::Swap));
            pass(&late);
        }
    }
    done
}
