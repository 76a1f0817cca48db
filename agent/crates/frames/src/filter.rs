//! What a side looks for at its port: the streams that it sends, and those that it counts.

/// A stream's id is below this (MAX_STREAMS in bpf/arrivals.h).
pub const MAX_STREAMS: usize = 1024;
/// What a stream is to a side (bpf/arrivals.h): none of its streams (0), one that it sends, or the first that it counts.
pub const OWN_SOURCE_MARK: u16 = 1;
pub const FIRST_SINK_INDEX: u16 = 2;

/// What a side looks for at its port: streams, by their ids.
#[derive(Debug)]
pub struct FrameFilter {
    /// A stream's key XOR its id.
    pub prefix: u32,
    /// Those that this side sends: none should come.
    pub sources: Vec<u32>,
    pub sinks: Vec<u32>,
}

impl FrameFilter {
    /// What each stream is, by its id.
    pub fn stream_table(&self) -> Vec<u16> {
        let mut places = vec![0; MAX_STREAMS];
        for id in &self.sources {
            places[*id as usize] = OWN_SOURCE_MARK;
        }
        for (id, place) in self.sinks.iter().zip(FIRST_SINK_INDEX..) {
            places[*id as usize] = place;
        }
        places
    }
}
