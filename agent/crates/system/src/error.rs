//! What can go wrong in a request, worded for a person and numbered for the protocol.

use std::io;

use serde_json::{Value, json};

pub type Result<T> = std::result::Result<T, Error>;

/// Declares `Kind` and the names that it has in the protocol, so that none is without one.
macro_rules! kinds {
    ($($(#[$says:meta])* $kind:ident = $name:literal,)*) => {
        /// What a program is to know of an error beside its code: `kind` in docs/protocol.md, "Errors".
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $($(#[$says])* $kind,)*
        }

        impl Kind {
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

kinds! {
    /// The kernel does not have the congestion control that is asked for.
    CongestionControlAbsent = "congestion_control_absent",
    /// This user may not choose it.
    CongestionControlForbidden = "congestion_control_forbidden",
    Mptcp = "mptcp",
    /// An interface that frames cannot leave or come in by.
    FramesPort = "frames_port",
    /// The kernel cannot send so.
    SendMode = "send_mode",
    BusyPoll = "busy_poll",
    /// A datagram that cannot be sent, or does not get through.
    Datagram = "datagram",
    /// UDP_SEGMENT and UDP_GRO.
    UdpOffload = "udp_offload",
    /// The limit of open files, of the process or of the machine.
    OpenFiles = "open_files",
    /// The limit of threads, where those of the streams are to start.
    Threads = "threads",
    /// No connection to an iperf3 server can be made.
    Unreachable = "unreachable",
    /// An iperf3 server that has another client.
    Busy = "busy",
    /// An iperf3 server that said so itself.
    Refused = "refused",
    /// An iperf3 server that is gone, silent, or none.
    Broken = "broken",
}

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
        kind: Option<Kind>,
    },
    #[error("{0}")]
    Trial(String),
    #[error("knob {knob}{}: {reason}", interface_suffix(.interface))]
    Knob {
        knob: String,
        interface: Option<String>,
        reason: String,
    },
    #[error("what listens at {address} is no agent of this trial: {reason}")]
    UnexpectedPeer { address: String, reason: String },
    #[error("{operation} took longer than {after_s} s")]
    TimedOut {
        operation: String,
        after_s: f64,
        kind: Option<Kind>,
    },
    #[error("{words}")]
    Server { kind: Kind, words: String },
}

fn interface_suffix(interface: &Option<String>) -> String {
    interface
        .as_ref()
        .map(|name| format!(" of {name}"))
        .unwrap_or_default()
}

impl Error {
    /// `operation` completes the sentence "the system refused to …".
    pub fn system(operation: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        let cause = cause.into();
        let errno = cause.raw_os_error().unwrap_or(0);
        Self::System {
            operation: operation.into(),
            errno,
            reason: cause.to_string(),
            kind: matches!(errno, libc::EMFILE | libc::ENFILE).then_some(Kind::OpenFiles),
        }
    }

    /// The same, where it is one that can be of a kind and has none yet, of this one: with no open file left
    /// nothing else can be had either.
    pub fn with_kind(mut self, this: Kind) -> Self {
        if let Self::System { kind, .. } | Self::TimedOut { kind, .. } = &mut self {
            kind.get_or_insert(this);
        }
        self
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
            Self::UnexpectedPeer { .. } => -32005,
            Self::Server { .. } => -32006,
        }
    }

    pub fn data(&self) -> Option<Value> {
        match self {
            Self::System {
                operation,
                errno,
                reason,
                kind,
            } => Some(json!({
                "operation": operation, "errno": errno, "reason": reason,
                "kind": kind.map(Kind::name),
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
                "operation": operation, "after_s": after_s, "kind": kind.map(Kind::name),
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

    /// The first column of the page's table of kinds.
    fn documented() -> BTreeSet<&'static str> {
        PAGE.lines()
            .skip_while(|line| !line.starts_with("| `kind` |"))
            .skip(2)
            .map_while(|line| line.strip_prefix("| `")?.split('`').next())
            .collect()
    }

    #[test]
    fn the_kinds_that_are_sent_are_those_of_the_page() {
        let sent: BTreeSet<_> = Kind::NAMES.iter().copied().collect();
        assert_eq!(sent.len(), Kind::NAMES.len(), "each has a name of its own");
        assert_eq!(sent, documented());
    }

    #[test]
    fn an_error_tells_its_kind_and_a_limit_of_open_files_without_being_told() {
        let kind = |error: Error| error.data().expect("data")["kind"].take();
        let refused = |errno| Error::system("go on", io::Error::from_raw_os_error(errno));
        assert_eq!(kind(refused(libc::EINVAL)), Value::Null);
        for errno in [libc::EMFILE, libc::ENFILE] {
            assert_eq!(kind(refused(errno)), "open_files");
        }
        assert_eq!(kind(refused(libc::EINVAL).with_kind(Kind::Mptcp)), "mptcp");
        assert_eq!(
            kind(refused(libc::EMFILE).with_kind(Kind::Mptcp)),
            "open_files"
        );
        let late = Error::TimedOut {
            operation: "going on".into(),
            after_s: 1.0,
            kind: None,
        };
        assert_eq!(kind(late.clone()), Value::Null);
        assert_eq!(kind(late.with_kind(Kind::Datagram)), "datagram");
    }
}
