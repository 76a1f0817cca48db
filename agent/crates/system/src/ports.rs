//! The ports that load and probes of the path are taken on: any, or those that the bench names for firewalls on the way.

use std::ops::RangeInclusive;
use std::sync::{PoisonError, RwLock};

use crate::error::{Error, Result};

/// The lowest that every user may listen on.
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

static CONFIGURED_PORTS: RwLock<Option<RangeInclusive<u16>>> = RwLock::new(None);

/// As `parse` takes them; empty: any.
pub fn read() -> String {
    configured_ports().map_or_else(String::new, |ports| {
        format!("{}-{}", ports.start(), ports.end())
    })
}

pub fn set(ports: Option<RangeInclusive<u16>>) {
    *CONFIGURED_PORTS
        .write()
        .unwrap_or_else(PoisonError::into_inner) = ports;
}

/// `first-last`, or nothing for any; `None` for what is neither.
pub fn parse(text: &str) -> Option<Option<RangeInclusive<u16>>> {
    if text.is_empty() {
        return Some(None);
    }
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (FIRST_UNPRIVILEGED_PORT <= first && first <= last).then_some(Some(first..=last))
}

/// Has a socket made on port 0, which is any, or where ports are named on the first of them that is free.
pub fn try_ports<T>(mut make: impl FnMut(u16) -> Result<T>) -> Result<T> {
    let Some(ports) = configured_ports() else {
        return make(0);
    };
    let (first, last) = (*ports.start(), *ports.end());
    for port in ports {
        match make(port) {
            Err(Error::System { errno, .. }) if errno == libc::EADDRINUSE => {}
            made => return made,
        }
    }
    Err(Error::System {
        operation: format!("give a port from {first} to {last}"),
        errno: libc::EADDRINUSE,
        reason: "all of them are in use".into(),
        kind: None,
    })
}

fn configured_ports() -> Option<RangeInclusive<u16>> {
    CONFIGURED_PORTS
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_range_that_every_user_may_listen_on_is_one() {
        assert_eq!(parse(""), Some(None));
        assert_eq!(parse("5300-5399"), Some(Some(5300..=5399)));
        assert_eq!(parse("65535-65535"), Some(Some(65535..=65535)));
        for wrong in ["5300", "80-90", "5399-5300", "1024-65536", "a-b", "-", " "] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
