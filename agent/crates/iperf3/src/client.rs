//! `iperf3-client`: one test against any iperf3 server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::PollFlags;
use socket2::{SockAddr, Socket};

use crate::client_control::Conversation;
use crate::control_connection::STEP_TIMEOUT;
use crate::limits::{MAX_DATAGRAM_BYTES, MIN_DATAGRAM_BYTES, Transport};
use crate::options::ClientOptions;
use crate::parameters::{Direction, Parameters};
use crate::printer::{Printer, print_whole};
use crate::results::Results;
use crate::running::Running;
use crate::session::connected_line;
use crate::sockets::{bind_from, connect, open, resolve, tune};
use crate::states::Failure;
use crate::streams::Flow;
use crate::udp::{GREETING, is_answer};
use crate::{interrupt, json};
use vnetbench_streams::Role;
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::waiting::{Waker, WaitOutcome, wait};

/// What the first stream is called; iperf3 shows the number of its socket.
const FIRST_SHOWN: u32 = 5;

/// Runs the test and prints it; the failure is in the JSON too.
pub fn run(options: &ClientOptions) -> Result<(), Failure> {
    interrupt::watch()
        .map_err(|error| Failure::broken(format!("Ctrl-C cannot be waited for: {error}")))?;
    let mut document = json::Document {
        title: options.asked.title.clone(),
        extra_data: options.asked.extra_data.clone(),
        start: serde_json::json!({}),
        end: serde_json::json!({}),
        ..json::Document::default()
    };
    let outcome = test(options, &mut document);
    if options.manner.json {
        document.error = outcome.as_ref().err().map(ToString::to_string);
        let text = serde_json::to_string_pretty(&document).expect("it is made of plain values");
        print_whole(&format!("{text}\n"));
    }
    outcome
}

fn test(options: &ClientOptions, document: &mut json::Document) -> Result<(), Failure> {
    let mut printer = Printer {
        prefix: options
            .asked
            .title
            .as_ref()
            .map(|title| format!("{title}:  "))
            .unwrap_or_default(),
        silent: options.manner.json,
        kept: None,
    };
    let address = resolve(&options.host, options.port, options.family).map_err(Failure::Broken)?;
    printer.line(&format!(
        "Connecting to host {}, port {}",
        options.host, options.port
    ));
    let talk = Conversation::open(
        address,
        options.bind,
        options.connect_timeout,
        options.manner.patience,
    )?;
    Client {
        options,
        address,
        talk,
    }
    .test(document, &mut printer)
}

struct Client<'a> {
    options: &'a ClientOptions,
    address: SocketAddr,
    talk: Conversation,
}

