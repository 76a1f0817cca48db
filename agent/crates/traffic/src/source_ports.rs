//! The source ports of an endpoint's streams: those that the kernel chooses, or those that a trial requests.

use std::ops::RangeInclusive;

use rustix::rand::{GetRandomFlags, getrandom};
use serde::Deserialize;

use vnetbench_system::error::{ErrorKind, RequestError, Result};
use vnetbench_system::ports::{FIRST_UNPRIVILEGED_PORT, parse_port_range};

const EPHEMERAL_RANGE_FILE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// The port of `bind` that leaves the choice to the kernel.
const PORT_OF_KERNELS_CHOICE: u16 = 0;

/// Which source ports the streams of an endpoint get (docs/protocol.md, "Source ports").
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum SourcePorts {
    /// The kernel chooses.
    #[default]
    Any,
    /// Consecutive free ports of the ephemeral range.
    Consecutive,
    /// One free port of each equal part of the ephemeral range: even, odd, even, and so on.
    Spread,
    /// These ports in turn.
    Range {
        /// Port of the first stream.
        first: u16,
        /// The last port that may be used.
        last: u16,
    },
}

impl TryFrom<String> for SourcePorts {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        match text.as_str() {
            "any" => Ok(Self::Any),
            "consecutive" => Ok(Self::Consecutive),
            "spread" => Ok(Self::Spread),
            _ => match parse_port_range(&text).map(RangeInclusive::into_inner) {
                Some((first, last)) => Ok(Self::Range { first, last }),
                None => Err(format!(
                    "source_ports must be any, consecutive, spread, or a range from {FIRST_UNPRIVILEGED_PORT} to \
                     65535 such as 50000-50015"
                )),
            },
        }
    }
}

