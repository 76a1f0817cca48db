//! /proc/net/dev: packets, bytes, drops and errors of an interface in the agent's network namespace, and its link state.

use std::io;

use crate::proc_file::ProcFile;
use crate::reading::{CounterSource, CounterValue, Reading};
use vnetbench_interfaces::interface;
use vnetbench_system::error::{RequestError, Result};

/// Counter names of the columns after the interface's name; "" for columns that are not kept.
const PROC_NET_DEV_COUNTERS: [&str; 12] = [
    "rx_bytes",
    "rx_packets",
    "rx_errors",
    "rx_dropped",
    "",
    "",
    "",
    "",
    "tx_bytes",
    "tx_packets",
    "tx_errors",
    "tx_dropped",
];

pub struct InterfaceCounterReader {
    device: interface::Interface,
    /// Whether the interface was up with carrier when it was opened.
    was_running: bool,
    /// Whether losing the link is part of the measurement, and no fault.
    may_lose_link: bool,
    file: ProcFile,
    last: [u64; PROC_NET_DEV_COUNTERS.len()],
}

impl InterfaceCounterReader {
    pub fn open(name: &str, may_lose_link: bool) -> Result<Self> {
        let operation = || format!("read the counters of interface {name}");
        let mut file = ProcFile::open("/proc/net/dev")
            .ok_or_else(|| RequestError::system(operation(), io::Error::last_os_error()))?;
        let last = parse_interface_row(file.read_text(), name).ok_or_else(|| {
            RequestError::system(operation(), io::Error::from_raw_os_error(libc::ENODEV))
        })?;
        let device = interface::Interface::open(name)
            .map_err(|error| RequestError::system(operation(), error))?;
        Ok(Self {
            was_running: device.is_running().unwrap_or(false),
            device,
            may_lose_link,
            file,
            last,
        })
    }
}

impl InterfaceCounterReader {
    /// Returns an error message if the interface vanished or lost its link.
    fn link_failure_message(&self, is_listed: bool) -> Option<String> {
        let has_stopped = self.was_running && matches!(self.device.is_running(), Ok(false));
        let name = &self.device.name;
        if !is_listed || has_stopped && !self.device.is_still_present() {
            return Some(format!("interface {name} vanished"));
        }
        (has_stopped && !self.may_lose_link)
            .then(|| format!("interface {name} went down or lost its carrier"))
    }
}

impl CounterSource for InterfaceCounterReader {
    fn read(&mut self, into: &mut Reading) {
        let row = parse_interface_row(self.file.read_text(), &self.device.name);
        into.failure_message = self.link_failure_message(row.is_some());
        // Keep the last known values, so that the trial's totals still match its samples.
        self.last = row.unwrap_or(self.last);
        for (name, count) in PROC_NET_DEV_COUNTERS.iter().zip(self.last) {
            if !name.is_empty() {
                into.counters.push(name, CounterValue::Count(count));
            }
        }
    }
}

/// Returns the counters of one interface, in the order of the columns.
pub fn parse_interface_row(
    text: &str,
    interface: &str,
) -> Option<[u64; PROC_NET_DEV_COUNTERS.len()]> {
    let counts = text.lines().find_map(|line| {
        // Split at the last colon: an alias has a colon in its name.
        let (name, counts) = line.rsplit_once(':')?;
        (name.trim() == interface).then_some(counts)
    })?;
    let mut row = [0; PROC_NET_DEV_COUNTERS.len()];
    for (value, word) in row.iter_mut().zip(counts.split_ascii_whitespace()) {
        *value = word.parse().ok()?;
    }
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &str = "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0
  eth0: 350615043    7594    1    2    0     0          0         0   409794    4527    3    4    0     0       0          0
";

    #[test]
    fn an_interface_is_found_by_its_whole_name() {
        let row = parse_interface_row(DEV, "eth0").expect("the interface is listed");
        assert_eq!(row[..4], [350_615_043, 7594, 1, 2]);
        assert_eq!(row[8..], [409_794, 4527, 3, 4]);
        assert_eq!(parse_interface_row(DEV, "eth"), None);
        assert_eq!(parse_interface_row(DEV, "th0"), None);
    }
}
