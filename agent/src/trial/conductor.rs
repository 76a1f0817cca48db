//! The state of a trial's thread.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::message::MessageToConductor;
use super::registry::{Trial, TrialRegistry};
use crate::outbox::Outbox;

/// Runs one trial on its own thread. `lifecycle` has the phases, and `running` the phase in which the load runs.
pub struct Conductor {
    /// All trials; the trial removes itself at its end.
    pub registry: Arc<TrialRegistry>,
    /// Where samples and `trial.end` go.
    pub outbox: Arc<Outbox>,
    /// The trial.
    pub trial: Arc<Trial>,
    /// Messages from requests and streams.
    pub messages: Receiver<MessageToConductor>,
    /// The time between two samples.
    pub interval: Duration,
}
