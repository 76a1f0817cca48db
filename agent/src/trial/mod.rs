//! Trials: those that there are, from `trial.prepare` to `trial.end`, and what may be asked of each.

mod conductor;
mod endpoint;
mod frames;
mod lifecycle;
mod limits;
mod load_plan;
mod message;
mod parameters;
mod ready;
mod registry;
mod report;
mod requests;
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
use self::endpoint::EndpointAddress;
use self::lifecycle::ConnectionPlan;
use self::message::ConductorMessage;
use self::ready::{ConnectionState, Ready};
use self::registry::{Registry, Trial, lock};
use self::requests::{PrepareRequest, StartRequest, TrialRequest};
use self::sampler::CounterSources;
use crate::outbox::Outbox;
use vnetbench_counters::{CycleScope, ProcessCycles, Scope};
use vnetbench_system::error::{Error, Result};
use vnetbench_system::waiting::Waker;

/// Trials that one agent may have at a time.
const MAX_TRIALS: usize = 64;

/// A trial that has been told to start.
pub struct PendingStart {
    trial: Arc<Trial>,
    answer: Receiver<Result<u64>>,
}

impl PendingStart {
    /// The answer of `trial.start`.
    pub fn wait(self) -> Result<Value> {
        let name = &self.trial.name;
        match self.answer.recv() {
            Ok(started) => Ok(json!({"trial": name, "started_monotonic_ns": started?})),
            Err(_) => Err(Error::Trial(format!(
                "trial {name} has been started or stopped already"
            ))),
        }
    }
}

/// The trials that there are now.
pub struct Trials {
    outbox: Arc<Outbox>,
    cycles: ProcessCycles,
    registry: Arc<Registry>,
}

impl Trials {
    pub fn new(outbox: Arc<Outbox>, cycles: ProcessCycles) -> Arc<Self> {
        Arc::new(Self {
            outbox,
            cycles,
            registry: Arc::default(),
        })
    }

    /// The trial, and the answer where there is one at once: a connecting side answers when it is connected.
    pub fn prepare(&self, request: PrepareRequest) -> Result<(Arc<Trial>, Option<Value>)> {
        let plan = request.plan()?;
        let mut by_name = lock(&self.registry.by_name);
        check_capacity(&plan.trial, &by_name)?;
        let parts = plan.load.iter().flat_map(|(_, load)| &load.parts);
        let begun_after = parts.map(|part| part.starts_after).max();
        let place = plan.load.as_ref().map(|(place, _)| place);
        let scope = Scope {
            interface: plan.interface.as_deref(),
            cycles: match place {
                Some(_) => CycleScope::Process(&self.cycles),
                None => CycleScope::System,
            },
            system: plan.system,
            without_ipv6: place.and_then(EndpointAddress::domain) == Some(Domain::IPV4),
        };
        let counted = CounterSources::open(scope, plan.watched)?;
        let (entry, answer) = ConnectionPlan::open(plan.load)?;
        let waker = Waker::new().map_err(|error| Error::system("prepare a trial", error))?;
        let (sender, messages) = channel();
        let trial = Arc::new(Trial {
            name: plan.trial,
            timeout: plan.timeout,
            prepared_after: begun_after.unwrap_or_default(),
            connecting: Mutex::new(match entry {
                // Ready as soon as it is prepared.
                ConnectionPlan::None => ConnectionState::Done(Ready::default()),
                _ => ConnectionState::InProgress,
            }),
            changed: Condvar::new(),
            waker: waker,
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
            .spawn(move || conductor.conduct(entry, counted))
            .map_err(|error| Error::system("start a thread", error))?;
        by_name.insert(trial.name.clone(), Arc::clone(&trial));
        Ok((trial, answer))
    }

    pub fn find(&self, request: TrialRequest) -> Result<Arc<Trial>> {
        self.registry.find(&request.trial)
    }

    pub fn start(&self, request: StartRequest) -> Result<PendingStart> {
        let duration = request.duration()?;
        let trial = self.registry.find(&request.trial)?;
        if trial.prepared_after > Duration::ZERO && duration <= trial.prepared_after {
            return Err(Error::BadParameter(
                "duration_s must exceed idle_s: it is both phases together".into(),
            ));
        }
        if !matches!(*lock(&trial.connecting), ConnectionState::Done(_)) {
            return Err(Error::Trial(format!("trial {} is not ready", trial.name)));
        }
        let (started, answer) = sync_channel(1);
        trial.send_message(ConductorMessage::Start { duration, started });
        Ok(PendingStart { trial, answer })
    }

    pub fn stop(&self, request: TrialRequest) -> Result<Value> {
        let trial = self.registry.find(&request.trial)?;
        trial.waker.wake();
        trial.send_message(ConductorMessage::Stop);
        Ok(json!({"trial": trial.name}))
    }
}

fn check_capacity(trial: &str, by_name: &HashMap<String, Arc<Trial>>) -> Result<()> {
    if by_name.contains_key(trial) {
        return Err(Error::Trial(format!("there is a trial {trial} already")));
    }
    if by_name.len() >= MAX_TRIALS {
        return Err(Error::Trial(format!(
            "{MAX_TRIALS} trials are there already; stop some"
        )));
    }
    Ok(())
}
