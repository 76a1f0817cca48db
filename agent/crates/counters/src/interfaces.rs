//! Packets, bytes, drops and queues of several interfaces of one network namespace, such as a switch and its ports.

use std::fs::File;
use std::io;

use rustix::net::netdevice::name_to_index;
use serde::Serialize;

use crate::carrier::read_carrier_changes;
use crate::interface::parse_interface_row;
use crate::namespace::run_in_namespace;
use crate::proc_file::ProcFile;
use crate::qdisc::{QdiscCounters, RootQdiscReader};
use vnetbench_interfaces::netlink::NetlinkSocket;
use vnetbench_system::error::{RequestError, Result};

pub struct ObservedInterfaces {
    file: ProcFile,
    /// Netlink socket of the same namespace.
    socket: NetlinkSocket,
    interfaces: Vec<ObservedInterface>,
}

struct ObservedInterface {
    index: Option<u32>,
    /// The root queueing discipline; `None` if the kernel does not report it.
    qdisc: Option<RootQdiscReader>,
    last: InterfaceTraffic,
}

/// Counters of one interface at one moment, or between two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InterfaceTraffic {
    name: String,
    rx_packets: u64,
    tx_packets: u64,
    rx_bytes: u64,
    tx_bytes: u64,
    rx_dropped: u64,
    tx_dropped: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    qdisc: Option<QdiscCounters>,
    /// How often its link came or went.
    #[serde(skip_serializing_if = "Option::is_none")]
    carrier_changes: Option<u64>,
    /// Whether the interface has vanished; the counters are those of its last reading.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_gone: bool,
}

impl ObservedInterfaces {
    /// Opens interfaces, which must exist. `namespace` is the file of another network namespace.
    pub fn open(names: Vec<String>, namespace: Option<String>) -> Result<Self> {
        let (file, mut socket) =
            open_net_dev_and_netlink(namespace.as_deref()).map_err(|error| {
                let location = namespace.as_deref().unwrap_or("this network namespace");
                RequestError::system(format!("read the counters of {location}"), error)
            })?;
        let mut file = ProcFile::from_file(file);
        let text = file.read_text();
        let first = |name: String| {
            let absent = io::Error::from_raw_os_error(libc::ENODEV);
            let operation = || format!("read the counters of {name}");
            let last = parse_traffic(text, &name)
                .ok_or_else(|| RequestError::system(operation(), absent))?;
            let qdisc = RootQdiscReader::open(&mut socket, &name);
            let index = name_to_index(&socket, &name).ok();
            Ok(ObservedInterface { index, qdisc, last })
        };
        let watched = names.into_iter().map(first).collect::<Result<_>>()?;
        Ok(Self {
            file,
            socket,
            interfaces: watched,
        })
    }

    /// Reads all interfaces. Without `reads_qdiscs`, queueing disciplines and carriers keep their last reading.
    pub fn read(&mut self, reads_qdiscs: bool) -> Vec<InterfaceTraffic> {
        let text = self.file.read_text();
        // A new interface with the name of a vanished one starts at 0, so it is not read.
        for interface in self
            .interfaces
            .iter_mut()
            .filter(|interface| !interface.last.is_gone)
        {
            match parse_traffic(text, &interface.last.name) {
                Some(now) => {
                    let qdisc = interface.last.qdisc.take();
                    let carrier_changes = interface.last.carrier_changes;
                    interface.last = InterfaceTraffic {
                        qdisc,
                        carrier_changes,
                        ..now
                    };
                }
                None => interface.last.is_gone = true,
            }
            if reads_qdiscs {
                let queued = interface
                    .qdisc
                    .as_mut()
                    .map(|qdisc| qdisc.read(&mut self.socket));
                interface.last.qdisc = queued;
                let changes = interface
                    .index
                    .and_then(|index| read_carrier_changes(&mut self.socket, index));
                interface.last.carrier_changes = changes.or(interface.last.carrier_changes);
            }
        }
        self.interfaces
            .iter()
            .map(|interface| interface.last.clone())
            .collect()
    }
}

fn open_net_dev_and_netlink(namespace: Option<&str>) -> io::Result<(File, NetlinkSocket)> {
    run_in_namespace(namespace, || {
        Ok((
            File::open("/proc/thread-self/net/dev")?,
            NetlinkSocket::open_route()?,
        ))
    })
}

fn parse_traffic(text: &str, name: &str) -> Option<InterfaceTraffic> {
    let row = parse_interface_row(text, name)?;
    let [
        rx_bytes,
        rx_packets,
        _,
        rx_dropped,
        ..,
        tx_bytes,
        tx_packets,
        _,
        tx_dropped,
    ] = row;
    Some(InterfaceTraffic {
        name: name.to_owned(),
        rx_packets,
        tx_packets,
        rx_bytes,
        tx_bytes,
        rx_dropped,
        tx_dropped,
        qdisc: None,
        carrier_changes: None,
        is_gone: false,
    })
}

impl InterfaceTraffic {
    pub fn without_qdisc_and_carrier(self) -> Self {
        Self {
            qdisc: None,
            carrier_changes: None,
            ..self
        }
    }

    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            name: self.name.clone(),
            rx_packets: self.rx_packets.saturating_sub(earlier.rx_packets),
            tx_packets: self.tx_packets.saturating_sub(earlier.tx_packets),
            rx_bytes: self.rx_bytes.saturating_sub(earlier.rx_bytes),
            tx_bytes: self.tx_bytes.saturating_sub(earlier.tx_bytes),
            rx_dropped: self.rx_dropped.saturating_sub(earlier.rx_dropped),
            tx_dropped: self.tx_dropped.saturating_sub(earlier.tx_dropped),
            qdisc: self
                .qdisc
                .as_ref()
                .zip(earlier.qdisc.as_ref())
                .map(|(now, earlier)| now.since(earlier)),
            carrier_changes: self
                .carrier_changes
                .zip(earlier.carrier_changes)
                .map(|(now, earlier)| now.saturating_sub(earlier)),
            is_gone: self.is_gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_bytes_and_drops_are_parsed() {
        let text = "  tap0: 900 9 0 2 0 0 0 0 700 7 0 3 0 0 0 0\n";
        let now = parse_traffic(text, "tap0").expect("the file exists");
        let counts = (
            now.rx_packets,
            now.tx_packets,
            now.rx_bytes,
            now.tx_bytes,
            now.rx_dropped,
            now.tx_dropped,
        );
        assert_eq!(counts, (9, 7, 900, 700, 2, 3));
        assert_eq!(parse_traffic(text, "tap"), None);
    }

    #[test]
    fn a_missing_interface_is_rejected() {
        let refused =
            ObservedInterfaces::open(vec!["lo".into(), "vnb-absent".into()], None).map(drop);
        assert_eq!(refused.map_err(|error| error.json_rpc_code()), Err(-32001));
    }
}
