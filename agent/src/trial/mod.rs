//! Trials: those that there are, from `trial.prepare` to `trial.end`, and what may be asked of each.

mod asked;
mod building;
mod conduct;
mod detail;
mod frames;
mod parameters;
mod place;
mod report;
mod sampler;
mod series;
mod server;
mod streams;
mod underway;

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use socket2::Domain;

use self::asked::{Named, Prepare, Start};
use self::conduct::{Conductor, Entry};
use self::place::Place;
use self::sampler::Counted;
use crate::counters::{CyclesOf, ProcessCycles, Scope};
use crate::error::{Error, Result};
use crate::frames::Ways;
use crate::outbox::Outbox;
use crate::traffic::found::Found;
use crate::waiting::Bell;

/// Trials that one agent may have at a time.
const MAX_TRIALS: usize = 64;

/// What the conductor of a trial is told.
enum Message {
    Start {
        duration: Duration,
        /// Takes the monotonic clock, in nanoseconds, of the moment at which the trial started, or why it did not.
        started: SyncSender<Result<u64>>,
    },
    Stop,
    StreamEnded,
}

/// How far a trial's streams are.
enum Connecting {
    UnderWay,
    Done(Ready),
    Failed(Error),
}

/// What a side that is connected answers: what its sockets have, and where its threads may run.
#[derive(Clone, Default, Serialize)]
struct Ready {
    streams: Vec<Found>,
    thread_cpus: Vec<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    frames: Option<ReadyPort>,
}

/// Of frames: there is no port to connect to, and by which ways they are made and counted.
#[derive(Clone, Serialize)]
struct ReadyPort {
    port: Option<u16>,
    frames: Ways,
}

/// A trial as requests see it; the work is its conductor's.
pub struct Trial {
    name: String,
    timeout: Duration,
    /// When the last part of its load begins.
    begun_after: Duration,
    connecting: Mutex<Connecting>,
    changed: Condvar,
    /// Ends the waiting for streams.
    bell: Bell,
    conductor: Mutex<Sender<Message>>,
}

impl Trial {
    /// What the streams' sockets have, once all are connected: the answer of `trial.prepare` on a connecting side, where
    /// the conductor keeps the time limit.
    pub fn wait_until_connected(&self) -> Result<Value> {
        self.wait(None)
    }

    /// The answer of `trial.ready`.
    pub fn wait_until_ready(&self) -> Result<Value> {
        self.wait(Some(Instant::now() + self.timeout))
    }

    fn wait(&self, until: Option<Instant>) -> Result<Value> {
        let mut connecting = lock(&self.connecting);
        loop {
            match &*connecting {
                Connecting::Done(ready) => return Ok(json!(ready)),
                Connecting::Failed(error) => return Err(error.clone()),
                Connecting::UnderWay => {}
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            connecting = match left {
                None => self
                    .changed
                    .wait(connecting)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    return Err(Error::TimedOut {
                        operation: "connecting all streams".into(),
                        after_s: self.timeout.as_secs_f64(),
                        kind: None,
                    });
                }
                Some(left) => {
                    let waited = self.changed.wait_timeout(connecting, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn note(&self, connecting: Connecting) {
        *lock(&self.connecting) = connecting;
        self.changed.notify_all();
    }

    /// Whether the message will be looked at.
    fn tell(&self, message: Message) -> bool {
        lock(&self.conductor).send(message).is_ok()
    }
}

/// A trial that has been told to start.
pub struct Starting {
    trial: Arc<Trial>,
    answer: Receiver<Result<u64>>,
}

impl Starting {
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
    by_name: Mutex<HashMap<String, Arc<Trial>>>,
}

impl Trials {
    pub fn new(outbox: Arc<Outbox>, cycles: ProcessCycles) -> Arc<Self> {
        Arc::new(Self {
            outbox,
            cycles,
            by_name: Mutex::default(),
        })
    }

    /// The trial, and the answer where there is one at once: a connecting side answers when it is connected.
    pub fn prepare(self: &Arc<Self>, asked: Prepare) -> Result<(Arc<Trial>, Option<Value>)> {
        let plan = asked.plan()?;
        let mut by_name = lock(&self.by_name);
        has_room_for(&plan.trial, &by_name)?;
        let parts = plan.load.iter().flat_map(|(_, load)| &load.parts);
        let begun_after = parts.map(|part| part.begins_after).max();
        let place = plan.load.as_ref().map(|(place, _)| place);
        let scope = Scope {
            interface: plan.interface.as_deref(),
            cycles: match place {
                Some(_) => CyclesOf::Process(&self.cycles),
                None => CyclesOf::System,
            },
            system: plan.system,
            without_ipv6: place.and_then(Place::domain) == Some(Domain::IPV4),
        };
        let counted = Counted::open(scope, plan.watched)?;
        let (entry, answer) = Entry::open(plan.load)?;
        let bell = Bell::new().map_err(|error| Error::system("prepare a trial", error))?;
        let (sender, messages) = channel();
        let trial = Arc::new(Trial {
            name: plan.trial,
            timeout: plan.timeout,
            begun_after: begun_after.unwrap_or_default(),
            connecting: Mutex::new(match entry {
                // Ready as soon as it is prepared.
                Entry::Nothing => Connecting::Done(Ready::default()),
                _ => Connecting::UnderWay,
            }),
            changed: Condvar::new(),
            bell,
            conductor: Mutex::new(sender),
        });
        let conductor = Conductor {
            trials: Arc::clone(self),
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

    pub fn find(&self, asked: Named) -> Result<Arc<Trial>> {
        self.named(&asked.trial)
    }

    pub fn start(&self, asked: Start) -> Result<Starting> {
        let duration = asked.duration()?;
        let trial = self.named(&asked.trial)?;
        if trial.begun_after > Duration::ZERO && duration <= trial.begun_after {
            return Err(Error::BadParameter(
                "duration_s must exceed idle_s: it is both phases together".into(),
            ));
        }
        if !matches!(*lock(&trial.connecting), Connecting::Done(_)) {
            return Err(Error::Trial(format!("trial {} is not ready", trial.name)));
        }
        let (started, answer) = sync_channel(1);
        trial.tell(Message::Start { duration, started });
        Ok(Starting { trial, answer })
    }

    pub fn stop(&self, asked: Named) -> Result<Value> {
        let trial = self.named(&asked.trial)?;
        trial.bell.ring();
        trial.tell(Message::Stop);
        Ok(json!({"trial": trial.name}))
    }

    fn named(&self, name: &str) -> Result<Arc<Trial>> {
        let by_name = lock(&self.by_name);
        by_name
            .get(name)
            .cloned()
            .ok_or_else(|| Error::Trial(format!("there is no trial {name}")))
    }

    /// Its name may have been given to another trial since.
    fn forget(&self, trial: &Arc<Trial>) {
        lock(&self.by_name).retain(|_, kept| !Arc::ptr_eq(kept, trial));
    }
}

fn has_room_for(trial: &str, by_name: &HashMap<String, Arc<Trial>>) -> Result<()> {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
