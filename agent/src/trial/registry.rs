//! The trials that there are now, and how a request waits for one.

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::message::ConductorMessage;
use super::ready::ConnectionState;
use vnetbench_system::error::{Error, Result};
use vnetbench_system::waiting::Waker;

/// A trial as requests see it; the work is its conductor's.
pub struct Trial {
    pub name: String,
    pub timeout: Duration,
    /// When the last part of its load begins.
    pub prepared_after: Duration,
    pub connecting: Mutex<ConnectionState>,
    pub changed: Condvar,
    /// Ends the waiting for streams.
    pub waker: Waker,
    pub conductor: Mutex<Sender<ConductorMessage>>,
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
                ConnectionState::Done(ready) => return Ok(json!(ready)),
                ConnectionState::Failed(error) => return Err(error.clone()),
                ConnectionState::InProgress => {}
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

    pub fn set_connection_state(&self, connecting: ConnectionState) {
        *lock(&self.connecting) = connecting;
        self.changed.notify_all();
    }

    /// Whether the message will be looked at.
    pub fn send_message(&self, message: ConductorMessage) -> bool {
        lock(&self.conductor).send(message).is_ok()
    }
}

/// Trials by their names.
#[derive(Default)]
pub struct Registry {
    pub by_name: Mutex<HashMap<String, Arc<Trial>>>,
}

impl Registry {
    pub fn find(&self, name: &str) -> Result<Arc<Trial>> {
        let by_name = lock(&self.by_name);
        by_name
            .get(name)
            .cloned()
            .ok_or_else(|| Error::Trial(format!("there is no trial {name}")))
    }

    /// Its name may have been given to another trial since.
    pub fn remove(&self, trial: &Arc<Trial>) {
        lock(&self.by_name).retain(|_, kept| !Arc::ptr_eq(kept, trial));
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
