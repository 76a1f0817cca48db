//! `iperf3-client`: one test against any iperf3 server.

use std::collections::VecDeque;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::PollFlags;
use socket2::{SockAddr, Socket};

use super::control::{Control, STEP_TIMEOUT};
use super::interrupt;
use super::json;
use super::options::ClientOptions;
use super::parameters::{Direction, MAX_DATAGRAM_BYTES, MIN_DATAGRAM_BYTES, Parameters, Transport};
use super::printer::{Printer, print_whole};
use super::results::Results;
use super::running::Running;
use super::session::connected_line;
use super::sockets::{bind_from, connect, open, resolve, tune};
use super::states::{Failure, State, words_for};
use super::streams::Flow;
use super::udp::{GREETING, is_answer};
use super::wire::{COOKIE_BYTES, ClientEar, Cookie, FromServer, framed};
use crate::cpu_list::CpuList;
use crate::traffic::Role;
use crate::waiting::{Bell, Waited, wait};

/// What the first stream is called; iperf3 shows the number of its socket.
const FIRST_SHOWN: u32 = 5;
const COOKIE_LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

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
    let socket = connect(address, options.bind, options.connect_timeout, |_| Ok(()))?;
    let control =
        Control::new(socket).map_err(|error| Failure::broken(format!("{address}: {error}")))?;
    let mut conversation = Conversation {
        options,
        address,
        cookie: new_cookie()?,
        control,
        ear: ClientEar::new(),
        heard: VecDeque::new(),
    };
    let outcome = conversation.test(document, &mut printer);
    if outcome.is_err() {
        // It may be gone, and then needs not be told.
        let _ = conversation.control.say(State::ClientTerminated);
    }
    outcome
}

fn new_cookie() -> Result<Cookie, Failure> {
    let mut cookie = [0; COOKIE_BYTES];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut cookie))
        .map_err(|error| Failure::broken(format!("no random numbers can be had: {error}")))?;
    for byte in &mut cookie {
        *byte = COOKIE_LETTERS[usize::from(*byte) % COOKIE_LETTERS.len()];
    }
    cookie[COOKIE_BYTES - 1] = 0;
    Ok(cookie)
}

struct Conversation<'a> {
    options: &'a ClientOptions,
    address: SocketAddr,
    cookie: Cookie,
    control: Control,
    ear: ClientEar,
    heard: VecDeque<FromServer>,
}

impl Conversation<'_> {
    fn test(
        &mut self,
        document: &mut json::Document,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let asked = self.parameters();
        self.control.send(&self.cookie)?;
        self.expect(State::ParameterExchange, "answer")?;
        self.control.send(&framed(&asked.to_json()))?;
        self.expect(State::CreateStreams, "take the parameters")?;
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
            cookie: &self.cookie,
            peer: self.address,
            control_mss: self.control.mss(),
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
        self.expect(State::TestStart, "take the streams")?;
        self.expect(State::TestRunning, "start the test")?;
        let outcome = self
            .run(&mut running, printer)
            .and_then(|()| self.conclude(&mut running, printer));
        document.intervals_left_out = running.record.left_out;
        let theirs = match outcome {
            Ok(theirs) => theirs,
            Err(failure) => {
                running.load.stop();
                running.finish(Instant::now(), printer);
                document.intervals = running.intervals_json();
                return Err(failure);
            }
        };
        document.intervals = running.intervals_json();
        let own = running.own_results();
        self.control
            .send(&framed(&own.to_json(running.retransmits_known())))?;
        let theirs = match theirs {
            Some(early) => early,
            None => self.results()?,
        };
        let theirs = theirs.completed_by(&own);
        self.expect(State::DisplayResults, "end the test")?;
        let done = running.final_report(&own, Some(&theirs));
        running.print_final(&done, printer);
        document.end = json::end(&running.layout, &done);
        show_server_output(theirs, document, printer);
        printer.line("");
        printer.line("vnetbench iperf3 done.");
        self.control.say(State::Done)
    }

    /// As asked on the command line; what depends on the path is filled in.
    fn parameters(&self) -> Parameters {
        let mut asked = self.options.asked.clone();
        if asked.is_udp() && !self.options.block_given {
            // One datagram a segment, as iperf3 does it.
            let mss = self.control.mss() as usize;
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
        // All of it: a new connection's buffer is empty, and no smaller than this.
        socket
            .send(&self.cookie)
            .map_err(|error| Failure::broken(format!("a stream cannot be opened: {error}")))?;
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
        let quiet = Bell::new().map_err(failed)?;
        let mut ready = Vec::new();
        let until = Instant::now() + STEP_TIMEOUT.min(self.options.manner.patience);
        let reading = [(std::os::fd::AsFd::as_fd(&socket), PollFlags::IN)];
        if wait(&reading, &mut ready, &quiet, Some(until)).map_err(failed)? == Waited::TimedOut {
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
        let ear = &mut self.ear;
        running.run(
            &self.control,
            printer,
            &mut |bytes| match ear.hear(bytes)?.into_iter().next() {
                None => Ok(false),
                Some(said) => Err(failure_of(&said)),
            },
        )
    }

    /// After the test's own end: everything that is on its way. Returns the server's results where they came already.
    fn conclude(
        &mut self,
        running: &mut Running,
        printer: &mut Printer,
    ) -> Result<Option<Results>, Failure> {
        let ended = Instant::now();
        running.load.stop_sending();
        self.control.say(State::TestEnd)?;
        self.expect(State::ExchangeResults, "end the test")?;
        running.record.drain(&|_| None);
        running.load.stop();
        running.finish(running.record.received_last(ended), printer);
        match self.heard.pop_front() {
            None => Ok(None),
            Some(FromServer::Results(document)) => read_results(&document).map(Some),
            Some(other) => Err(failure_of(&other)),
        }
    }

    fn results(&mut self) -> Result<Results, Failure> {
        match self.next("send its results")? {
            FromServer::Results(document) => read_results(&document),
            other => Err(failure_of(&other)),
        }
    }

    fn next(&mut self, what: &str) -> Result<FromServer, Failure> {
        let (ear, heard) = (&mut self.ear, &mut self.heard);
        self.control
            .await_message(self.options.manner.patience, what, |bytes| {
                heard.extend(ear.hear(bytes)?);
                Ok(heard.pop_front())
            })
    }

    fn expect(&mut self, state: State, what: &str) -> Result<(), Failure> {
        match self.next(what)? {
            FromServer::State(said) if said == state => Ok(()),
            other => Err(failure_of(&other)),
        }
    }
}

fn read_results(document: &serde_json::Value) -> Result<Results, Failure> {
    Results::from_json(document).map_err(Failure::Broken)
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

fn failure_of(said: &FromServer) -> Failure {
    Failure::Broken(match said {
        FromServer::Error { number, errno: 0 } => format!("the server refused the test: {}", words_for(*number)),
        FromServer::Error { number, errno } => format!(
            "the server refused the test: {}: {}",
            words_for(*number),
            std::io::Error::from_raw_os_error(*errno)
        ),
        FromServer::State(State::AccessDenied) => "the server is busy running a test; try again later".into(),
        FromServer::State(State::ServerTerminated) => "the server has terminated".into(),
        FromServer::State(_) | FromServer::Results(_) => {
            "the server does not speak iperf3's protocol as far as it is known here: it spoke out of turn".into()
        }
    })
}
