//! Selects the frames of a trial at a port: the streams that this endpoint sends and those that it counts.

/// Stream ids are below this limit (MAX_STREAMS in bpf/arrivals.h).
pub const STREAM_ID_LIMIT: usize = 1024;
/// Role of a stream that this endpoint sends (bpf/arrivals.h). Role 0 is a stream of neither kind.
pub const OWN_SOURCE_ROLE: u16 = 1;
/// Role of the first stream that this endpoint counts; the next sinks have the following roles.
pub const FIRST_SINK_ROLE: u16 = 2;

/// The streams of this endpoint, by their ids.
#[derive(Debug)]
pub struct TrialFrameFilter {
    /// The secret of the trial: a stream's key is this value XOR the stream's id.
    pub secret: u32,
    /// Streams that this endpoint sends. Their frames should not come back.
    pub sources: Vec<u32>,
    /// Streams that this endpoint counts.
    pub sinks: Vec<u32>,
}

impl TrialFrameFilter {
    /// Returns the role of each stream, indexed by its id.
    pub fn stream_roles(&self) -> Vec<u16> {
        let mut roles = vec![0; STREAM_ID_LIMIT];
        for id in &self.sources {
            roles[*id as usize] = OWN_SOURCE_ROLE;
        }
        for (id, role) in self.sinks.iter().zip(FIRST_SINK_ROLE..) {
            roles[*id as usize] = role;
        }
        roles
    }
}
