//! How far a trial's streams are, and what an endpoint answers once all of them are connected.

use serde::Serialize;

use vnetbench_frames::ChosenBackends;
use vnetbench_system::error::Error;
use vnetbench_traffic::effective_options::EffectiveOptions;

/// How far a trial's streams are.
pub enum ConnectionState {
    InProgress,
    Done(Ready),
    Failed(Error),
}

/// What a side that is connected answers: what its sockets have, and where its threads may run.
#[derive(Clone, Default, Serialize)]
pub struct Ready {
    pub streams: Vec<EffectiveOptions>,
    pub thread_cpus: Vec<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub frames: Option<ReadyPort>,
}

/// Of frames: there is no port to connect to, and by which ways they are made and counted.
#[derive(Clone, Serialize)]
pub struct ReadyPort {
    pub port: Option<u16>,
    pub frames: ChosenBackends,
}
