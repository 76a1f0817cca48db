//! The trial whose remote endpoint is an iperf3 server: negotiates the test; the trial's own streams carry the load.

use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{SockAddr, Socket};

use crate::client_control::ClientControl;
use crate::control_connection::ControlConnection;
use crate::cpu_time::{CpuTime, CpuTimeTotal};
use crate::parameters::{Direction, TestParameters};
use crate::results::{RetransmitReporting, StreamResult, TestResults};
pub use crate::server_report::ServerReport;
use crate::sockets::read_unacknowledged_bytes;
use crate::states::{State, TestError};
use crate::streams::stream_id_from_index;
pub use crate::trial_parameters::derive_parameters;
use vnetbench_counters::tcp_info::TcpMeter;
use vnetbench_streams::{OnEnd, Role, Stream};
use vnetbench_system::error::RequestError;
use vnetbench_system::waiting::{WaitOutcome, Waker};
use vnetbench_traffic::Load;
use vnetbench_traffic::connector::connect_sequentially;
use vnetbench_traffic::route::{Route, require_ip_address};

/// Time limit for the server to acknowledge all data before the test ends.
const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for the server to read the data that its kernel acknowledged: it stops counting when the test ends.
const SERVER_READ_TIME_BEFORE_TEST_END: Duration = Duration::from_millis(100);
/// Time limit, from the end of the load, for the server's data to arrive.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit of the whole end phase with the results; shorter than a trial waits for its streams.
const FINISH_TIMEOUT: Duration = Duration::from_secs(4);
/// Time for the server to report the reason after a stream fails.
const FAILURE_REASON_TIMEOUT: Duration = Duration::from_secs(1);
const BIDIRECTIONAL_REFUSAL: &str =
    "the server does not support bidirectional tests. Use iperf3 3.7 or later";
const STREAM_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Longer than any load: only the server or the end of the load ends this wait.
const LOAD_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// A test that the server has accepted; its streams are connected and idle.
pub struct NegotiatedTest {
    control: ClientControl,
    parameters: TestParameters,
}

impl NegotiatedTest {
    /// Negotiates a test and connects its streams, in the order of the load.
    ///
    /// Returns `None` if the waker fires first.
    ///
    /// # Errors
    ///
    /// The server is unreachable, busy or refuses the test.
    pub fn connect(
        route: &Route,
        parameters: TestParameters,
        load: &Load,
        waker: &Waker,
        timeout: Duration,
    ) -> vnetbench_system::error::Result<Option<(Self, Vec<Socket>)>> {
        let from = route.source.as_ref().and_then(SockAddr::as_socket);
        let to = require_ip_address(Ok(route.destination.clone()))
            .map_err(|error| RequestError::system("find an iperf3 server", error))?;
        let mut control =
            ClientControl::open_connection(to, from.map(|from| from.ip()), timeout, timeout)?;
        control.send_cookie_and_parameters(&parameters)?;
        let sockets = connect_sequentially(
            route,
            load.roles.len(),
            &load.socket_options,
            waker,
            timeout,
        )?;
        let test = Self {
            control,
            parameters,
        };
        Ok(sockets.map(|sockets| (test, sockets)))
    }

    /// Starts the test; a new thread handles the control connection and calls `on_end` when the test is over.
    ///
    /// # Errors
    ///
    /// The server does not start the test.
    pub fn begin(
        mut self,
        streams: &[Arc<Stream>],
        on_end: &OnEnd,
    ) -> Result<RemoteServerTest, TestError> {
        for stream in streams {
            self.control.send_cookie(&stream.socket)?;
        }
        self.control.await_start()?;
        let parameters = self.parameters.clone();
        let mut test = ControlThread {
            control: self.control,
            parameters: self.parameters,
            streams: streams
                .iter()
                .map(|stream| MeteredStream {
                    stream: Arc::clone(stream),
                    meter: TcpMeter::default(),
                })
                .collect(),
            started: Instant::now(),
            cpu_at_start: CpuTime::current_process(),
        };
        for MeteredStream { stream, meter } in &mut test.streams {
            meter.read_or_keep_last(stream.socket.as_fd());
        }
        let failed = |error| {
            TestError::failed(format!(
                "cannot start the thread of the iperf3 test: {error}"
            ))
        };
        let control = Arc::clone(&test.control.connection);
        let load_end = Arc::new(Waker::new().map_err(failed)?);
        let outcome = Arc::new(OnceLock::new());
        let thread = std::thread::Builder::new()
            .name("iperf3 server".into())
            .spawn({
                let (outcome, load_end) = (Arc::clone(&outcome), Arc::clone(&load_end));
                let on_end = Arc::clone(on_end);
                move || {
                    let _ = outcome.set(test.run(&load_end));
                    on_end();
                }
            })
            .map_err(failed)?;
        Ok(RemoteServerTest {
            parameters,
            streams: streams.to_vec(),
            control,
            load_end,
            outcome,
            thread,
        })
    }
}

/// A running test.
pub struct RemoteServerTest {
    parameters: TestParameters,
    streams: Vec<Arc<Stream>>,
    control: Arc<ControlConnection>,
    load_end: Arc<Waker>,
    outcome: Arc<OnceLock<Result<TestResults, TestError>>>,
    thread: JoinHandle<()>,
}

impl RemoteServerTest {
    /// Reports that the local sources have stopped, which ends the test.
    pub fn notify_load_end(&self) {
        self.load_end.wake();
    }

