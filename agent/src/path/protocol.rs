//! The protocol of a path probe.

use serde::Deserialize;

/// UDP shows what the path does with packets of a size. TCP shows what it does with the segments of connections, which some
/// filters treat in their own way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeProtocol {
    #[default]
    Udp,
    Tcp,
}
