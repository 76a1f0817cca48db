//! The command `iperf3-client`: runs one test against an iperf3 server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::PollFlags;
use socket2::{SockAddr, Socket};

use crate::client_control::ClientControl;
use crate::client_options::ClientOptions;
use crate::control_connection::PROTOCOL_STEP_TIMEOUT;
use crate::limits::{MAX_DATAGRAM_BYTES, MIN_DATAGRAM_BYTES, Transport};
use crate::parameters::{Direction, TestParameters};
use crate::printer::{Printer, write_stdout};
use crate::results::TestResults;
use crate::running::RunningTest;
use crate::session::format_connection_line;
use crate::sockets::{apply_parameters, bind_source, connect_tcp, open_socket, resolve};
use crate::states::TestError;
use crate::streams::{LabelledStream, TestStream, label_streams};
use crate::udp::{CONNECT_MESSAGE, is_connect_reply};
use crate::{interrupt, json};
use vnetbench_streams::Role;
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::waiting::{WaitOutcome, Waker, wait};

/// Label of the first stream; iperf3 prints the number of its socket here.
const FIRST_STREAM_LABEL: u32 = 5;

/// Runs the test and prints its results. A JSON document contains the error, too.
pub fn run(options: &ClientOptions) -> Result<(), TestError> {
    interrupt::install_sigint_handler().map_err(|error| {
        TestError::failed(format!("cannot install the handler for Ctrl-C: {error}"))
    })?;
    let mut document = json::JsonDocument {
        title: options.parameters.title.clone(),
        extra_data: options.parameters.extra_data.clone(),
        start: serde_json::json!({}),
        end: serde_json::json!({}),
        ..json::JsonDocument::default()
    };
    let outcome = run_test(options, &mut document);
    if options.session.json {
        document.error = outcome.as_ref().err().map(ToString::to_string);
        let text = serde_json::to_string_pretty(&document)
            .expect("the document serialises: it holds only JSON values");
        write_stdout(&format!("{text}\n"));
    }
    outcome
}

fn run_test(options: &ClientOptions, document: &mut json::JsonDocument) -> Result<(), TestError> {
    let mut printer = Printer {
        prefix: options
            .parameters
            .title
            .as_ref()
            .map(|title| format!("{title}:  "))
            .unwrap_or_default(),
        is_silent: options.session.json,
        transcript: None,
    };
    let address =
        resolve(&options.host, options.port, options.family).map_err(TestError::Failed)?;
    printer.print_line(&format!(
        "Connecting to host {}, port {}",
        options.host, options.port
    ));
    let control = ClientControl::open_connection(
        address,
        options.bind,
        options.connect_timeout,
        options.session.idle_timeout,
    )?;
    Client {
        options,
        address,
        control,
    }
    .run_test(document, &mut printer)
}

struct Client<'a> {
    options: &'a ClientOptions,
    address: SocketAddr,
    control: ClientControl,
}

