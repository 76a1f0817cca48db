//! Packets, bytes, drops and queues of several interfaces of one network namespace (a switch and its ports).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::Serialize;

use crate::interface::row_of;
use crate::proc_file::ProcFile;
use crate::qdisc::{Qdisc, QdiscCounters};
use vnetbench_interfaces::netlink;
use vnetbench_system::error::{Error, Result};

pub struct Interfaces {
    file: ProcFile,
    /// Of the same namespace.
    socket: OwnedFd,
    watched: Vec<Interface>,
}

struct Interface {
    /// Where something can wait.
    qdisc: Option<Qdisc>,
    last: Passed,
}

/// One interface at one moment, or between two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Passed {
    name: String,
    rx_packets: u64,
    tx_packets: u64,
    rx_bytes: u64,
    tx_bytes: u64,
    rx_dropped: u64,
    tx_dropped: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    qdisc: Option<QdiscCounters>,
    /// It has vanished: what it had passed by its last reading is all that is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    gone: bool,
}

impl Interfaces {
    /// Each of them must be there. `namespace` is a file that stands for another network namespace than the agent's.
    pub fn open(names: Vec<String>, namespace: Option<String>) -> Result<Self> {
        let (file, socket) = opened_in(namespace.as_deref()).map_err(|error| {
            let place = namespace.as_deref().unwrap_or("this network namespace");
            Error::system(format!("read the counters of {place}"), error)
        })?;
        let mut file = ProcFile::from_file(file);
        let text = file.text();
        let first = |name: String| {
            let absent = io::Error::from_raw_os_error(libc::ENODEV);
            let operation = || format!("read the counters of {name}");
            let last = passed(text, &name).ok_or_else(|| Error::system(operation(), absent))?;
            let qdisc = Qdisc::open(&socket, &name);
            Ok(Interface { qdisc, last })
        };
        let watched = names.into_iter().map(first).collect::<Result<_>>()?;
        Ok(Self {
            file,
            socket,
            watched,
        })
    }

    /// What waits before them is as it was read last where it is not to be read.
    pub fn read(&mut self, queues: bool) -> Vec<Passed> {
        let text = self.file.text();
        // Another that has the name of one that vanished counts from 0.
        for each in self.watched.iter_mut().filter(|each| !each.last.gone) {
            match passed(text, &each.last.name) {
                Some(now) => {
                    let qdisc = each.last.qdisc.take();
                    each.last = Passed { qdisc, ..now };
                }
                None => each.last.gone = true,
            }
            if queues {
                let queued = each.qdisc.as_mut().map(|qdisc| qdisc.read(&self.socket));
                each.last.qdisc = queued;
            }
        }
        self.watched.iter().map(|each| each.last.clone()).collect()
    }
}

/// File and socket stay those of the namespace in which they were opened, so a thread of its own goes there to open them.
fn opened_in(namespace: Option<&str>) -> io::Result<(File, OwnedFd)> {
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| {
            if let Some(path) = namespace {
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(File::open(path)?.as_fd(), network)?;
            }
            Ok((
                File::open("/proc/thread-self/net/dev")?,
                netlink::open(None)?,
            ))
        });
        opened
            .join()
            .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })
}

fn passed(text: &str, name: &str) -> Option<Passed> {
    let row = row_of(text, name)?;
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
    Some(Passed {
        name: name.to_owned(),
        rx_packets,
        tx_packets,
        rx_bytes,
        tx_bytes,
        rx_dropped,
        tx_dropped,
        qdisc: None,
        gone: false,
    })
}

impl Passed {
    pub fn without_queue(self) -> Self {
        Self {
            qdisc: None,
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
                .map(|(now, then)| now.since(then)),
            gone: self.gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_bytes_and_drops_are_told_apart() {
        let text = "  tap0: 900 9 0 2 0 0 0 0 700 7 0 3 0 0 0 0\n";
        let now = passed(text, "tap0").expect("it is there");
        let counts = (
            now.rx_packets,
            now.tx_packets,
            now.rx_bytes,
            now.tx_bytes,
            now.rx_dropped,
            now.tx_dropped,
        );
        assert_eq!(counts, (9, 7, 900, 700, 2, 3));
        assert_eq!(passed(text, "tap"), None);
    }

    #[test]
    fn one_that_is_not_there_is_refused() {
        let refused = Interfaces::open(vec!["lo".into(), "vnb-absent".into()], None).map(drop);
        assert_eq!(refused.map_err(|error| error.code()), Err(-32001));
    }
}
