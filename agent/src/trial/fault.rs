//! Errors that end a trial.

use serde::Serialize;

/// An error that ends a trial.
#[derive(Debug)]
pub struct Fault {
    /// What failed.
    pub kind: FaultKind,
    /// A sentence for people.
    pub message: String,
}

/// What failed, for programs. docs/protocol.md lists the values under `trial.end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A stream broke under load, possibly because the other endpoint ended the trial.
    Stream,
    /// The interface vanished, went down, or lost its carrier.
    Interface,
    /// Connections could not be opened or accepted.
    Connection,
    /// The iperf3 server failed, or ended the test.
    Server,
}

impl FaultKind {
    /// Returns a fault of this kind.
    pub fn into_fault(self, message: impl ToString) -> Fault {
        Fault {
            kind: self,
            message: message.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../docs/protocol.md");

    #[test]
    fn all_kinds_are_documented() {
        let listed: Vec<_> = PAGE
            .lines()
            .skip_while(|line| !line.starts_with("| `fault_kind` | meaning"))
            .skip(2)
            .map_while(|line| line.strip_prefix("| `")?.split('`').next())
            .collect();
        let sent = [
            FaultKind::Stream,
            FaultKind::Interface,
            FaultKind::Connection,
            FaultKind::Server,
        ];
        // A new kind has to be added to the list above and to the page.
        for kind in sent {
            match kind {
                FaultKind::Stream
                | FaultKind::Interface
                | FaultKind::Connection
                | FaultKind::Server => {}
            }
        }
        assert_eq!(serde_json::json!(sent), serde_json::json!(listed));
    }
}
