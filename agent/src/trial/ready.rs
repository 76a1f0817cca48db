//! The connection state of a trial, and the answer of an endpoint whose streams are connected.

use serde::Serialize;

use vnetbench_frames::ChosenBackends;
use vnetbench_system::error::RequestError;
use vnetbench_traffic::effective_options::EffectiveOptions;

/// The connection state of a trial's streams.
pub enum ConnectionState {
    /// Some streams are not connected yet.
    InProgress,
    /// All streams are connected.
    Done(Ready),
    /// Connecting failed.
    Failed(RequestError),
}

/// The answer of a connected endpoint: the effective options of its sockets, and the CPUs of its threads.
#[derive(Clone, Default, Serialize)]
pub struct Ready {
    /// The effective options of each stream's socket.
    pub streams: Vec<EffectiveOptions>,
    /// The CPU list of each load thread.
    pub thread_cpus: Vec<String>,
    /// The backends of a `frames` endpoint.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub frames: Option<ReadyPort>,
}

/// The answer of a `frames` endpoint.
#[derive(Clone, Serialize)]
pub struct ReadyPort {
    /// Always null: frames need no port number.
    pub port: Option<u16>,
    /// The backends that send and count frames.
    pub frames: ChosenBackends,
}
