//! What the thread of one trial has.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::message::ConductorMessage;
use super::registry::{Registry, Trial};
use crate::outbox::Outbox;

/// Conducts one trial: `lifecycle` from connecting to its end, `running` while the load runs.
pub struct Conductor {
    pub registry: Arc<Registry>,
    pub outbox: Arc<Outbox>,
    pub trial: Arc<Trial>,
    pub messages: Receiver<ConductorMessage>,
    pub interval: Duration,
}
