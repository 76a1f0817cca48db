//! Which end of a stream an endpoint is.

use serde::{Deserialize, Serialize};

/// Whether this endpoint sends the stream or receives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Source,
    Sink,
}

impl Role {
    /// That of the same stream at its other end.
    pub fn opposite(self) -> Self {
        match self {
            Self::Source => Self::Sink,
            Self::Sink => Self::Source,
        }
    }
}