impl Client<'_> {
    fn run_test(
        &mut self,
        document: &mut json::JsonDocument,
        printer: &mut Printer,
    ) -> Result<(), TestError> {
        let parameters = self.build_test_parameters();
        self.control.send_cookie_and_parameters(&parameters)?;
        if parameters.direction == Direction::Reverse {
            printer.print_line(&format!(
                "Reverse mode, remote host {} is sending",
                self.options.host
            ));
        }
        let streams = self.open_streams(&parameters)?;
        let labels: Vec<u32> = (FIRST_STREAM_LABEL..)
            .step_by(2)
            .take(streams.len())
            .collect();
        let labelled_streams = label_streams(&labels, &streams);
        for LabelledStream { label, stream } in &labelled_streams {
            printer.print_line(&format_connection_line(*label, stream));
        }
        document.start = json::start_section_json(&json::StartInfo {
            is_client: true,
            parameters: &parameters,
            cookie: &self.control.cookie,
            peer: self.address,
            control_mss: self.control.connection.read_mss_bytes(),
            streams: &labelled_streams,
        });
        let mut running_test = RunningTest::prepare(
            streams,
            &labels,
            &parameters,
            &self.options.session,
            true,
            &CpuList::default(),
        )?;
        interrupt::set_load_that_sigint_stops(&running_test.load.shared);
        self.control.await_start()?;
        let outcome = self
            .run_load(&mut running_test, printer)
            .and_then(|()| self.end_load(&mut running_test, printer));
        document.intervals_left_out = running_test.record.dropped_intervals;
        if let Err(error) = outcome {
            running_test.load.stop();
            running_test.close_last_interval(Instant::now(), printer);
            document.intervals = running_test.intervals_json();
            return Err(error);
        }
        document.intervals = running_test.intervals_json();
        self.report_results(&running_test, document, printer)?;
        self.control.send_final_state()
    }

    /// Exchanges the results with the server, prints them and completes the document.
    fn report_results(
        &mut self,
        running_test: &RunningTest,
        document: &mut json::JsonDocument,
        printer: &mut Printer,
    ) -> Result<(), TestError> {
        let local_results = running_test.finish_local_results();
        let peer_results = self
            .control
            .exchange_results(&local_results, running_test.retransmit_reporting())?;
        let report = running_test.final_report(&local_results, Some(&peer_results));
        running_test.print_report(&report, printer);
        document.end = json::end_section_json(&running_test.layout, &report);
        print_server_output(peer_results, document, printer);
        printer.print_line("");
        printer.print_line("vnetbench iperf3 done.");
        Ok(())
    }

    /// Returns the parameters of the command line; the path's MSS sets the default datagram size.
    fn build_test_parameters(&self) -> TestParameters {
        let mut parameters = self.options.parameters.clone();
        if parameters.is_udp() && !self.options.has_block_length {
            // One datagram fills one segment, as in iperf3.
            let mss = self.control.connection.read_mss_bytes() as usize;
            if (MIN_DATAGRAM_BYTES..=MAX_DATAGRAM_BYTES).contains(&mss) {
                parameters.block_bytes = mss;
            }
        }
        parameters
    }

    fn open_streams(&self, parameters: &TestParameters) -> Result<Vec<Arc<TestStream>>, TestError> {
        (0..parameters.total_stream_count())
            .map(|index| {
                let socket = match parameters.transport {
                    Transport::Tcp => self.connect_tcp_stream(parameters, index)?,
                    Transport::Udp => self.connect_udp_stream(parameters, index)?,
                };
                let role = match parameters.direction {
                    Direction::Forward => Role::Source,
                    Direction::Reverse => Role::Sink,
                    Direction::Bidirectional if index < parameters.streams_per_direction => {
                        Role::Source
                    }
                    Direction::Bidirectional => Role::Sink,
                };
                TestStream::new(index, role, socket)
                    .map(Arc::new)
                    .map_err(|error| TestError::failed(format!("cannot set up a stream: {error}")))
            })
            .collect()
    }

    /// Returns the address from which the stream at `index` leaves; `None` leaves it to the kernel.
    fn source_address(&self, index: usize) -> Option<SocketAddr> {
        let Some(first_port) = self.options.first_source_port else {
            return self.options.bind.map(|bind| SocketAddr::new(bind, 0));
        };
        let any_address: IpAddr = match self.address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let port = first_port + index as u16;
        Some(SocketAddr::new(
            self.options.bind.unwrap_or(any_address),
            port,
        ))
    }

    fn connect_tcp_stream(
        &self,
        parameters: &TestParameters,
        index: usize,
    ) -> Result<Socket, TestError> {
        let options = self.options;
        let socket = connect_tcp(
            self.address,
            self.source_address(index),
            options.connect_timeout,
            |socket| apply_parameters(socket, parameters, &self.address),
        )?;
        self.control.send_cookie(&socket)?;
        Ok(socket)
    }

    /// Opens a UDP stream: sends the connect message and waits for the reply.
    fn connect_udp_stream(
        &self,
        parameters: &TestParameters,
        index: usize,
    ) -> Result<Socket, TestError> {
        let failed =
            |error: std::io::Error| TestError::failed(format!("cannot open a UDP stream: {error}"));
        let socket = open_socket(Transport::Udp, &self.address).map_err(failed)?;
        apply_parameters(&socket, parameters, &self.address)?;
        bind_source(&socket, self.source_address(index))?;
        socket
            .connect(&SockAddr::from(self.address))
            .map_err(failed)?;
        socket.send(&CONNECT_MESSAGE).map_err(failed)?;
        let waker = Waker::new().map_err(failed)?;
        let mut ready = Vec::new();
        let deadline =
            Instant::now() + PROTOCOL_STEP_TIMEOUT.min(self.options.session.idle_timeout);
        let reading = [(std::os::fd::AsFd::as_fd(&socket), PollFlags::IN)];
        if wait(&reading, &mut ready, &waker, Some(deadline)).map_err(failed)?
            == WaitOutcome::TimedOut
        {
            return Err(TestError::failed(format!(
                "{} does not answer over UDP. Check that firewalls on the path let UDP through",
                self.address
            )));
        }
        let mut reply = [0; 8];
        let (count, _) =
            rustix::net::recv(&socket, &mut reply[..], rustix::net::RecvFlags::empty())
                .map_err(|error| failed(error.into()))?;
        if !is_connect_reply(&reply[..count]) {
            return Err(TestError::failed(format!(
                "{} sent an unknown reply to the UDP connect message",
                self.address
            )));
        }
        Ok(socket)
    }

    fn run_load(
        &mut self,
        running_test: &mut RunningTest,
        printer: &mut Printer,
    ) -> Result<(), TestError> {
        let control = Arc::clone(&self.control.connection);
        running_test.run(&control, printer, &mut |bytes| {
            self.control
                .reject_message_during_load(bytes)
                .map(|()| false)
        })
    }

    /// Ends the test: waits for the data in flight and closes the last interval.
    fn end_load(
        &mut self,
        running_test: &mut RunningTest,
        printer: &mut Printer,
    ) -> Result<(), TestError> {
        let load_end = Instant::now();
        running_test.load.stop_sending();
        self.control.request_test_end()?;
        running_test.record.await_arrivals(&|_| None);
        running_test.load.stop();
        running_test.close_last_interval(running_test.record.last_arrival_since(load_end), printer);
        Ok(())
    }
}

fn print_server_output(
    peer_results: TestResults,
    document: &mut json::JsonDocument,
    printer: &mut Printer,
) {
    if let Some(text) = &peer_results.server_text {
        printer.print_line("");
        printer.print_line("Server output:");
        printer.print_line(text.trim_end());
    }
    if let Some(output) = &peer_results.server_json {
        printer.print_line("");
        printer.print_line("Server JSON output:");
        printer.print_line(&format!("{output:#}"));
    }
    document.server_output_text = peer_results.server_text;
    document.server_output_json = peer_results.server_json;
}
