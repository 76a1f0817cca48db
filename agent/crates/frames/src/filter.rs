//! What a side looks for at its port: the streams that it sends, and those that it counts.

/// A stream's id is below this (MAX_STREAMS in bpf/arrivals.h).
pub const MAX_STREAMS: usize = 1024;
/// What a stream is to a side (bpf/arrivals.h): none of its streams (0), one that it sends, or the first that it counts.
pub const OWN_SOURCE: u16 = 1;
pub const FIRST_SINK: u16 = 2;

/// What a side looks for at its port: streams, by their ids.
#[derive(Debug)]
pub struct Sought {
    /// A stream's key XOR its id.
    pub prefix: u32,
    /// Those that this side sends: none should come.
    pub sources: Vec<u32>,
    pub sinks: Vec<u32>,
}

impl Sought {
    /// What each stream is, by its id.
    pub fn places(&self) -> Vec<u16> {
        let mut places = vec![0; MAX_STREAMS];
        for id in &self.sources {
            places[*id as usize] = OWN_SOURCE;
        }
        for (id, place) in self.sinks.iter().zip(FIRST_SINK..) {
            places[*id as usize] = place;
        }
        places
    }
}
