//! The request loop: reads one request per line, dispatches it, and ensures that each request is answered exactly once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::lines::{Line, MAX_LINE_BYTES, read_line};
use crate::outbox::Outbox;
use crate::path::{self, PathResponders};
use crate::rpc::{self, Request};
use crate::trial::Trials;
use crate::{facts, guest, journal, knob_requests};
use vnetbench_counters::ProcessCycles;
use vnetbench_delay_line::DelayLines;
use vnetbench_frames::capabilities::probe_capabilities;
use vnetbench_iperf3::server_probe;
use vnetbench_system::clock;
use vnetbench_system::error::{RequestError, Result};
use vnetbench_teams::Teams;

const PROTOCOL_VERSION: u32 = 3;
const WORKLOADS: [&str; 7] = [
    "tcp_stream",
    "tcp_rr",
    "tcp_crr",
    "udp_stream",
    "frames",
    "mixed",
    "observe",
];

/// The maximum number of requests that block at one time, for example while streams connect.
const MAX_BLOCKED_REQUESTS: usize = 256;
/// How long the agent waits at its end for the last answers to be written.
const FINAL_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The system that the agent runs on; it decides which methods exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    /// A host that belongs to the user.
    Host,
    /// A guest that the agent controls completely: its name, its addresses, its power state.
    Guest,
}

/// Serves standard input and output until the input closes.
pub fn serve(run_mode: RunMode) -> ExitCode {
    if run_mode == RunMode::Guest {
        clock::set_identity(None);
    }
    // Opens the counter before any other thread starts: it includes only threads that start later.
    let cycles = ProcessCycles::open();
    raise_file_descriptor_limit();
    let outbox = match Outbox::open_on_stdout() {
        Ok(outbox) => outbox,
        Err(error) => {
            eprintln!("vnetbench-agent: cannot start a thread: {error}");
            return ExitCode::FAILURE;
        }
    };
    let agent = Agent {
        trials: Trials::new(Arc::clone(&outbox), cycles.clone()),
        paths: PathResponders::default(),
        delay_lines: DelayLines::default(),
        teams: Teams::default(),
        blocked_requests: Arc::default(),
        outbox,
        cycles,
        run_mode,
    };
    let mut input = std::io::stdin().lock();
    while let Ok(line) = read_line(&mut input) {
        match line {
            Line::Text(text) => agent.handle_line(text.trim_ascii()),
            Line::TooLong => {
                let error = RequestError::InvalidRequest(format!(
                    "the line is longer than {MAX_LINE_BYTES} bytes"
                ));
                agent
                    .outbox
                    .queue_answer_when_room(rpc::format_answer(&Value::Null, Err(error)));
            }
            Line::End => break,
        }
    }
    // In a guest, the next reader of the port is another host, which must not get these answers.
    if run_mode == RunMode::Host {
        agent.outbox.drain(FINAL_DRAIN_TIMEOUT);
    }
    // Ends every thread. Closing the sockets (SO_LINGER is off) ends every stream.
    journal::restore_and_exit()
}

/// Raises the soft limit of open files to the hard limit. Each stream needs a descriptor, and the usual limit is 1024.
fn raise_file_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // If this fails, the call that reaches the lower limit reports an error.
    let _ = setrlimit(Resource::Nofile, raised);
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParameters {}

struct Agent {
    outbox: Arc<Outbox>,
    cycles: ProcessCycles,
    trials: Arc<Trials>,
    paths: PathResponders,
    delay_lines: DelayLines,
    teams: Teams,
    blocked_requests: Arc<AtomicUsize>,
    run_mode: RunMode,
}

impl Agent {
    fn handle_line(&self, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        match rpc::parse_request(line) {
            Ok(request) => {
                let reply = Reply {
                    id: request.id.clone(),
                    outbox: Arc::clone(&self.outbox),
                };
                // A panic in one request must not end running trials. Unwinding drops the reply, which then answers with
                // an error.
                let _ = catch_unwind(AssertUnwindSafe(|| self.dispatch(request, reply)));
            }
            Err((id, error)) => self
                .outbox
                .queue_answer_when_room(rpc::format_answer(&id, Err(error))),
        }
    }

