//! A trial against an iperf3 server: the server hears of it by the protocol, and the load is the trial's own streams.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use socket2::{SockAddr, Socket};

use crate::client_control::ClientControl;
use crate::control_connection::ControlConnection;
use crate::cpu_time::{CpuTime, CpuTimeTotal};
use crate::limits::{EndCondition, MAX_BLOCK_BYTES, MAX_STREAMS, Transport};
use crate::parameters::{Direction, TestParameters};
use crate::results::{CpuUsage, StreamResult, TestResults, sanitize_text};
use crate::states::{State, TestError};
use crate::streams::stream_id;
use vnetbench_counters::tcp_info::Meter;
use vnetbench_streams::{OnEnd, Role, Stream};
use vnetbench_system::error::Error;
use vnetbench_system::waiting::{WaitOutcome, Waker};
use vnetbench_traffic::connector::connect_in_turn;
use vnetbench_traffic::receive::ReceiveMode;
use vnetbench_traffic::route::{Route, address};
use vnetbench_traffic::{Load, LoadPart, Workload};

/// How long all that was sent may take to be acknowledged before the server is told of the end.
const FLUSHING: Duration = Duration::from_secs(2);
/// A server counts nothing after it was told of the end: so long it has before to read what its kernel acknowledged.
const READING: Duration = Duration::from_millis(100);
/// How long, from the end on, what the server sent may take to arrive.
const EMPTYING: Duration = Duration::from_secs(3);
/// How long the end takes in all, with the results: less than a trial waits for its streams.
const CONCLUDING: Duration = Duration::from_secs(4);
/// How long a server whose streams break may take to say why.
const SAYING_WHY: Duration = Duration::from_secs(1);
const TOO_OLD: &str =
    "the server does not send while it receives: iperf3 does so from version 3.7 on";
const LOOK: Duration = Duration::from_millis(1);
/// While there is load only the server or the end of the load ends the waiting.
const FOR_GOOD: Duration = Duration::from_secs(24 * 3600);

/// What the server is asked for; `Err` says why it cannot be.
pub fn test_parameters(load: &Load) -> Result<TestParameters, String> {
    let [
        LoadPart {
            work: Workload::Stream(transfer),
            ..
        },
    ] = &load.parts[..]
    else {
        return Err("an iperf3 server takes the workload tcp_stream only".into());
    };
    let roles: Vec<Role> = load.roles.iter().map(|(_, role)| *role).collect();
    let sources = roles.iter().filter(|role| **role == Role::Source).count();
    let sinks = roles.len() - sources;
    let direction = match (sources, sinks) {
        (_, 0) => Direction::Forward,
        (0, _) => Direction::Reverse,
        _ if sources == sinks && roles[..sources].iter().all(|r| *r == Role::Source) => {
            Direction::Bidirectional
        }
        _ => return Err("an iperf3 server takes as many streams each way, sources first".into()),
    };
    if sources.max(sinks) > MAX_STREAMS {
        return Err(format!(
            "an iperf3 server takes {MAX_STREAMS} streams each way at most"
        ));
    }
    if transfer.message_bytes > MAX_BLOCK_BYTES {
        return Err(format!(
            "an iperf3 server takes messages of {MAX_BLOCK_BYTES} bytes at most"
        ));
    }
    if direction != Direction::Forward && load.options.pacing_rate_bps.is_some() {
        return Err("an iperf3 server that sends is not paced from here".into());
    }
    Ok(TestParameters {
        transport: Transport::Tcp,
        direction,
        streams_per_direction: sources.max(sinks),
        end_condition: EndCondition::Never,
        block_bytes: transfer.message_bytes,
        socket_buffer_bytes: load.options.buffer_bytes,
        // Of a side that only receives it changes nothing, and a system without it might refuse the test.
        congestion_control: load
            .options
            .congestion_control
            .clone()
            .filter(|_| direction != Direction::Forward),
        skip_receive_copy: transfer.receive == ReceiveMode::Discard,
        ..TestParameters::default()
    })
}

/// A test that the server has agreed to. Its streams are connected, and nothing moves yet.
pub struct NegotiatedTest {
    control: ClientControl,
    parameters: TestParameters,
}

