//! Errors of requests: messages for the user, and codes and kinds for the agent's protocol.

use std::io;

use serde_json::{Value, json};

/// The result of a request.
pub type Result<T> = std::result::Result<T, RequestError>;

/// Declares `ErrorKind` with the name of each variant in the protocol.
macro_rules! error_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// Kind of an error, in addition to its code: `kind` in docs/protocol.md, "Errors".
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ErrorKind {
            $($(#[$doc])* $kind,)*
        }

        impl ErrorKind {
            #[cfg(test)]
            const NAMES: &[&str] = &[$($name),*];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

error_kinds! {
    /// The kernel does not have the requested congestion control.
    CongestionControlAbsent = "congestion_control_absent",
    /// This user may not select the requested congestion control.
    CongestionControlForbidden = "congestion_control_forbidden",
    /// The kernel does not support MPTCP, or it is turned off.
    Mptcp = "mptcp",
    /// The interface cannot be used as a port for frames.
    FramesPort = "frames_port",
    /// The kernel does not support the send mode.
    SendMode = "send_mode",
    /// The kernel does not support busy polling, or the user may not use it.
    BusyPoll = "busy_poll",
    /// A datagram cannot be sent or does not arrive.
    Datagram = "datagram",
    /// The kernel does not support UDP_SEGMENT or UDP_GRO.
    UdpOffload = "udp_offload",
    /// A requested source port cannot be used, or too few ports are free.
    SourcePort = "source_port",
    /// The limit of open files is reached, of the process or of the machine.
    OpenFiles = "open_files",
    /// The limit of threads is reached while the streams' threads start.
    Threads = "threads",
    /// The iperf3 server cannot be reached.
    Unreachable = "unreachable",
    /// The iperf3 server has another client.
    Busy = "busy",
    /// The iperf3 server rejected the test.
    Refused = "refused",
    /// The iperf3 server is gone, does not answer, or is not an iperf3 server.
    Broken = "broken",
}

/// An error of a request.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RequestError {
    /// The request is not JSON.
    #[error("this line is not JSON: {0}")]
    Parse(String),
    /// The request is JSON, but not JSON-RPC.
    #[error("this is not a JSON-RPC 2.0 request: {0}")]
    InvalidRequest(String),
    /// The method does not exist.
    #[error("there is no method \"{0}\"")]
    UnknownMethod(String),
    /// A parameter is invalid.
    #[error("bad parameter: {0}")]
    BadParameter(String),
    /// A bug in the agent.
    #[error("internal error of the agent: {0}")]
    Internal(String),
    /// A system call failed.
    #[error("cannot {operation}: {reason}")]
    System {
        /// What failed; completes the sentence "cannot …".
        operation: String,
        /// Error number, or 0.
        errno: i32,
        /// Why it failed.
        reason: String,
        /// Kind of the error, if it has one.
        kind: Option<ErrorKind>,
    },
    /// A trial cannot run as requested.
    #[error("{0}")]
    Trial(String),
    /// A knob cannot be read or set.
    #[error("knob {knob}{}: {reason}", interface_suffix(.interface))]
    Knob {
        /// Name of the knob.
        knob: String,
        /// The interface, for knobs of an interface.
        interface: Option<String>,
        /// Why it failed.
        reason: String,
    },
    /// The peer is not an agent of this trial.
    #[error("no agent of this trial listens at {address}: {reason}")]
    UnexpectedPeer {
        /// Address of the peer.
        address: String,
        /// How the mismatch was detected.
        reason: String,
    },
    /// An operation took too long.
    #[error("{operation} took longer than {after_s} s")]
    TimedOut {
        /// The operation, as a gerund: "connecting to …".
        operation: String,
        /// The time limit.
        after_s: f64,
        /// Kind of the error, if it has one.
        kind: Option<ErrorKind>,
    },
    /// An iperf3 server reported an error or misbehaved.
    #[error("{message}")]
    Server {
        /// Kind of the error.
        kind: ErrorKind,
        /// The message.
        message: String,
    },
}

fn interface_suffix(interface: &Option<String>) -> String {
    interface
        .as_ref()
        .map(|name| format!(" of {name}"))
        .unwrap_or_default()
}

impl RequestError {
    /// Creates an error of a system call. `operation` completes the sentence "cannot …".
    pub fn system(operation: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        let cause = cause.into();
        let errno = cause.raw_os_error().unwrap_or(0);
        Self::System {
            operation: operation.into(),
            errno,
            reason: cause.to_string(),
            kind: matches!(errno, libc::EMFILE | libc::ENFILE).then_some(ErrorKind::OpenFiles),
        }
    }

    /// Sets the kind of an error that can have one and has none yet. A limit of open files stays the kind, because it makes
    /// other operations fail too.
    pub fn with_kind_if_none(mut self, new_kind: ErrorKind) -> Self {
        if let Self::System { kind, .. } | Self::TimedOut { kind, .. } = &mut self {
            kind.get_or_insert(new_kind);
        }
        self
    }

    /// Returns the code of docs/protocol.md, "Errors".
    pub fn json_rpc_code(&self) -> i32 {
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
            Self::UnexpectedPeer { .. } => -32005,
            Self::Server { .. } => -32006,
        }
    }

    /// Returns the data of docs/protocol.md, "Errors".
    pub fn json_rpc_data(&self) -> Option<Value> {
        match self {
            Self::System {
                operation,
                errno,
                reason,
                kind,
            } => Some(json!({
                "operation": operation, "errno": errno, "reason": reason,
                "kind": kind.map(ErrorKind::name),
            })),
            Self::Knob {
                knob,
                interface,
                reason,
            } => Some(json!({"knob": knob, "interface": interface, "reason": reason})),
            Self::TimedOut {
                operation,
                after_s,
                kind,
            } => Some(json!({
                "operation": operation, "after_s": after_s, "kind": kind.map(ErrorKind::name),
            })),
            Self::UnexpectedPeer { address, reason } => {
                Some(json!({"address": address, "reason": reason}))
            }
            Self::Server { kind, .. } => Some(json!({"kind": kind.name()})),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const PAGE: &str = include_str!("../../../../docs/protocol.md");

    /// Returns the kinds in the table of docs/protocol.md.
    fn documented_kinds() -> BTreeSet<&'static str> {
        PAGE.lines()
            .skip_while(|line| !line.starts_with("| `kind` |"))
            .skip(2)
            .map_while(|line| line.strip_prefix("| `")?.split('`').next())
            .collect()
    }

    #[test]
    fn all_kinds_are_documented() {
        let sent: BTreeSet<_> = ErrorKind::NAMES.iter().copied().collect();
        assert_eq!(sent.len(), ErrorKind::NAMES.len(), "names are unique");
        assert_eq!(sent, documented_kinds());
    }

    #[test]
    fn an_error_has_its_kind_and_a_limit_of_open_files_takes_precedence() {
        let kind = |error: RequestError| error.json_rpc_data().expect("data")["kind"].take();
        let system_error =
            |errno| RequestError::system("go on", io::Error::from_raw_os_error(errno));
        assert_eq!(kind(system_error(libc::EINVAL)), Value::Null);
        for errno in [libc::EMFILE, libc::ENFILE] {
            assert_eq!(kind(system_error(errno)), "open_files");
        }
        assert_eq!(
            kind(system_error(libc::EINVAL).with_kind_if_none(ErrorKind::Mptcp)),
            "mptcp"
        );
        assert_eq!(
            kind(system_error(libc::EMFILE).with_kind_if_none(ErrorKind::Mptcp)),
            "open_files"
        );
        let timeout = RequestError::TimedOut {
            operation: "going on".into(),
            after_s: 1.0,
            kind: None,
        };
        assert_eq!(kind(timeout.clone()), Value::Null);
        assert_eq!(
            kind(timeout.with_kind_if_none(ErrorKind::Datagram)),
            "datagram"
        );
    }
}