    /// Returns whether the test is over.
    pub fn is_finished(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// Returns the reason why the test failed, if it has failed.
    pub fn failure_message(&self) -> Option<String> {
        let failure = self.outcome.get()?.as_ref().err()?;
        Some(
            self.explain_bidirectional_refusal()
                .unwrap_or_else(|| failure.to_string()),
        )
    }

    /// Returns the server's reason of a stream's failure, if it reports one in time.
    pub fn wait_until_timeout_for_failure_reason(&self) -> Option<String> {
        let deadline = Instant::now() + FAILURE_REASON_TIMEOUT;
        while !self.is_finished() && Instant::now() < deadline {
            std::thread::sleep(STREAM_POLL_INTERVAL);
        }
        self.failure_message()
            .or_else(|| self.explain_bidirectional_refusal())
    }

    /// Returns the message for a server without bidirectional tests: it closes the reverse streams after one byte.
    fn explain_bidirectional_refusal(&self) -> Option<String> {
        let is_turned_away = |stream: &Arc<Stream>| {
            stream.role == Role::Sink
                && stream.counters.received.bytes() <= 1
                && stream.end.get().is_some()
        };
        let is_refused = self.parameters.direction == Direction::Bidirectional
            && self.streams.iter().any(is_turned_away);
        is_refused.then(|| BIDIRECTIONAL_REFUSAL.into())
    }

    /// Aborts the test if it is not over; returns the server's results.
    pub fn finish_or_abort(self) -> Option<TestResults> {
        if !self.is_finished() {
            // Fails only if the server is gone.
            let _ = self.control.send_state(State::ClientTerminated);
            self.control.shut_down();
        }
        // A thread that panicked leaves no outcome.
        let _ = self.thread.join();
        self.outcome.get()?.as_ref().ok().cloned()
    }
}

/// A stream of the trial, with the meter of its TCP connection.
struct MeteredStream {
    stream: Arc<Stream>,
    meter: TcpMeter,
}

/// The thread that handles the control connection of a running test.
struct ControlThread {
    control: ClientControl,
    parameters: TestParameters,
    streams: Vec<MeteredStream>,
    started: Instant,
    cpu_at_start: CpuTime,
}

impl ControlThread {
    fn run(mut self, load_end: &Waker) -> Result<TestResults, TestError> {
        let control = Arc::clone(&self.control.connection);
        while control.wait(Some(load_end), Instant::now() + LOAD_TIMEOUT)? != WaitOutcome::Woken {
            self.control.reject_message_during_load(&control.read()?)?;
        }
        let (ended, elapsed) = (Instant::now(), self.started.elapsed());
        self.wait_for_server_read(ended + ACKNOWLEDGEMENT_TIMEOUT);
        self.control.set_deadline(ended + FINISH_TIMEOUT);
        self.control.request_test_end()?;
        self.wait_for_server_close(ended + DRAIN_TIMEOUT);
        let local_results = self.local_results(elapsed);
        let retransmit_reporting = match self.parameters.direction {
            Direction::Reverse => RetransmitReporting::Receiver,
            _ => RetransmitReporting::Counted,
        };
        let peer_results = self
            .control
            .exchange_results(&local_results, retransmit_reporting)?;
        self.control.send_final_state()?;
        // `RemoteServerTest` still holds the connection, and a server may keep its streams until it closes.
        control.shut_down();
        if peer_results.streams.len() == local_results.streams.len() {
            return Ok(peer_results);
        }
        Err(TestError::RefusedByServer(
            match self.parameters.direction {
                Direction::Bidirectional => BIDIRECTIONAL_REFUSAL.into(),
                Direction::Forward | Direction::Reverse => format!(
                    "the server reports {} streams, and the test has {}",
                    peer_results.streams.len(),
                    local_results.streams.len()
                ),
            },
        ))
    }

    /// Waits until the server has acknowledged all data and had time to read it.
    fn wait_for_server_read(&self, deadline: Instant) {
        let is_unacknowledged = |MeteredStream { stream, .. }: &MeteredStream| {
            stream.role == Role::Source
                && read_unacknowledged_bytes(&stream.socket).unwrap_or(0) > 0
        };
        while self.streams.iter().any(is_unacknowledged) && Instant::now() < deadline {
            std::thread::sleep(STREAM_POLL_INTERVAL);
        }
        if self.parameters.direction != Direction::Reverse {
            std::thread::sleep(SERVER_READ_TIME_BEFORE_TEST_END);
        }
    }

    /// Waits until the server has closed its sending streams, which it does at the end of the test.
    fn wait_for_server_close(&self, deadline: Instant) {
        let is_receiving = |MeteredStream { stream, .. }: &MeteredStream| {
            stream.role == Role::Sink && stream.end.get().is_none()
        };
        while self.streams.iter().any(is_receiving) && Instant::now() < deadline {
            std::thread::sleep(STREAM_POLL_INTERVAL);
        }
    }

    fn local_results(&mut self, elapsed: Duration) -> TestResults {
        let cpu_time = CpuTimeTotal::default();
        cpu_time.add(CpuTime::current_process(), self.cpu_at_start);
        let streams =
            self.streams
                .iter_mut()
                .enumerate()
                .map(|(index, MeteredStream { stream, meter })| {
                    let is_sender = stream.role == Role::Source;
                    let retransmits = meter.read_or_keep_last(stream.socket.as_fd()).retransmits;
                    StreamResult {
                        id: stream_id_from_index(index),
                        bytes: if is_sender {
                            stream.counters.sent.bytes()
                        } else {
                            stream.counters.received.bytes()
                        },
                        retransmits: is_sender.then_some(retransmits),
                        duration_s: elapsed.as_secs_f64(),
                        ..StreamResult::default()
                    }
                });
        TestResults {
            streams: streams.collect(),
            cpu: cpu_time.usage_over(elapsed),
            ..TestResults::default()
        }
    }
}