impl NegotiatedTest {
    /// The test and its streams, in the order of the load; `None` when the bell was rung before.
    pub fn connect(
        route: &Route,
        asked: TestParameters,
        load: &Load,
        bell: &Waker,
        timeout: Duration,
    ) -> vnetbench_system::error::Result<Option<(Self, Vec<Socket>)>> {
        let from = route.from.as_ref().and_then(SockAddr::as_socket);
        let to = address(Ok(route.to.clone()))
            .map_err(|error| Error::system("find an iperf3 server", error))?;
        let mut talk = ClientControl::connect(to, from.map(|from| from.ip()), timeout, timeout)?;
        talk.send_parameters(&asked)?;
        let sockets = connect_in_turn(route, load.roles.len(), &load.options, bell, timeout)?;
        Ok(sockets.map(|sockets| {parameters: 
            (
                Self {
                    control: talk,
                    asked,
                },
                sockets,
            )
        }))
    }
parameters
    /// Has the server begin its part, and from here on attends to it on a thread of its own. `on_end` is called when the
    /// test is over.
    pub fn begin(mut selparametersreams: &[Arc<Stream>], on_end: &OnEnd) -> Result<Begun, TestError> {
        for stream in streams {
            self.control.send_cookie(&stream.socket)?;
        }
        self.control.await_start()?;
        let asked = self.asked.clone();
        let mut test = Test {
            talk: self.control,
            asked: self.asked,
            streams: streams
                .iter()
                .map(|s| (Arc::clone(s), Meter::default()))
                .collect(),
            began: Instant::now(),
            cpu_before: CpuTime::current_process(),
        };
        for (stream, meter) in &mut test.streams {
            meter.read(stream.socket.as_fd());
        }
        let failed =
            |error| TestError::failed(format!("the server cannot be attended to: {error}"));
        let control = Arc::clone(&test.talk.connection);
        let load_over = Arc::new(Waker::new().map_err(failed)?);
        let outcome = Arc::new(OnceLock::new());
        let thread = std::thread::Builder::new()
            .name("iperf3 server".into())
            .spawn({
                let (outcome, load_over) = (Arc::clone(&outcome), Arc::clone(&load_over));
                let on_end = Arc::clone(on_end);
                move || {
                    let _ = outcome.set(test.attend(&load_over));
                    on_end();
                }
            })
            .map_err(failed)?;
        Ok(Begun {
            parameters: asked,
            streams: streams.to_vec(),
            control,
            load_over,
            outcome,
            thread,
        })
    }
}

/// A test under way.
pub struct Begun {
    parameters: TestParameters,
    streams: Vec<Arc<Stream>>,
    control: Arc<ControlConnection>,
    load_over: Arc<Waker>,
    outcome: Arc<OnceLock<Result<TestResults, TestError>>>,
    thread: JoinHandle<()>,
}

impl Begun {
    /// The sources have been told to end.
    pub fn load_is_over(&self) {
        self.load_over.wake();
    }

    pub fn is_over(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// Why the test came to nothing, where it is known by now.
    pub fn fault(&self) -> Option<String> {
        let failure = self.outcome.get()?.as_ref().err()?;
        Some(self.too_old().unwrap_or_else(|| failure.to_string()))
    }

    /// As `fault`, where a stream has broken: the server may be about to say why.
    pub fn fault_of(&self, broken: String) -> String {
        let until = Instant::now() + SAYING_WHY;
        while !self.is_over() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        self.fault().or_else(|| self.too_old()).unwrap_or(broken)
    }

    /// A server that knows of no test both ways turns the streams away on which it was to send, with one byte.
    fn too_old(&self) -> Option<String> {
        let turned_away = |stream: &Arc<Stream>| {
            stream.role == Role::Sink
                && stream.counters.received.bytes() <= 1
                && stream.end.get().is_some()
        };
        let is_so = self.parameters.direction == Direction::Bidirectional
            && self.streams.iter().any(turned_away);
        is_so.then(|| TOO_OLD.into())
    }

    /// Ends the test where it is not over, and returns what the server said of it.
    pub fn end(self) -> Option<TestResults> {
        if !self.is_over() {
            // Whoever cannot be told is gone.
            let _ = self.control.send_state(State::ClientTerminated);
            self.control.close();
        }
        // A thread that panicked has no outcome.
        let _ = self.thread.join();
        self.outcome.get()?.as_ref().ok().cloned()
    }
}

struct Test {
    talk: ClientControl,
    asked: TestParameters,
    streams: Vec<(Arc<Stream>, Meter)>,
    began: Instant,
    cpu_before: CpuTime,
}

impl Test {
    fn attend(mut self, load_over: &Waker) -> Result<TestResults, TestError> {
        let control = Arc::clone(&self.talk.connection);
        while control.wait(Some(load_over), Instant::now() + FOR_GOOD)? != WaitOutcome::Rung {
            self.talk.feed(&control.read()?)?;
        }
        let (ended, wall) = (Instant::now(), self.began.elapsed());
        self.flush(ended + FLUSHING);
        self.talk.set_deadline(ended + CONCLUDING);
        self.talk.end_test()?;
        self.wait_for_sinks(ended + EMPTYING);
        let own = self.own_results(wall);
        let sends = self.asked.direction != Direction::Reverse;
        let theirs = self
            .talk
            .exchange_results(&own, if sends { 1 } else { -1 })?;
        self.talk.finish()?;
        // Others hold it still, and a server may keep its streams until it is closed.
        control.close();
        if theirs.streams.len() == own.streams.len() {
            return Ok(theirs);
        }
        Err(TestError::RefusedByServer(match self.asked.direction {
            Direction::Bidirectional => TOO_OLD.into(),
            Direction::Forward | Direction::Reverse => format!(
                "the server tells of {} streams where {} were asked for",
                theirs.streams.len(),
                own.streams.len()
            ),
        }))
    }

