//! Serves one client, from its parameters to the results.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::client_messages::{ClientControlMessage, ClientMessageDecoder};
use crate::control_connection::{ControlConnection, PROTOCOL_STEP_TIMEOUT};
use crate::json;
use crate::parameters::{Direction, TestParameters};
use crate::printer::{Printer, write_stdout};
use crate::results::TestResults;
use crate::running::RunningTest;
use crate::session_options::SessionOptions;
use crate::sockets::{apply_parameters, open_socket, unmap_ipv4_address};
use crate::states::{ErrorCode, State, TestError};
use crate::streams::{LabelledStream, TestStream, label_streams};
use crate::test_registry::{MAX_STREAMS_OF_ALL_TESTS, MAX_STREAMS_PER_CLIENT, RegistrationGuard};
use crate::wire::{Cookie, encode_document, encode_server_error};
use vnetbench_streams::Role;
use vnetbench_system::cpu_list::CpuList;

/// Time between two checks of the control connection while the server waits for streams.
const CONTROL_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Label of the first stream; iperf3 prints the number of its socket here.
const FIRST_STREAM_LABEL: u32 = 5;

/// One client's test on the server.
pub struct Session<'a> {
    control: ControlConnection,
    decoder: ClientMessageDecoder,
    messages: VecDeque<ClientControlMessage>,
    registration: RegistrationGuard<'a>,
    cookie: Cookie,
    options: SessionOptions,
    printer: Printer,
    document: json::JsonDocument,
}

impl<'a> Session<'a> {
    /// Creates a session; `output_prefix` precedes this client's lines in the server's output.
    pub fn new(
        control: ControlConnection,
        cookie: Cookie,
        registration: RegistrationGuard<'a>,
        options: SessionOptions,
        output_prefix: &str,
    ) -> Self {
        let printer = Printer {
            prefix: output_prefix.into(),
            is_silent: options.json,
            transcript: None,
        };
        Self {
            control,
            decoder: ClientMessageDecoder::new(),
            messages: VecDeque::new(),
            registration,
            cookie,
            options,
            printer,
            document: json::JsonDocument::default(),
        }
    }

    /// Serves the client; returns whether it completed its test.
    pub fn serve(mut self) -> bool {
        let mut running_test = None;
        let outcome = self.run_test(&mut running_test);
        if let Err(error) = &outcome {
            // Fails only if the client is gone.
            let _ = match error {
                TestError::Refused { code, errno, .. } => {
                    self.control.send(&encode_server_error(*code, *errno))
                }
                TestError::Interrupted => self.control.send_state(State::ServerTerminated),
                _ => Ok(()),
            };
            self.printer.print_line(&format!("error - {error}"));
            self.document.error = Some(error.to_string());
        }
        if self.options.json {
            let text = serde_json::to_string(&self.document)
                .expect("the document serialises: it holds only JSON values");
            write_stdout(&format!("{text}\n"));
        }
        self.control.close_after_peer_reads();
        // Close the streams last: otherwise the client reports broken streams instead of this error.
        drop(running_test);
        outcome.is_ok()
    }

    /// Runs the test; `running_test` receives the load, which owns the streams.
    fn run_test(&mut self, running_test: &mut Option<RunningTest>) -> Result<(), TestError> {
        let peer = unmap_ipv4_address(self.control.peer);
        self.control.send_state(State::ParameterExchange)?;
        let parameters = match self.next_message("send its parameters")? {
            ClientControlMessage::Parameters(document) => TestParameters::from_json(&document)?,
            other => return Err(unexpected_message_error(&other)),
        };
        if parameters.wants_server_output {
            self.printer.transcript = Some(String::new());
        }
        self.document.title.clone_from(&parameters.title);
        self.document.extra_data.clone_from(&parameters.extra_data);
        self.printer.print_line(&format!(
            "Accepted connection from {}, port {}",
            peer.ip(),
            peer.port()
        ));
        self.reserve_and_check_resources(&parameters)?;
        let streams = self.accept_streams(&parameters)?;
        let labels: Vec<u32> = (FIRST_STREAM_LABEL..).take(streams.len()).collect();
        let labelled_streams = label_streams(&labels, &streams);
        for LabelledStream { label, stream } in &labelled_streams {
            self.printer
                .print_line(&format_connection_line(*label, stream));
        }
        self.document.start = json::start_section_json(&json::StartInfo {
            is_client: false,
            parameters: &parameters,
            cookie: &self.cookie,
            peer: self.control.peer,
            control_mss: self.control.read_mss_bytes(),
            streams: &labelled_streams,
        });
        let running_test = running_test.insert(RunningTest::prepare(
            streams,
            &labels,
            &parameters,
            &self.options,
            false,
            &parameters.server_cpus,
        )?);
        self.control.send_state(State::TestStart)?;
        self.decoder.allow_test_end();
        self.control.send_state(State::TestRunning)?;
        let outcome = self.run_load(running_test);
        if outcome.is_err() {
            running_test.load.stop();
            running_test.close_last_interval(Instant::now(), &mut self.printer);
        }
        self.document.intervals = running_test.intervals_json();
        self.document.intervals_left_out = running_test.record.dropped_intervals;
        outcome?;
        self.finish(running_test, &parameters)
    }

