//! What can go wrong in a request, worded for a person and numbered for the protocol.

use std::io;

use serde_json::{Value, json};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("this line is no JSON: {0}")]
    Parse(String),
    #[error("this is no JSON-RPC 2.0 request: {0}")]
    InvalidRequest(String),
    #[error("there is no method \"{0}\"")]
    UnknownMethod(String),
    #[error("bad parameter: {0}")]
    BadParameter(String),
    #[error("a fault of the agent's own: {0}")]
    Internal(String),
    #[error("the system refused to {operation}: {reason}")]
    System {
        operation: String,
        errno: i32,
        reason: String,
    },
    #[error("{0}")]
    Trial(String),
    #[error("knob {knob}{}: {reason}", on_interface(.interface))]
    Knob {
        knob: String,
        interface: Option<String>,
        reason: String,
    },
    #[error("what listens at {address} is no agent of this trial: {reason}")]
    Stranger { address: String, reason: String },
    #[error("{operation} took longer than {after_s} s")]
    TimedOut { operation: String, after_s: f64 },
    #[error("{words}")]
    Server { kind: &'static str, words: String },
}

fn on_interface(interface: &Option<String>) -> String {
    interface
        .as_ref()
        .map(|name| format!(" of {name}"))
        .unwrap_or_default()
}

impl Error {
    /// `operation` completes the sentence "the system refused to …".
    pub fn system(operation: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        let cause = cause.into();
        Self::System {
            operation: operation.into(),
            errno: cause.raw_os_error().unwrap_or(0),
            reason: cause.to_string(),
        }
    }

    /// The code of docs/protocol.md, "Errors".
    pub fn code(&self) -> i32 {
        match self {
            Self::Parse(_) => -32700,
            Self::InvalidRequest(_) => -32600,
            Self::UnknownMethod(_) => -32601,
            Self::BadParameter(_) => -32602,
            Self::Internal(_) => -32603,
            Self::System { .. } => -32001,
            Self::Trial(_) => -32002,
            Self::Knob { .. } => -32003,
            Self::TimedOut { .. } => -32004,
            Self::Stranger { .. } => -32005,
            Self::Server { .. } => -32006,
        }
    }

    pub fn data(&self) -> Option<Value> {
        match self {
            Self::System {
                operation,
                errno,
                reason,
            } => Some(json!({"operation": operation, "errno": errno, "reason": reason})),
            Self::Knob {
                knob,
                interface,
                reason,
            } => Some(json!({"knob": knob, "interface": interface, "reason": reason})),
            Self::TimedOut { operation, after_s } => {
                Some(json!({"operation": operation, "after_s": after_s}))
            }
            Self::Stranger { address, reason } => {
                Some(json!({"address": address, "reason": reason}))
            }
            Self::Server { kind, .. } => Some(json!({"kind": kind})),
            _ => None,
        }
    }
}
