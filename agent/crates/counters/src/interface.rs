//! /proc/net/dev: packets, bytes, drops and errors of one interface in the agent's network namespace; whether it carries.

use std::io;

use crate::proc_file::ProcFile;
use crate::reading::{CounterSource, CounterValue, Reading};
use vnetbench_interfaces::interface;
use vnetbench_system::error::{Error, Result};

/// The columns of the file after the interface's name, and what they are called here; "" is not kept.
const COLUMNS: [&str; 12] = [
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

pub struct Interface {
    device: interface::Interface,
    /// Whether it carried when it was opened.
    ran: bool,
    file: ProcFile,
    last: [u64; COLUMNS.len()],
}

impl Interface {
    pub fn open(name: &str) -> Result<Self> {
        let operation = || format!("read the counters of interface {name}");
        let mut file = ProcFile::open("/proc/net/dev")
            .ok_or_else(|| Error::system(operation(), io::Error::last_os_error()))?;
        let last = row_of(file.text(), name).ok_or_else(|| {
            Error::system(operation(), io::Error::from_raw_os_error(libc::ENODEV))
        })?;
        let device =
            interface::Interface::open(name).map_err(|error| Error::system(operation(), error))?;
        Ok(Self {
            ran: device.is_running().unwrap_or(false),
            device,
            file,
            last,
        })
    }
}

impl Interface {
    /// What it has lost, which load needs.
    fn fault(&self, is_listed: bool) -> Option<String> {
        let has_stopped = self.ran && matches!(self.device.is_running(), Ok(false));
        let name = &self.device.name;
        if !is_listed || has_stopped && !self.device.keeps_settings_while_down() {
            return Some(format!("interface {name} vanished"));
        }
        has_stopped.then(|| format!("interface {name} went down or lost its carrier"))
    }
}

impl CounterSource for Interface {
    fn read(&mut self, into: &mut Reading) {
        let row = row_of(self.file.text(), &self.device.name);
        into.fault = self.fault(row.is_some());
        // The last known values stand, so that the trial's totals are still those of its samples.
        self.last = row.unwrap_or(self.last);
        for (name, count) in COLUMNS.iter().zip(self.last) {
            if !name.is_empty() {
                into.counters.push(name, CounterValue::Count(count));
            }
        }
    }
}

/// The counts of one interface, in the order of the columns.
pub fn row_of(text: &str, interface: &str) -> Option<[u64; COLUMNS.len()]> {
    let counts = text.lines().find_map(|line| {
        // The last colon: an alias has one in its name.
        let (name, counts) = line.rsplit_once(':')?;
        (name.trim() == interface).then_some(counts)
    })?;
    let mut row = [0; COLUMNS.len()];
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
        let row = row_of(DEV, "eth0").expect("it is there");
        assert_eq!(row[..4], [350_615_043, 7594, 1, 2]);
        assert_eq!(row[8..], [409_794, 4527, 3, 4]);
        assert_eq!(row_of(DEV, "eth"), None);
        assert_eq!(row_of(DEV, "th0"), None);
    }
}
