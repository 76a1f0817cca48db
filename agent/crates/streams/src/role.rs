//! The role of an endpoint in a stream.

use serde::{Deserialize, Serialize};

/// Whether this endpoint sends the stream or receives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The endpoint sends.
    Source,
    /// The endpoint receives.
    Sink,
}

impl Role {
    /// Returns the role of the other endpoint.
    pub fn opposite(self) -> Self {
        match self {
            Self::Source => Self::Sink,
            Self::Sink => Self::Source,
        }
    }
}
