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

/// The number and the role of one requested stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamRole {
    /// Number of the stream in the trial.
    pub id: u32,
    /// The role of this endpoint.
    pub role: Role,
}