    fn run_load(&mut self, running_test: &mut RunningTest) -> Result<(), TestError> {
        let (decoder, messages) = (&mut self.decoder, &mut self.messages);
        running_test.run(&self.control, &mut self.printer, &mut |bytes| {
            messages.extend(decoder.feed(bytes)?);
            match messages.pop_front() {
                None => Ok(false),
                Some(ClientControlMessage::TestEnd) => Ok(true),
                Some(other) => Err(unexpected_message_error(&other)),
            }
        })
    }

    /// Ends the test: waits for the data in flight, exchanges results and prints the report.
    fn finish(
        &mut self,
        running_test: &mut RunningTest,
        parameters: &TestParameters,
    ) -> Result<(), TestError> {
        let load_end = Instant::now();
        running_test.load.stop_sending();
        if !parameters.is_udp() {
            running_test.load.shut_down_sending();
        }
        self.control.send_state(State::ExchangeResults)?;
        let peer_results = match self.next_message("send its results")? {
            ClientControlMessage::Results(document) => TestResults::from_json(&document)
                .map_err(|message| TestError::refused(ErrorCode::ReceiveResults, message))?,
            other => return Err(unexpected_message_error(&other)),
        };
        running_test
            .record
            .await_arrivals(&|id| running_test.bytes_or_datagrams_sent_by_peer(&peer_results, id));
        running_test.load.stop();
        running_test.close_last_interval(
            running_test.record.last_arrival_since(load_end),
            &mut self.printer,
        );
        self.document.intervals = running_test.intervals_json();
        let mut local_results = running_test.finish_local_results();
        let report = running_test.final_report(
            &local_results,
            Some(&peer_results.fill_missing_from(&local_results)),
        );
        running_test.print_report(&report, &mut self.printer);
        self.document.end = json::end_section_json(&running_test.layout, &report);
        if parameters.wants_server_output {
            if self.options.json {
                local_results.server_json = serde_json::to_value(&self.document).ok();
            } else {
                local_results.server_text = self.printer.transcript.take();
            }
        }
        self.control.send(&encode_document(
            &local_results.to_json(running_test.retransmit_reporting()),
        ))?;
        self.control.send_state(State::DisplayResults)?;
        match self.next_message("end the test")? {
            ClientControlMessage::Done => Ok(()),
            other => Err(unexpected_message_error(&other)),
        }
    }

    fn next_message(&mut self, action: &str) -> Result<ClientControlMessage, TestError> {
        let (decoder, messages) = (&mut self.decoder, &mut self.messages);
        self.control
            .await_message(self.options.idle_timeout, action, |bytes| {
                messages.extend(decoder.feed(bytes)?);
                Ok(messages.pop_front())
            })
    }

    /// Reserves the streams, and checks that the system supports the parameters before any stream opens.
    fn reserve_and_check_resources(
        &mut self,
        parameters: &TestParameters,
    ) -> Result<(), TestError> {
        if !self
            .registration
            .reserve_streams(parameters.total_stream_count())
        {
            return Err(TestError::refused(
                ErrorCode::NumberOfStreams,
                format!(
                    "the server allows {MAX_STREAMS_PER_CLIENT} streams of one client and {MAX_STREAMS_OF_ALL_TESTS} of all"
                ),
            ));
        }
        let address = unmap_ipv4_address(self.control.peer);
        let socket = open_socket(parameters.transport, &address).map_err(|error| {
            TestError::refused(
                ErrorCode::CreateStream,
                format!("cannot open a socket: {error}"),
            )
        })?;
        apply_parameters(&socket, parameters, &address)?;
        if !parameters.server_cpus.is_empty() {
            check_cpus_on_new_thread(&parameters.server_cpus)?;
        }
        Ok(())
    }

