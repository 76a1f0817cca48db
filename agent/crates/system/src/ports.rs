//! Ports for load and path probes: any port, or the range that the bench configures for firewalls.

use std::ops::RangeInclusive;
use std::sync::{PoisonError, RwLock};

use crate::error::{RequestError, Result};

/// The lowest port that every user may bind.
pub const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

/// The ports that may be used; `None` for any.
pub type AllowedPorts = Option<RangeInclusive<u16>>;

static ALLOWED_PORTS: RwLock<AllowedPorts> = RwLock::new(None);

/// Returns the configured range in the form of [`parse_allowed_ports`]; "" for any port.
pub fn format_allowed_ports() -> String {
    read_allowed_ports().map_or_else(String::new, |ports| {
        format!("{}-{}", ports.start(), ports.end())
    })
}

/// Sets the ports that may be used.
pub fn set_allowed_ports(ports: AllowedPorts) {
    *ALLOWED_PORTS
        .write()
        .unwrap_or_else(PoisonError::into_inner) = ports;
}

/// Parses `first-last`, or "" for any port. Returns `None` for other text.
pub fn parse_allowed_ports(text: &str) -> Option<AllowedPorts> {
    if text.is_empty() {
        return Some(None);
    }
    parse_port_range(text).map(Some)
}

/// Parses `first-last`, which starts at [`FIRST_UNPRIVILEGED_PORT`] or above. Returns `None` for other text.
pub fn parse_port_range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (FIRST_UNPRIVILEGED_PORT <= first && first <= last).then_some(first..=last)
}

/// Opens a socket on port 0 (any port), or on the first free port of the configured range.
///
/// # Errors
///
/// Fails if all ports of the range are in use, or with another error of `open`.
pub fn open_on_allowed_port<T>(mut open: impl FnMut(u16) -> Result<T>) -> Result<T> {
    let Some(ports) = read_allowed_ports() else {
        return open(0);
    };
    let (first, last) = (*ports.start(), *ports.end());
    for port in ports {
        match open(port) {
            Err(RequestError::System { errno, .. }) if errno == libc::EADDRINUSE => {}
            result => return result,
        }
    }
    Err(RequestError::System {
        operation: format!("use a port from {first} to {last}"),
        errno: libc::EADDRINUSE,
        reason: "all of these ports are in use".into(),
        kind: None,
    })
}

fn read_allowed_ports() -> AllowedPorts {
    ALLOWED_PORTS
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_must_be_valid_and_unprivileged() {
        assert_eq!(parse_allowed_ports(""), Some(None));
        assert_eq!(parse_allowed_ports("5300-5399"), Some(Some(5300..=5399)));
        assert_eq!(
            parse_allowed_ports("65535-65535"),
            Some(Some(65535..=65535))
        );
        for wrong in ["5300", "80-90", "5399-5300", "1024-65536", "a-b", "-", " "] {
            assert_eq!(parse_allowed_ports(wrong), None, "{wrong}");
        }
    }
}