    /// Returns when everything that was sent has been acknowledged, and had its time to be read.
    fn flush(&self, until: Instant) {
        let is_underway = |(stream, _): &(Arc<Stream>, Meter)| {
            stream.role == Role::Source && unacknowledged(&stream.socket).unwrap_or(0) > 0
        };
        while self.streams.iter().any(is_underway) && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        if self.asked.direction != Direction::Reverse {
            std::thread::sleep(READING);
        }
    }

    /// Told of the end the server closes the streams on which it sent; the others perhaps only when it has all results.
    fn wait_for_sinks(&self, until: Instant) {
        let at_work = |(stream, _): &(Arc<Stream>, Meter)| {
            stream.role == Role::Sink && stream.end.get().is_none()
        };
        while self.streams.iter().any(at_work) && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }

    fn own_results(&mut self, wall: Duration) -> TestResults {
        let spent = CpuTimeTotal::default();
        spent.add(CpuTime::current_process(), self.cpu_before);
        let streams = self
            .streams
            .iter_mut()
            .enumerate()
            .map(|(index, (stream, meter))| {
                let sends = stream.role == Role::Source;
                let retransmits = meter.read(stream.socket.as_fd()).retransmits;
                StreamResult {
                    id: stream_id(index),
                    bytes: if sends {
                        stream.counters.sent.bytes()
                    } else {
                        stream.counters.received.bytes()
                    },
                    retransmits: sends.then_some(retransmits),
                    duration_s: wall.as_secs_f64(),
                    ..StreamResult::default()
                }
            });
        TestResults {
            streams: streams.collect(),
            cpu: spent.usage_over(wall),
            ..TestResults::default()
        }
    }
}

/// Bytes that were sent and not acknowledged (SIOCOUTQ, tcp(7)).
fn unacknowledged(socket: &Socket) -> io::Result<i32> {
    let mut bytes = 0i32;
    // SAFETY: the request writes one int, and the pointer is to one.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if answer == 0 {
        Ok(bytes)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// What the server said of its side, in the names of docs/protocol.md.
#[derive(Serialize)]
pub struct ServerSide {
    cpu_percent: CpuUsage,
    congestion_control: Option<String>,
    streams: Vec<ServerStream>,
}

#[derive(Serialize)]
struct ServerStream {
    id: u32,
    role: Role,
    bytes: u64,
    retransmits: Option<u64>,
}

impl ServerSide {
    /// `streams` in the order in which they were connected.
    pub fn new(results: TestResults, streams: &[Arc<Stream>]) -> Self {
        let told = streams.iter().enumerate().filter_map(|(index, stream)| {
            let told = results.parse_stream(stream_id(index))?;
            Some(ServerStream {
                id: stream.id,
                role: stream.role.opposite(),
                bytes: told.bytes,
                retransmits: told.retransmits.filter(|_| stream.role == Role::Sink),
            })
        });
        Self {
            streams: told.collect(),
            cpu_percent: results.cpu,
            congestion_control: results.congestion_control.as_deref().map(sanitize_text),
        }
    }
}