impl Client<'_> {
    fn test(
        &mut self,
        document: &mut json::Document,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let asked = self.parameters();
        self.talk.agree(&asked)?;
        if asked.direction == Direction::Reverse {
            printer.line(&format!(
                "Reverse mode, remote host {} is sending",
                self.options.host
            ));
        }
        let flows = self.open_streams(&asked)?;
        let shown: Vec<u32> = (FIRST_SHOWN..).step_by(2).take(flows.len()).collect();
        let numbered = json::numbered(&shown, &flows);
        for (shown, flow) in &numbered {
            printer.line(&connected_line(*shown, flow));
        }
        document.start = json::start(&json::Start {
            is_client: true,
            asked: &asked,
            cookie: &self.talk.cookie,
            peer: self.address,
            control_mss: self.talk.control.mss(),
            flows: &numbered,
        });
        let mut running = Running::prepare(
            flows,
            &shown,
            &asked,
            &self.options.manner,
            true,
            &CpuList::default(),
        )?;
        interrupt::ends(&running.load.shared);
        self.talk.expect_begin()?;
        let outcome = self
            .run(&mut running, printer)
            .and_then(|()| self.conclude(&mut running, printer));
        document.intervals_left_out = running.record.left_out;
        if let Err(failure) = outcome {
            running.load.stop();
            running.finish(Instant::now(), printer);
            document.intervals = running.intervals_json();
            return Err(failure);
        }
        document.intervals = running.intervals_json();
        let own = running.own_results();
        let theirs = self
            .talk
            .exchange_results(&own, running.retransmits_known())?;
        let done = running.final_report(&own, Some(&theirs));
        running.print_final(&done, printer);
        document.end = json::end(&running.layout, &done);
        show_server_output(theirs, document, printer);
        printer.line("");
        printer.line("vnetbench iperf3 done.");
        self.talk.be_done()
    }

    /// As asked on the command line; what depends on the path is filled in.
    fn parameters(&self) -> Parameters {
        let mut asked = self.options.asked.clone();
        if asked.is_udp() && !self.options.block_given {
            // One datagram a segment, as iperf3 does it.
            let mss = self.talk.control.mss() as usize;
            if (MIN_DATAGRAM_BYTES..=MAX_DATAGRAM_BYTES).contains(&mss) {
                asked.block_bytes = mss;
            }
        }
        asked
    }

    fn open_streams(&self, asked: &Parameters) -> Result<Vec<Arc<Flow>>, Failure> {
        (0..asked.all_streams())
            .map(|index| {
                let socket = match asked.transport {
                    Transport::Tcp => self.open_tcp(asked)?,
                    Transport::Udp => self.open_udp(asked)?,
                };
                let role = match asked.direction {
                    Direction::Forward => Role::Source,
                    Direction::Reverse => Role::Sink,
                    Direction::Both if index < asked.streams => Role::Source,
                    Direction::Both => Role::Sink,
                };
                Flow::new(index, role, socket)
                    .map(Arc::new)
                    .map_err(|error| Failure::broken(format!("a stream cannot be set up: {error}")))
            })
            .collect()
    }

    fn open_tcp(&self, asked: &Parameters) -> Result<Socket, Failure> {
        let options = self.options;
        let socket = connect(
            self.address,
            options.bind,
            options.connect_timeout,
            |socket| tune(socket, asked, &self.address),
        )?;
        self.talk.show_cookie(&socket)?;
        Ok(socket)
    }

    /// A UDP stream is one whose greeting was answered.
    fn open_udp(&self, asked: &Parameters) -> Result<Socket, Failure> {
        let failed = |error: std::io::Error| {
            Failure::broken(format!("a UDP stream cannot be opened: {error}"))
        };
        let socket = open(Transport::Udp, &self.address).map_err(failed)?;
        tune(&socket, asked, &self.address)?;
        bind_from(&socket, self.options.bind)?;
        socket
            .connect(&SockAddr::from(self.address))
            .map_err(failed)?;
        socket.send(&GREETING).map_err(failed)?;
        let quiet = Waker::new().map_err(failed)?;
        let mut ready = Vec::new();
        let until = Instant::now() + STEP_TIMEOUT.min(self.options.manner.patience);
        let reading = [(std::os::fd::AsFd::as_fd(&socket), PollFlags::IN)];
        if wait(&reading, &mut ready, &quiet, Some(until)).map_err(failed)? == WaitOutcome::TimedOut {
            return Err(Failure::broken(format!(
                "{} does not answer over UDP: a firewall may let only TCP through",
                self.address
            )));
        }
        let mut answer = [0; 8];
        let (count, _) =
            rustix::net::recv(&socket, &mut answer[..], rustix::net::RecvFlags::empty())
                .map_err(|error| failed(error.into()))?;
        if !is_answer(&answer[..count]) {
            return Err(Failure::broken(format!(
                "{} answered a UDP greeting with something else",
                self.address
            )));
        }
        Ok(socket)
    }

    fn run(&mut self, running: &mut Running, printer: &mut Printer) -> Result<(), Failure> {
        let control = Arc::clone(&self.talk.control);
        running.run(&control, printer, &mut |bytes| {
            self.talk.hear(bytes).map(|()| false)
        })
    }

    /// After the test's own end: everything that is on its way.
    fn conclude(&mut self, running: &mut Running, printer: &mut Printer) -> Result<(), Failure> {
        let ended = Instant::now();
        running.load.stop_sending();
        self.talk.end_load()?;
        running.record.drain(&|_| None);
        running.load.stop();
        running.finish(running.record.received_last(ended), printer);
        Ok(())
    }
}

fn show_server_output(theirs: Results, document: &mut json::Document, printer: &mut Printer) {
    if let Some(text) = &theirs.server_text {
        printer.line("");
        printer.line("Server output:");
        printer.line(text.trim_end());
    }
    if let Some(output) = &theirs.server_json {
        printer.line("");
        printer.line("Server JSON output:");
        printer.line(&format!("{output:#}"));
    }
    document.server_output_text = theirs.server_text;
    document.server_output_json = theirs.server_json;
}