impl SourcePorts {
    /// Checks that there are enough ports for this number of streams.
    ///
    /// # Errors
    ///
    /// A range has fewer ports than streams.
    pub fn check_stream_count(self, stream_count: usize) -> Result<()> {
        match self {
            Self::Range { first, last } if usize::from(last - first) + 1 < stream_count => {
                Err(RequestError::BadParameter(format!(
                    "source_ports {first}-{last} has {} ports, and this endpoint needs {stream_count}",
                    last - first + 1
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a TCP socket must bind its port although an earlier connection from there is in TIME_WAIT.
    ///
    /// Otherwise each trial of the same ports would have to wait for a minute after the one before.
    pub(crate) fn needs_address_reuse(self) -> bool {
        matches!(self, Self::Range { .. })
    }

    /// Binds one socket for each stream, in their order.
    ///
    /// `bind` gets the index of a stream and its port; port 0 leaves the choice to the kernel.
    ///
    /// # Errors
    ///
    /// A port is in use, no port is free, or any other error of `bind`.
    pub(crate) fn bind_sockets<T>(
        self,
        stream_count: usize,
        bind: impl FnMut(usize, u16) -> Result<T>,
    ) -> Result<Vec<T>> {
        match self {
            Self::Any => bind_at_ports((0..stream_count).map(|_| PORT_OF_KERNELS_CHOICE), bind)
                .map_err(|(_, error)| error),
            Self::Range { first, last } => {
                self.check_stream_count(stream_count)?;
                bind_at_ports((first..=last).take(stream_count), bind)
                    .map_err(|(index, error)| explain_used_port(error, first + index as u16))
            }
            Self::Consecutive => {
                bind_consecutively(&read_ephemeral_range()?, stream_count, draw_number, bind)
            }
            Self::Spread => bind_spread(&read_ephemeral_range()?, stream_count, draw_number, bind),
        }
    }
}

/// Binds a socket at each port; an error comes with the index of its port.
fn bind_at_ports<T>(
    ports: impl Iterator<Item = u16>,
    mut bind: impl FnMut(usize, u16) -> Result<T>,
) -> std::result::Result<Vec<T>, (usize, RequestError)> {
    ports
        .enumerate()
        .map(|(index, port)| bind(index, port).map_err(|error| (index, error)))
        .collect()
}

/// Binds consecutive ports: from a random start, or from the first one after it where all of them are free.
fn bind_consecutively<T>(
    range: &RangeInclusive<u16>,
    stream_count: usize,
    draw: impl Fn(usize) -> Result<usize>,
    mut bind: impl FnMut(usize, u16) -> Result<T>,
) -> Result<Vec<T>> {
    let start_count = (range.len() + 1).saturating_sub(stream_count);
    if start_count == 0 {
        return Err(too_few_ports(range, stream_count));
    }
    let mut start = draw(start_count)?;
    let mut rejected_starts = 0;
    while rejected_starts < start_count {
        let first = usize::from(*range.start()) + start;
        let ports = (first..first + stream_count).map(|port| port as u16);
        let index = match bind_at_ports(ports, &mut bind) {
            Ok(sockets) => return Ok(sockets),
            Err((index, error)) if is_in_use(&error) => index,
            Err((_, error)) => return Err(error),
        };
        rejected_starts += index + 1;
        start = (start + index + 1) % start_count;
    }
    Err(too_few_ports(range, stream_count))
}

/// Binds one port of each equal part of the range, even in the first, odd in the second, and so on in turn.
///
/// The first port that it tries in a part is random.
fn bind_spread<T>(
    range: &RangeInclusive<u16>,
    stream_count: usize,
    draw: impl Fn(usize) -> Result<usize>,
    mut bind: impl FnMut(usize, u16) -> Result<T>,
) -> Result<Vec<T>> {
    let part_start = |part: usize| usize::from(*range.start()) + part * range.len() / stream_count;
    let mut sockets = Vec::with_capacity(stream_count);
    for index in 0..stream_count {
        let candidates: Vec<u16> = (part_start(index)..part_start(index + 1))
            .filter(|port| port % 2 == index % 2)
            .map(|port| port as u16)
            .collect();
        if candidates.is_empty() {
            return Err(too_few_ports(range, stream_count));
        }
        let offset = draw(candidates.len())?;
        let in_turn = candidates[offset..].iter().chain(&candidates[..offset]);
        let bound = in_turn
            .map(|port| bind(index, *port))
            .find(|result| !matches!(result, Err(error) if is_in_use(error)));
        sockets.push(bound.unwrap_or_else(|| Err(too_few_ports(range, stream_count)))?);
    }
    Ok(sockets)
}

fn is_in_use(error: &RequestError) -> bool {
    matches!(error, RequestError::System { errno, .. } if *errno == libc::EADDRINUSE)
}

/// Explains the error of a port that is in use, with the port.
fn explain_used_port(error: RequestError, port: u16) -> RequestError {
    match error {
        RequestError::System { errno, .. } if errno == libc::EADDRINUSE => RequestError::System {
            operation: format!("use the source port {port}"),
            errno,
            reason: "another socket uses it".into(),
            kind: Some(ErrorKind::SourcePort),
        },
        other => other,
    }
}

/// Explains the error of a connection, with its port, whose addresses and ports an earlier one had, up to a minute ago.
pub(crate) fn explain_port_in_time_wait(
    error: RequestError,
    port: u16,
    destination: &str,
) -> RequestError {
    match error {
        RequestError::System { errno, .. } if errno == libc::EADDRNOTAVAIL => {
            RequestError::System {
                operation: format!("use the source port {port}"),
                errno,
                reason: format!(
                    "an earlier connection from it to {destination} is still in TIME_WAIT"
                ),
                kind: Some(ErrorKind::SourcePort),
            }
        }
        other => other,
    }
}

fn too_few_ports(range: &RangeInclusive<u16>, stream_count: usize) -> RequestError {
    RequestError::System {
        operation: format!(
            "find source ports for {stream_count} streams in the ephemeral range {}-{}",
            range.start(),
            range.end()
        ),
        errno: libc::EADDRINUSE,
        reason: "too few of its ports are free".into(),
        kind: Some(ErrorKind::SourcePort),
    }
}

/// Returns the ports from which the kernel of this network namespace chooses (ip-sysctl.rst, `ip_local_port_range`).
fn read_ephemeral_range() -> Result<RangeInclusive<u16>> {
    let failed =
        |error: std::io::Error| RequestError::system(format!("read {EPHEMERAL_RANGE_FILE}"), error);
    let text = std::fs::read_to_string(EPHEMERAL_RANGE_FILE).map_err(failed)?;
    let mut ports = text.split_whitespace().map(str::parse);
    match (ports.next(), ports.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => Ok(first..=last),
        _ => Err(failed(std::io::ErrorKind::InvalidData.into())),
    }
}

/// Returns a random number below `limit`.
fn draw_number(limit: usize) -> Result<usize> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|error| RequestError::system("draw a random source port", error))?;
    Ok((u64::from_ne_bytes(bytes) % limit as u64) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<SourcePorts> {
        SourcePorts::try_from(text.to_owned()).ok()
    }

    /// Returns a `bind` that returns the port unless it is in use.
    fn bind_unless_in<'a>(used: &'a [u16]) -> impl FnMut(usize, u16) -> Result<u16> + 'a {
        move |_, port| {
            if used.contains(&port) {
                let cause = std::io::Error::from_raw_os_error(libc::EADDRINUSE);
                return Err(RequestError::system("bind", cause));
            }
            Ok(port)
        }
    }

    #[test]
    fn keywords_and_unprivileged_ranges_are_parsed() {
        assert_eq!(parse("any"), Some(SourcePorts::Any));
        assert_eq!(parse("consecutive"), Some(SourcePorts::Consecutive));
        assert_eq!(parse("spread"), Some(SourcePorts::Spread));
        let (first, last) = (50000, 50015);
        assert_eq!(
            parse("50000-50015"),
            Some(SourcePorts::Range { first, last })
        );
        for wrong in [
            "",
            "Any",
            "50000",
            "80-90",
            "50015-50000",
            "1024-65536",
            "a-b",
            "1-2-3",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_range_is_used_in_turn_and_a_used_port_is_named() {
        let range = parse("50000-50002").expect("valid");
        let ports = |used: &[u16], count| range.bind_sockets(count, bind_unless_in(used));
        assert_eq!(ports(&[50002], 2).expect("free"), [50000, 50001]);
        let error = ports(&[50001], 3).expect_err("one port is in use");
        assert_eq!(
            error.to_string(),
            "cannot use the source port 50001: another socket uses it"
        );
        let error = ports(&[], 4).expect_err("too many streams");
        assert!(error.to_string().contains("has 3 ports"), "{error}");
    }

    #[test]
    fn any_leaves_the_choice_to_the_kernel() {
        let ports = SourcePorts::Any.bind_sockets(3, bind_unless_in(&[]));
        assert_eq!(ports.expect("no port is refused"), [0, 0, 0]);
    }

    #[test]
    fn consecutive_ports_start_behind_a_used_one() {
        let bind = |start: usize, count, used: &[u16]| {
            bind_consecutively(&(100..=109), count, |_| Ok(start), bind_unless_in(used))
        };
        assert_eq!(bind(3, 3, &[]).expect("free"), [103, 104, 105]);
        assert_eq!(bind(3, 3, &[104]).expect("free"), [105, 106, 107]);
        assert_eq!(bind(7, 3, &[108]).expect("wraps"), [101, 102, 103]);
        assert_eq!(bind(0, 10, &[]).expect("free").len(), 10);
        bind(0, 11, &[]).expect_err("the range is too short");
        bind(4, 4, &[102, 105, 108]).expect_err("no four ports are free");
    }

    #[test]
    fn spread_ports_alternate_between_even_and_odd_over_the_whole_range() {
        let bind = |draw: usize, count, used: &[u16]| {
            bind_spread(&(100..=139), count, |_| Ok(draw), bind_unless_in(used))
        };
        assert_eq!(bind(0, 4, &[]).expect("free"), [100, 111, 120, 131]);
        assert_eq!(bind(4, 4, &[]).expect("free"), [108, 119, 128, 139]);
        assert_eq!(bind(4, 4, &[119]).expect("free"), [108, 111, 128, 139]);
        bind(0, 20, &[]).expect("one port of each parity in each part");
        bind(0, 21, &[]).expect_err("a part has one port");
        bind(0, 4, &[111, 113, 115, 117, 119]).expect_err("no odd port of this part is free");
    }

    #[test]
    fn other_errors_end_the_search() {
        let mut calls = 0;
        let refuse = |_, _| -> Result<u16> {
            calls += 1;
            let cause = std::io::Error::from_raw_os_error(libc::EACCES);
            Err(RequestError::system("bind", cause))
        };
        bind_consecutively(&(100..=109), 2, |_| Ok(0), refuse).expect_err("no permission");
        assert_eq!(calls, 1);
    }
}
