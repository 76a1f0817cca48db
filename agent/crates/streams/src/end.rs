//! The end of a stream.

use std::io;

/// The way in which a stream ended.
#[derive(Debug)]
pub enum StreamEnd {
    /// Both endpoints reached the end of the data.
    Drained,
    /// A command ended the stream before the end of the data.
    Cut,
    /// An error ended the stream.
    Broken(io::Error),
}

impl StreamEnd {
    /// Returns the name in the protocol.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Drained => "drained",
            Self::Cut => "cut",
            Self::Broken(_) => "broken",
        }
    }
}