    fn dispatch(&self, request: Request, reply: Reply) {
        let Request { method, params, .. } = request;
        match method.as_str() {
            "agent.hello" => reply.send(Ok(collect_hello_answer())),
            "agent.facts" => reply.send(Ok(facts::collect_facts(&self.cycles))),
            "knob.get" => reply.parse_run_and_send(params, knob_requests::get_knobs),
            "knob.set" => reply.parse_run_and_send(params, knob_requests::set_knob),
            "path.listen" => reply.parse_run_and_send(params, |p| self.paths.listen(p)),
            "path.close" => reply.parse_run_and_send(params, |p| self.paths.close(p)),
            "path.probe" => self.run_parsed_on_thread(params, reply, path::probe_path),
            "delay_line.start" => reply.parse_run_and_send(params, |p| self.delay_lines.start(p)),
            "delay_line.set" => {
                reply.parse_run_and_send(params, |p| self.delay_lines.reset_with(p))
            }
            "delay_line.read" => reply.parse_run_and_send(params, |p| self.delay_lines.read(p)),
            "delay_line.stop" => reply.parse_run_and_send(params, |p| self.delay_lines.stop(p)),
            "frames.capabilities" => self.run_parsed_on_thread(params, reply, probe_capabilities),
            "iperf3.probe" => self.run_parsed_on_thread(params, reply, server_probe::probe_server),
            "trial.prepare" => match rpc::parse_params(params).and_then(|p| self.trials.prepare(p))
            {
                Ok((trial, None)) => {
                    self.run_on_thread(reply, move || trial.wait_until_connected())
                }
                Ok((_, Some(answer))) => reply.send(Ok(answer)),
                Err(error) => reply.send(Err(error)),
            },
            "trial.ready" => match rpc::parse_params(params).and_then(|p| self.trials.find(p)) {
                Ok(trial) => self.run_on_thread(reply, move || trial.wait_until_ready()),
                Err(error) => reply.send(Err(error)),
            },
            "trial.start" => {
                match rpc::parse_params(params).and_then(|p| self.trials.request_start(p)) {
                    Ok(starting) => self.run_on_thread(reply, move || starting.wait()),
                    Err(error) => reply.send(Err(error)),
                }
            }
            "trial.stop" => reply.parse_run_and_send(params, |p| self.trials.request_stop(p)),
            "guest.configure" if self.run_mode == RunMode::Guest => {
                reply.parse_run_and_send(params, guest::configure)
            }
            "guest.team" if self.run_mode == RunMode::Guest => {
                reply.parse_run_and_send(params, guest::create_team)
            }
            "guest.team_state" if self.run_mode == RunMode::Guest => {
                reply.parse_run_and_send(params, guest::read_team_state)
            }
            "guest.power_off" if self.run_mode == RunMode::Guest => {
                match rpc::parse_params::<NoParameters>(params) {
                    Ok(NoParameters {}) => {
                        reply.send(Ok(json!({})));
                        self.outbox.drain(FINAL_DRAIN_TIMEOUT);
                        guest::power_off()
                    }
                    Err(error) => reply.send(Err(error)),
                }
            }
            _ => self.dispatch_team(method, params, reply),
        }
    }

    fn dispatch_team(&self, method: String, params: Map<String, Value>, reply: Reply) {
        match method.as_str() {
            "team.start" => reply.parse_run_and_send(params, |p| self.teams.start(p)),
            "team.read" => reply.parse_run_and_send(params, |p| self.teams.read(p)),
            "team.stop" => reply.parse_run_and_send(params, |p| self.teams.stop(p)),
            _ => reply.send(Err(RequestError::UnknownMethod(method))),
        }
    }

    /// Parses the parameters of a blocking request and runs it on a thread of its own.
    fn run_parsed_on_thread<P: DeserializeOwned + Send + 'static>(
        &self,
        params: Map<String, Value>,
        reply: Reply,
        work: impl FnOnce(P) -> Result<Value> + Send + 'static,
    ) {
        match rpc::parse_params(params) {
            Ok(params) => self.run_on_thread(reply, move || work(params)),
            Err(error) => reply.send(Err(error)),
        }
    }

    /// Runs a blocking request on a thread of its own and sends its answer.
    fn run_on_thread(&self, reply: Reply, work: impl FnOnce() -> Result<Value> + Send + 'static) {
        let slot = BlockingRequestSlot::new(&self.blocked_requests);
        if slot.number > MAX_BLOCKED_REQUESTS {
            return reply.send(Err(RequestError::System {
                operation: "accept another blocking request".into(),
                errno: libc::EAGAIN,
                reason: format!(
                    "{MAX_BLOCKED_REQUESTS} requests already wait, which is the maximum"
                ),
                kind: None,
            }));
        }
        // If no thread can be started, the closure and its reply are dropped; the reply then answers with an error.
        let _ = std::thread::Builder::new()
            .name("request".into())
            .spawn(move || {
                reply.send(work());
                drop(slot);
            });
    }
}

fn collect_hello_answer() -> Value {
    json!({
        "agent": "vnetbench-agent",
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": PROTOCOL_VERSION,
        "pid": std::process::id(),
        "workloads": WORKLOADS,
    })
}

/// The single answer of a request. If it is dropped unused, because of a bug or a panic, it sends an internal error.
struct Reply {
    id: Option<Value>,
    outbox: Arc<Outbox>,
}

impl Reply {
    /// Parses the parameters of a request that does not block, runs it on this thread and sends its answer.
    fn parse_run_and_send<P: DeserializeOwned>(
        self,
        params: Map<String, Value>,
        work: impl FnOnce(P) -> Result<Value>,
    ) {
        self.send(rpc::parse_params(params).and_then(work));
    }

    fn send(mut self, outcome: Result<Value>) {
        if let Some(id) = self.id.take() {
            self.outbox
                .queue_answer_when_room(rpc::format_answer(&id, outcome));
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let error = RequestError::Internal("the request ended without an answer".into());
            self.outbox
                .queue_answer_when_room(rpc::format_answer(&id, Err(error)));
        }
    }
}

/// A slot of a blocking request; freed when dropped.
struct BlockingRequestSlot {
    number: usize,
    count: Arc<AtomicUsize>,
}

impl BlockingRequestSlot {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        Self {
            number: count.fetch_add(1, Ordering::Relaxed) + 1,
            count: Arc::clone(count),
        }
    }
}

impl Drop for BlockingRequestSlot {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
