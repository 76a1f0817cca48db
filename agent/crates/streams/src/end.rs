//! How a stream ends.

use std::io;

/// How a stream came to its end.
#[derive(Debug)]
pub enum StreamEnd {
    /// Both sides have seen the end of the data.
    Drained,
    /// It was ended before that.
    Cut,
    Broken(io::Error),
}

impl StreamEnd {
    /// Its name in the protocol.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Drained => "drained",
            Self::Cut => "cut",
            Self::Broken(_) => "broken",
        }
    }
}
