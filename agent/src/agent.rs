//! The agent at work: takes requests one line at a time, has each carried out, and sees that each is answered once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::lines::{Line, MAX_LINE_BYTES, next_line};
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
use vnetbench_system::error::{Error, Result};

const PROTOCOL: u32 = 1;
const WORKLOADS: [&str; 7] = [
    "tcp_stream",
    "tcp_rr",
    "tcp_crr",
    "udp_stream",
    "frames",
    "mixed",
    "observe",
];

/// Requests that may wait (for streams, for a path) at one time.
const MAX_BLOCKED_REQUESTS: usize = 256;
/// How long the end is put off for answers that are still to be written.
const FINAL_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// What the agent runs on, and so what may be asked of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    Host,
    /// All of it is the agent's: what it is called, its addresses, its power.
    Guest,
}

/// Serves standard input and output until the input closes.
pub fn serve(setting: RunMode) -> ExitCode {
    if setting == RunMode::Guest {
        clock::set(None);
    }
    // Before any other thread starts: only threads that start later are counted with this one.
    let cycles = ProcessCycles::open();
    raise_descriptor_limit();
    let outbox = match Outbox::to_stdout() {
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
        blocked_requests: Arc::default(),
        outbox,
        cycles,
        run_mode: setting,
    };
    let mut input = std::io::stdin().lock();
    while let Ok(line) = next_line(&mut input) {
        match line {
            Line::Text(text) => agent.handle_line(text.trim_ascii()),
            Line::TooLong => {
                let error =
                    Error::InvalidRequest(format!("the line is over {MAX_LINE_BYTES} bytes long"));
                agent
                    .outbox
                    .send_answer(rpc::format_answer(&Value::Null, Err(error)));
            }
            Line::End => break,
        }
    }
    // Whoever reads a guest's port next is another host.
    if setting == RunMode::Host {
        agent.outbox.drain(FINAL_DRAIN_TIMEOUT);
    }
    // Ends every thread, and with the sockets (which linger for nothing) every stream.
    journal::restore_and_exit()
}

/// A stream is a descriptor, and the usual soft limit of 1024 is soon reached.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Where this is refused the lower limit stays, and the call that meets it says so.
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
                // A fault of ours in one request must not cost the trials that run: unwinding drops the reply, which
                // answers by itself.
                let _ = catch_unwind(AssertUnwindSafe(|| self.dispatch(request, reply)));
            }
            Err((id, error)) => self.outbox.send_answer(rpc::format_answer(&id, Err(error))),
        }
    }

    fn dispatch(&self, request: Request, reply: Reply) {
        let Request { method, params, .. } = request;
        match method.as_str() {
            "agent.hello" => reply.send(Ok(hello_facts())),
            "agent.facts" => reply.send(Ok(facts::collect_facts(&self.cycles))),
            "knob.get" => reply.send(rpc::parse_params(params).and_then(knob_requests::get_knobs)),
            "knob.set" => reply.send(rpc::parse_params(params).and_then(knob_requests::set_knob)),
            "path.listen" => {
                reply.send(rpc::parse_params(params).and_then(|p| self.paths.listen(p)))
            }
            "path.close" => reply.send(rpc::parse_params(params).and_then(|p| self.paths.close(p))),
            "path.probe" => match rpc::parse_params(params) {
                Ok(params) => self.run_on_thread(reply, || path::probe(params)),
                Err(error) => reply.send(Err(error)),
            },
            "line.start" => {
                reply.send(rpc::parse_params(params).and_then(|p| self.delay_lines.start(p)))
            }
            "line.set" => {
                reply.send(rpc::parse_params(params).and_then(|p| self.delay_lines.set(p)))
            }
            "line.read" => {
                reply.send(rpc::parse_params(params).and_then(|p| self.delay_lines.read(p)))
            }
            "line.stop" => {
                reply.send(rpc::parse_params(params).and_then(|p| self.delay_lines.stop(p)))
            }
            "frames.able" => match rpc::parse_params(params) {
                Ok(params) => self.run_on_thread(reply, || probe_capabilities(params)),
                Err(error) => reply.send(Err(error)),
            },
            "iperf3.greet" => match rpc::parse_params(params) {
                Ok(params) => self.run_on_thread(reply, || server_probe::probe_server(params)),
                Err(error) => reply.send(Err(error)),
            },
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
            "trial.start" => match rpc::parse_params(params).and_then(|p| self.trials.start(p)) {
                Ok(starting) => self.run_on_thread(reply, move || starting.wait()),
                Err(error) => reply.send(Err(error)),
            },
            "trial.stop" => reply.send(rpc::parse_params(params).and_then(|p| self.trials.stop(p))),
            "guest.configure" if self.run_mode == RunMode::Guest => {
                reply.send(rpc::parse_params(params).and_then(guest::configure));
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
            _ => reply.send(Err(Error::UnknownMethod(method))),
        }
    }

    /// Carries out what may take its time, while further requests are taken.
    fn run_on_thread(&self, reply: Reply, work: impl FnOnce() -> Result<Value> + Send + 'static) {
        let place = BlockedRequest::new(&self.blocked_requests);
        if place.number > MAX_BLOCKED_REQUESTS {
            return reply.send(Err(Error::System {
                operation: "take another request that waits".into(),
                errno: libc::EAGAIN,
                reason: format!("{MAX_BLOCKED_REQUESTS} are waiting already"),
                kind: None,
            }));
        }
        // Where no thread can be started the closure is dropped, and with it the reply, which answers by itself.
        let _ = std::thread::Builder::new()
            .name("request".into())
            .spawn(move || {
                reply.send(work());
                drop(place);
            });
    }
}

fn hello_facts() -> Value {
    json!({
        "agent": "vnetbench-agent",
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": PROTOCOL,
        "pid": std::process::id(),
        "workloads": WORKLOADS,
    })
}

/// The one answer that a request gets. Dropped unused (a fault of the agent's own) it says that.
struct Reply {
    id: Option<Value>,
    outbox: Arc<Outbox>,
}

impl Reply {
    fn send(mut self, outcome: Result<Value>) {
        if let Some(id) = self.id.take() {
            self.outbox.send_answer(rpc::format_answer(&id, outcome));
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let fault = Error::Internal("the request was given up".into());
            self.outbox.send_answer(rpc::format_answer(&id, Err(fault)));
        }
    }
}

/// One of the requests that wait.
struct BlockedRequest {
    number: usize,
    count: Arc<AtomicUsize>,
}

impl BlockedRequest {
    fn new(taken: &Arc<AtomicUsize>) -> Self {
        Self {
            number: taken.fetch_add(1, Ordering::Relaxed) + 1,
            count: Arc::clone(taken),
        }
    }
}

impl Drop for BlockedRequest {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
