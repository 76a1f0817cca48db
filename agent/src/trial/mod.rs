//! The trials of this agent, from `trial.prepare` to `trial.end`, and the requests that control them.

mod boundary;
mod conductor;
mod endpoint;
mod fault;
mod frames;
mod lifecycle;
mod limits;
mod load_plan;
mod message;
mod parameters;
mod ready;
mod registry;
mod report;
mod round_robin;
mod rpc_requests;
mod running;
mod sampler;
mod series;
mod server;
mod socket_detail;
mod streams;

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use socket2::Domain;

use self::conductor::Conductor;
use self::endpoint::ConnectionMethod;
use self::lifecycle::ConnectionPlan;
use self::message::MessageToConductor;
use self::ready::{ConnectionState, Ready};
use self::registry::{Trial, TrialRegistry, lock};
pub use self::rpc_requests::TrialPrepareRequest;
use self::rpc_requests::{TrialNameRequest, TrialStartRequest};
use self::sampler::CounterSources;
use crate::outbox::Outbox;
use vnetbench_counters::{CounterScope, CycleScope, ProcessCycles};
use vnetbench_system::error::{RequestError, Result};
use vnetbench_system::waiting::Waker;

/// The maximum number of trials at one time.
const MAX_TRIALS: usize = 64;

/// A start request that the trial's thread has not confirmed yet.
pub struct PendingStart {
    trial: Arc<Trial>,
    answer: Receiver<Result<u64>>,
}

impl PendingStart {
    /// Waits for the start and returns the answer of `trial.start`.
    pub fn wait(self) -> Result<Value> {
        let name = &self.trial.name;
        match self.answer.recv() {
            Ok(started) => Ok(json!({"trial": name, "started_monotonic_ns": started?})),
            Err(_) => Err(RequestError::Trial(format!(
                "trial {name} was already started or stopped"
            ))),
        }
    }
}

/// The trials of this agent, and what they share.
pub struct Trials {
    outbox: Arc<Outbox>,
    cycles: ProcessCycles,
    registry: Arc<TrialRegistry>,
}

impl Trials {
    /// Returns an empty set of trials that sends its events to `outbox`.
    pub fn new(outbox: Arc<Outbox>, cycles: ProcessCycles) -> Arc<Self> {
        Arc::new(Self {
            outbox,
            cycles,
            registry: Arc::default(),
        })
    }

    /// Creates a trial and starts its thread.
    ///
    /// Returns the trial and the answer of `trial.prepare`. The answer is `None` for an endpoint that connects: use
    /// [`Trial::wait_until_connected`].
    pub fn prepare(&self, request: TrialPrepareRequest) -> Result<(Arc<Trial>, Option<Value>)> {
        let plan = request.into_plan()?;
        let mut by_name = lock(&self.registry.trials_by_name);
        check_name_and_capacity(&plan.trial, &by_name)?;
        let parts = plan.load.iter().flat_map(|(_, load)| &load.parts);
        let last_part_starts_after = parts.map(|part| part.starts_after).max();
        let address = plan.load.as_ref().map(|(address, _)| address);
        let scope = CounterScope {
            interface: plan.interface.as_deref(),
            interface_may_lose_link: plan.interface_may_lose_link,
            cycles: match address {
                Some(_) => CycleScope::Process(&self.cycles),
                None => CycleScope::System,
            },
            includes_system_counters: plan.system,
            without_ipv6: address.and_then(ConnectionMethod::domain) == Some(Domain::IPV4),
        };
        let counter_sources = CounterSources::open(scope, plan.observer)?;
        let (connection_plan, answer) = ConnectionPlan::open(plan.load)?;
        let waker = Waker::new().map_err(|error| RequestError::system("prepare a trial", error))?;
        let (sender, messages) = channel();
        let trial = Arc::new(Trial {
            name: plan.trial,
            timeout: plan.timeout,
            last_part_starts_after: last_part_starts_after.unwrap_or_default(),
            connection: Mutex::new(match connection_plan {
                // There is nothing to connect.
                ConnectionPlan::None => ConnectionState::Done(Ready::default()),
                _ => ConnectionState::InProgress,
            }),
            connection_changed: Condvar::new(),
            waker,
            conductor: Mutex::new(sender),
        });
        let conductor = Conductor {
            registry: Arc::clone(&self.registry),
            outbox: Arc::clone(&self.outbox),
            trial: Arc::clone(&trial),
            messages,
            interval: plan.interval,
        };
        std::thread::Builder::new()
            .name("trial".into())
            .spawn(move || conductor.conduct(connection_plan, counter_sources))
            .map_err(|error| RequestError::system("start a thread", error))?;
        by_name.insert(trial.name.clone(), Arc::clone(&trial));
        Ok((trial, answer))
    }

    /// Returns the trial that the request names.
    pub fn find(&self, request: TrialNameRequest) -> Result<Arc<Trial>> {
        self.registry.find(&request.trial)
    }

    /// Asks a trial that is ready to start.
    pub fn request_start(&self, request: TrialStartRequest) -> Result<PendingStart> {
        let duration = request.duration()?;
        let trial = self.registry.find(&request.trial)?;
        if trial.last_part_starts_after > Duration::ZERO && duration <= trial.last_part_starts_after
        {
            return Err(RequestError::BadParameter(
                "duration_s must be more than idle_s, because it includes the idle phase".into(),
            ));
        }
        if !matches!(*lock(&trial.connection), ConnectionState::Done(_)) {
            return Err(RequestError::Trial(format!(
                "trial {} is not ready",
                trial.name
            )));
        }
        let (started, answer) = sync_channel(1);
        trial.send_message(MessageToConductor::Start { duration, started });
        Ok(PendingStart { trial, answer })
    }

    /// Asks a trial to stop; its `trial.end` follows.
    pub fn request_stop(&self, request: TrialNameRequest) -> Result<Value> {
        let trial = self.registry.find(&request.trial)?;
        trial.waker.wake();
        trial.send_message(MessageToConductor::Stop);
        Ok(json!({"trial": trial.name}))
    }
}

fn check_name_and_capacity(trial: &str, by_name: &HashMap<String, Arc<Trial>>) -> Result<()> {
    if by_name.contains_key(trial) {
        return Err(RequestError::Trial(format!("trial {trial} already exists")));
    }
    if by_name.len() >= MAX_TRIALS {
        return Err(RequestError::Trial(format!(
            "this agent already has {MAX_TRIALS} trials, which is the maximum. Stop one of them first"
        )));
    }
    Ok(())
}