    /// Accepts the streams in the order in which the client opens them: those on which it sends come first.
    fn accept_streams(
        &mut self,
        parameters: &TestParameters,
    ) -> Result<Vec<Arc<TestStream>>, TestError> {
        let timeout = PROTOCOL_STEP_TIMEOUT.min(self.options.idle_timeout);
        let (sender, receiver) = channel::<Socket>();
        if parameters.is_udp() {
            let address = self.control.peer.ip().to_canonical();
            if !self
                .registration
                .wait_to_collect_udp_streams(address, sender, timeout)
            {
                return Err(TestError::refused(
                    ErrorCode::CreateStream,
                    format!("another client at {address} is still opening its UDP streams"),
                ));
            }
        } else {
            self.registration.collect_tcp_streams(sender);
        }
        self.control.send_state(State::CreateStreams)?;
        let deadline = Instant::now() + timeout;
        let mut streams = Vec::with_capacity(parameters.total_stream_count());
        while streams.len() < parameters.total_stream_count() {
            match receiver.recv_timeout(CONTROL_POLL_INTERVAL) {
                Ok(socket) => streams.push(Arc::new(self.create_stream(
                    socket,
                    streams.len(),
                    parameters,
                )?)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(TestError::refused(
                        ErrorCode::StreamAccept,
                        "the server accepts no more streams",
                    ));
                }
                Err(RecvTimeoutError::Timeout) => {
                    // Returns an error if a signal ends the server.
                    self.control.wait(None, Instant::now())?;
                    let bytes = self.control.read()?;
                    if let Some(message) = self.decoder.feed(&bytes)?.first() {
                        return Err(unexpected_message_error(message));
                    }
                    if Instant::now() >= deadline {
                        return Err(TestError::refused(
                            ErrorCode::StreamAccept,
                            format!(
                                "the client opened {} of {} streams in time",
                                streams.len(),
                                parameters.total_stream_count()
                            ),
                        ));
                    }
                }
            }
        }
        self.registration.end_collection();
        Ok(streams)
    }

    fn create_stream(
        &self,
        socket: Socket,
        index: usize,
        parameters: &TestParameters,
    ) -> Result<TestStream, TestError> {
        let peer: Option<SocketAddr> = socket.peer_addr().ok().and_then(|peer| peer.as_socket());
        apply_parameters(&socket, parameters, &peer.unwrap_or(self.control.peer))?;
        let role = match parameters.direction {
            Direction::Forward => Role::Sink,
            Direction::Reverse => Role::Source,
            Direction::Bidirectional if index < parameters.streams_per_direction => Role::Sink,
            Direction::Bidirectional => Role::Source,
        };
        TestStream::new(index, role, socket).map_err(|error| {
            TestError::refused(
                ErrorCode::CreateStream,
                format!("cannot set up a stream: {error}"),
            )
        })
    }
}

/// Checks the CPUs on a new thread: the session's thread keeps its affinity.
fn check_cpus_on_new_thread(cpus: &CpuList) -> Result<(), TestError> {
    let cpus = cpus.clone();
    let result = std::thread::spawn(move || cpus.apply_to(None)).join();
    match result {
        Ok(Ok(())) => Ok(()),
        _ => Err(TestError::refused(
            ErrorCode::Affinity,
            "the server cannot use this CPU",
        )),
    }
}

fn unexpected_message_error(message: &ClientControlMessage) -> TestError {
    match message {
        ClientControlMessage::Terminated => TestError::failed("the client has terminated"),
        ClientControlMessage::Parameters(_)
        | ClientControlMessage::TestEnd
        | ClientControlMessage::Results(_)
        | ClientControlMessage::Done => TestError::refused(
            ErrorCode::UnknownMessage,
            "the client sent a message out of turn",
        ),
    }
}

/// Returns the line that iperf3 prints for a connected stream.
pub fn format_connection_line(label: u32, stream: &TestStream) -> String {
    let address = |address: std::io::Result<socket2::SockAddr>| {
        address
            .ok()
            .and_then(|address| address.as_socket())
            .map_or_else(
                || "an unknown address".to_owned(),
                |address| {
                    format!(
                        "{} port {}",
                        unmap_ipv4_address(address).ip(),
                        address.port()
                    )
                },
            )
    };
    format!(
        "[{label:>3}] local {} connected to {}",
        address(stream.socket.local_addr()),
        address(stream.socket.peer_addr())
    )
}

/// Informs a client that the server is busy.
pub fn deny_access(control: &ControlConnection) -> Result<(), TestError> {
    control.send_state(State::AccessDenied)?;
    control.close_after_peer_reads();
    Ok(())
}
