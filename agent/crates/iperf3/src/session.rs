//! One client of a server, from its parameters to its results.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::control_connection::{Control, STEP_TIMEOUT};
use crate::json;
use crate::parameters::{Direction, Parameters};
use crate::printer::{Printer, print_whole};
use crate::results::Results;
use crate::running::Running;
use crate::session_options::Manner;
use crate::sockets::{open, plain, tune};
use crate::states::{Failure, Reason, State};
use crate::streams::Flow;
use crate::test_registry::{MAX_STREAMS, Place};
use crate::wire::{Cookie, FromClient, ServerEar, framed, server_error};
use vnetbench_streams::Role;
use vnetbench_system::cpu_list::CpuList;

/// How often a test that waits for streams looks whether its client is still there.
const LOOK: Duration = Duration::from_millis(20);
/// What the first stream of a test is called; iperf3 shows the number of its socket.
const FIRST_SHOWN: u32 = 5;

pub struct Session<'a> {
    control: Control,
    ear: ServerEar,
    heard: VecDeque<FromClient>,
    place: Place<'a>,
    cookie: Cookie,
    manner: Manner,
    printer: Printer,
    document: json::Document,
}

impl<'a> Session<'a> {
    /// `name` tells this client's lines from others' on the server's output.
    pub fn new(
        control: Control,
        cookie: Cookie,
        place: Place<'a>,
        manner: Manner,
        name: &str,
    ) -> Self {
        let printer = Printer {
            prefix: name.into(),
            silent: manner.json,
            kept: None,
        };
        Self {
            control,
            ear: ServerEar::new(),
            heard: VecDeque::new(),
            place,
            cookie,
            manner,
            printer,
            document: json::Document::default(),
        }
    }

    /// Serves the client to its end; returns whether that was a whole test.
    pub fn serve(mut self) -> bool {
        let mut running = None;
        let outcome = self.test(&mut running);
        if let Err(failure) = &outcome {
            // Whoever cannot be told is gone.
            let _ = match failure {
                Failure::Refused { reason, errno, .. } => {
                    self.control.send(&server_error(*reason, *errno))
                }
                Failure::ByHand => self.control.say(State::ServerTerminated),
                _ => Ok(()),
            };
            self.printer.line(&format!("error - {failure}"));
            self.document.error = Some(failure.to_string());
        }
        if self.manner.json {
            let text = serde_json::to_string(&self.document).expect("it is made of plain values");
            print_whole(&format!("{text}\n"));
        }
        self.control.part();
        // Only now: a client whose streams break before it has heard why says that they broke.
        drop(running);
        outcome.is_ok()
    }

    /// `under_way` is the load where there has been any: it holds the streams.
    fn test(&mut self, under_way: &mut Option<Running>) -> Result<(), Failure> {
        let peer = plain(self.control.peer);
        self.control.say(State::ParameterExchange)?;
        let asked = match self.next("send its parameters")? {
            FromClient::Parameters(document) => Parameters::from_json(&document)?,
            other => return Err(ended_by(&other)),
        };
        if asked.server_output {
            self.printer.kept = Some(String::new());
        }
        self.document.title.clone_from(&asked.title);
        self.document.extra_data.clone_from(&asked.extra_data);
        self.printer.line(&format!(
            "Accepted connection from {}, port {}",
            peer.ip(),
            peer.port()
        ));
        self.try_out(&asked)?;
        let flows = self.gather(&asked)?;
        let shown: Vec<u32> = (FIRST_SHOWN..).take(flows.len()).collect();
        let numbered = json::numbered(&shown, &flows);
        for (shown, flow) in &numbered {
            self.printer.line(&connected_line(*shown, flow));
        }
        self.document.start = json::start(&json::Start {
            is_client: false,
            asked: &asked,
            cookie: &self.cookie,
            peer: self.control.peer,
            control_mss: self.control.mss(),
            flows: &numbered,
        });
        let running = under_way.insert(Running::prepare(
            flows,
            &shown,
            &asked,
            &self.manner,
            false,
            &asked.server_cpus,
        )?);
        self.control.say(State::TestStart)?;
        self.ear.test_runs();
        self.control.say(State::TestRunning)?;
        let outcome = self.run(running);
        if outcome.is_err() {
            running.load.stop();
            running.finish(Instant::now(), &mut self.printer);
        }
        self.document.intervals = running.intervals_json();
        self.document.intervals_left_out = running.record.left_out;
        outcome?;
        self.conclude(running, &asked)
    }

    fn run(&mut self, running: &mut Running) -> Result<(), Failure> {
        let (ear, heard) = (&mut self.ear, &mut self.heard);
        running.run(&self.control, &mut self.printer, &mut |bytes| {
            heard.extend(ear.hear(bytes)?);
            match heard.pop_front() {
                None => Ok(false),
                Some(FromClient::TestEnd) => Ok(true),
                Some(other) => Err(ended_by(&other)),
            }
        })
    }

    /// After the client has ended the load: everything that is on its way, both sides' results, the last lines.
    fn conclude(&mut self, running: &mut Running, asked: &Parameters) -> Result<(), Failure> {
        let ended = Instant::now();
        running.load.stop_sending();
        if !asked.is_udp() {
            running.load.close_sources();
        }
        self.control.say(State::ExchangeResults)?;
        let theirs = match self.next("send its results")? {
            FromClient::Results(document) => Results::from_json(&document)
                .map_err(|words| Failure::refused(Reason::ReceiveResults, words))?,
            other => return Err(ended_by(&other)),
        };
        running.record.drain(&|id| running.expected_of(&theirs, id));
        running.load.stop();
        running.finish(running.record.received_last(ended), &mut self.printer);
        self.document.intervals = running.intervals_json();
        let mut own = running.own_results();
        let done = running.final_report(&own, Some(&theirs.completed_by(&own)));
        running.print_final(&done, &mut self.printer);
        self.document.end = json::end(&running.layout, &done);
        if asked.server_output {
            if self.manner.json {
                own.server_json = serde_json::to_value(&self.document).ok();
            } else {
                own.server_text = self.printer.kept.take();
            }
        }
        self.control
            .send(&framed(&own.to_json(running.retransmits_known())))?;
        self.control.say(State::DisplayResults)?;
        match self.next("end the test")? {
            FromClient::Done => Ok(()),
            other => Err(ended_by(&other)),
        }
    }

