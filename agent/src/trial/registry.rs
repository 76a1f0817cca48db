//! The registry of current trials, and how requests wait for a trial's connections.

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::message::MessageToConductor;
use super::ready::ConnectionState;
use vnetbench_system::error::{RequestError, Result};
use vnetbench_system::waiting::Waker;

/// A trial as requests see it. Its [`Conductor`](super::conductor::Conductor) does the work.
pub struct Trial {
    /// The trial's name.
    pub name: String,
    /// How long connecting may take.
    pub timeout: Duration,
    /// The start of the last part of the load, after the start of the trial.
    pub last_part_starts_after: Duration,
    /// The state of its connections.
    pub connection: Mutex<ConnectionState>,
    /// Signals a change of `connection`.
    pub connection_changed: Condvar,
    /// Interrupts connecting when the trial is stopped.
    pub waker: Waker,
    /// Sends messages to the trial's thread.
    pub conductor: Mutex<Sender<MessageToConductor>>,
}

impl Trial {
    /// Waits until all streams are connected, and returns the answer of `trial.prepare` for an endpoint that connects.
    ///
    /// The conductor enforces the time limit.
    pub fn wait_until_connected(&self) -> Result<Value> {
        self.wait_for_connection_until(None)
    }

    /// Waits until all streams are connected, at most for the trial's timeout, and returns the answer of `trial.ready`.
    pub fn wait_until_ready(&self) -> Result<Value> {
        self.wait_for_connection_until(Some(Instant::now() + self.timeout))
    }

    fn wait_for_connection_until(&self, deadline: Option<Instant>) -> Result<Value> {
        let mut connection = lock(&self.connection);
        loop {
            match &*connection {
                ConnectionState::Done(ready) => return Ok(json!(ready)),
                ConnectionState::Failed(error) => return Err(error.clone()),
                ConnectionState::InProgress => {}
            }
            let remaining = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            connection = match remaining {
                None => self
                    .connection_changed
                    .wait(connection)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    return Err(RequestError::TimedOut {
                        operation: "connecting all streams".into(),
                        after_s: self.timeout.as_secs_f64(),
                        kind: None,
                    });
                }
                Some(remaining) => {
                    let waited = self.connection_changed.wait_timeout(connection, remaining);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Sets the connection state and wakes the requests that wait for it.
    pub fn set_connection_state(&self, state: ConnectionState) {
        *lock(&self.connection) = state;
        self.connection_changed.notify_all();
    }

    /// Sends a message to the trial's thread. Returns whether the thread still receives messages.
    pub fn send_message(&self, message: MessageToConductor) -> bool {
        lock(&self.conductor).send(message).is_ok()
    }
}

/// The current trials.
#[derive(Default)]
pub struct TrialRegistry {
    /// Trials by name.
    pub trials_by_name: Mutex<HashMap<String, Arc<Trial>>>,
}

impl TrialRegistry {
    /// Returns the trial of this name.
    pub fn find(&self, name: &str) -> Result<Arc<Trial>> {
        let by_name = lock(&self.trials_by_name);
        by_name
            .get(name)
            .cloned()
            .ok_or_else(|| RequestError::Trial(format!("there is no trial {name}")))
    }

    /// Removes this trial, but not a later trial of the same name.
    pub fn remove(&self, trial: &Arc<Trial>) {
        lock(&self.trials_by_name).retain(|_, other| !Arc::ptr_eq(other, trial));
    }
}

/// Locks a mutex, also after another thread panicked while holding it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