    fn next(&mut self, what: &str) -> Result<FromClient, Failure> {
        let (ear, heard) = (&mut self.ear, &mut self.heard);
        self.control
            .await_message(self.manner.patience, what, |bytes| {
                heard.extend(ear.hear(bytes)?);
                Ok(heard.pop_front())
            })
    }

    /// Whether the system gives what is asked, before any stream is made.
    fn try_out(&mut self, asked: &Parameters) -> Result<(), Failure> {
        if !self.place.take_streams(asked.all_streams()) {
            return Err(Failure::refused(
                Reason::NumberOfStreams,
                format!("the server's {MAX_STREAMS} streams are in use by others"),
            ));
        }
        let address = plain(self.control.peer);
        let socket = open(asked.transport, &address).map_err(|error| {
            Failure::refused(
                Reason::CreateStream,
                format!("no socket can be had: {error}"),
            )
        })?;
        tune(&socket, asked, &address)?;
        if !asked.server_cpus.is_empty() {
            try_cpus(&asked.server_cpus)?;
        }
        Ok(())
    }

    /// The streams in the order in which the client opens them: first those that it sends on.
    fn gather(&mut self, asked: &Parameters) -> Result<Vec<Arc<Flow>>, Failure> {
        let patience = STEP_TIMEOUT.min(self.manner.patience);
        let (to, from) = channel::<Socket>();
        if asked.is_udp() {
            let address = self.control.peer.ip().to_canonical();
            if !self.place.gather_udp(address, to, patience) {
                return Err(Failure::refused(
                    Reason::CreateStream,
                    format!("another client at {address} is still opening its UDP streams"),
                ));
            }
        } else {
            self.place.gather_tcp(to);
        }
        self.control.say(State::CreateStreams)?;
        let until = Instant::now() + patience;
        let mut flows = Vec::with_capacity(asked.all_streams());
        while flows.len() < asked.all_streams() {
            match from.recv_timeout(LOOK) {
                Ok(socket) => flows.push(Arc::new(self.stream(socket, flows.len(), asked)?)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::refused(
                        Reason::StreamAccept,
                        "the server takes no more streams",
                    ));
                }
                Err(RecvTimeoutError::Timeout) => {
                    // Fails where the server is ended by hand.
                    self.control.wait(None, Instant::now())?;
                    let bytes = self.control.read()?;
                    if let Some(said) = self.ear.hear(&bytes)?.first() {
                        return Err(ended_by(said));
                    }
                    if Instant::now() >= until {
                        return Err(Failure::refused(
                            Reason::StreamAccept,
                            format!(
                                "{} of {} streams were opened in time",
                                flows.len(),
                                asked.all_streams()
                            ),
                        ));
                    }
                }
            }
        }
        self.place.gathered();
        Ok(flows)
    }

    fn stream(&self, socket: Socket, index: usize, asked: &Parameters) -> Result<Flow, Failure> {
        let peer: Option<SocketAddr> = socket.peer_addr().ok().and_then(|peer| peer.as_socket());
        tune(&socket, asked, &peer.unwrap_or(self.control.peer))?;
        let role = match asked.direction {
            Direction::Forward => Role::Sink,
            Direction::Reverse => Role::Source,
            Direction::Both if index < asked.streams => Role::Sink,
            Direction::Both => Role::Source,
        };
        Flow::new(index, role, socket).map_err(|error| {
            Failure::refused(
                Reason::CreateStream,
                format!("a stream cannot be set up: {error}"),
            )
        })
    }
}

/// On a thread of its own: the session itself is not to move.
fn try_cpus(cpus: &CpuList) -> Result<(), Failure> {
    let cpus = cpus.clone();
    let tried = std::thread::spawn(move || cpus.apply_to(None)).join();
    match tried {
        Ok(Ok(())) => Ok(()),
        _ => Err(Failure::refused(
            Reason::Affinity,
            "the server has no such CPU",
        )),
    }
}

fn ended_by(said: &FromClient) -> Failure {
    match said {
        FromClient::Terminated => Failure::broken("the client has terminated"),
        FromClient::Parameters(_)
        | FromClient::TestEnd
        | FromClient::Results(_)
        | FromClient::Done => {
            Failure::refused(Reason::UnknownMessage, "the client spoke out of turn")
        }
    }
}

pub fn connected_line(shown: u32, flow: &Flow) -> String {
    let address = |address: std::io::Result<socket2::SockAddr>| {
        address
            .ok()
            .and_then(|address| address.as_socket())
            .map_or_else(
                || "somewhere".to_owned(),
                |address| format!("{} port {}", plain(address).ip(), address.port()),
            )
    };
    format!(
        "[{shown:>3}] local {} connected to {}",
        address(flow.socket.local_addr()),
        address(flow.socket.peer_addr())
    )
}

/// Tells a client that there is no room for its test.
pub fn deny(control: &Control) -> Result<(), Failure> {
    control.say(State::AccessDenied)?;
    control.part();
    Ok(())
}
