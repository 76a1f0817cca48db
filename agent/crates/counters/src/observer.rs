//! What an observer reads in addition to the system's counters: threads, interfaces and virtual machines.

use serde::{Deserialize, Serialize};

use crate::interfaces::{InterfaceTraffic, ObservedInterfaces};
use crate::kvm_exits::{ExitCounts, KvmExits};
use crate::thread_cpu::{self, ObservedThread, ThreadReading};
use vnetbench_system::error::{RequestError, Result};

/// Maximum number of threads, of interfaces, and of processes with virtual machines.
const MAX_OBSERVED_PER_KIND: usize = 1024;

/// What an observer reads in addition to the system's counters.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ObserverRequest {
    threads: Option<Vec<thread_cpu::ThreadRequest>>,
    interfaces: Option<Vec<String>>,
    namespace: Option<String>,
    kvm_pids: Option<Vec<u32>>,
}

/// Reads threads, interfaces and VM exits.
pub struct Observer {
    threads: Vec<ObservedThread>,
    interfaces: Option<ObservedInterfaces>,
    kvm: Option<KvmExits>,
}

/// Observations at one moment.
#[derive(Debug, Clone)]
pub struct ObserverReading {
    threads: Vec<ThreadReading>,
    interfaces: Vec<InterfaceTraffic>,
    /// Whether the interfaces' qdiscs were read at this moment.
    has_qdiscs: bool,
    kvm_exits: Option<ExitCounts>,
}

/// Changes between two observations.
#[derive(Debug, Serialize)]
pub struct ObserverChanges {
    threads: Vec<thread_cpu::ThreadChange>,
    interfaces: Vec<InterfaceTraffic>,
    /// VM exits by kind; null if the kernel does not expose them.
    kvm_exits: Option<ExitCounts>,
}

impl ObserverRequest {
    /// Checks the number of entries.
    ///
    /// # Errors
    ///
    /// Fails if a list has too many entries.
    pub fn check_list_lengths(&self) -> Result<()> {
        let counts = [
            ("threads", self.threads.as_ref().map(Vec::len)),
            ("interfaces", self.interfaces.as_ref().map(Vec::len)),
            ("kvm_pids", self.kvm_pids.as_ref().map(Vec::len)),
        ];
        match counts
            .iter()
            .find(|(_, count)| *count > Some(MAX_OBSERVED_PER_KIND))
        {
            Some((name, _)) => Err(RequestError::BadParameter(format!(
                "{name} must have at most {MAX_OBSERVED_PER_KIND} entries"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the threads of the testbed's processes.
    pub fn testbed_threads(&self) -> Vec<u32> {
        let threads = self.threads.iter().flatten().map(|thread| thread.tid);
        let processes = self.kvm_pids.iter().flatten().copied();
        threads.chain(processes).collect()
    }

    /// Returns the file of the network namespace of the observed interfaces, if it is not the agent's own.
    pub fn namespace_file(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Opens everything requested. Returns `None` for an empty request.
    pub fn open(self) -> Result<Option<Observer>> {
        let (threads, interfaces, processes) = (
            self.threads.unwrap_or_default(),
            self.interfaces.unwrap_or_default(),
            self.kvm_pids.unwrap_or_default(),
        );
        if threads.is_empty() && interfaces.is_empty() && processes.is_empty() {
            return Ok(None);
        }
        let threads = threads.into_iter().map(ObservedThread::open);
        Ok(Some(Observer {
            threads: threads.collect::<Result<_>>()?,
            interfaces: match interfaces.is_empty() {
                true => None,
                false => Some(ObservedInterfaces::open(interfaces, self.namespace)?),
            },
            kvm: KvmExits::open(&processes),
        }))
    }
}

impl Observer {
    /// Reads everything; interfaces' qdiscs only with `reads_qdiscs`.
    pub fn read(&mut self, reads_qdiscs: bool) -> ObserverReading {
        ObserverReading {
            threads: self.threads.iter_mut().map(ObservedThread::read).collect(),
            interfaces: self
                .interfaces
                .as_mut()
                .map_or_else(Vec::new, |interfaces| interfaces.read(reads_qdiscs)),
            has_qdiscs: reads_qdiscs,
            kvm_exits: self.kvm.as_mut().map(KvmExits::read),
        }
    }
}

impl ObserverReading {
    /// Returns the changes since an earlier observation.
    pub fn since(&self, earlier: &Self) -> ObserverChanges {
        let threads = self.threads.iter().zip(&earlier.threads);
        let interfaces = self.interfaces.iter().zip(&earlier.interfaces);
        let interfaces = interfaces.map(|(now, earlier)| match self.has_qdiscs {
            true => now.since(earlier),
            false => now.since(earlier).without_qdisc_and_carrier(),
        });
        let exits = self.kvm_exits.as_ref().zip(earlier.kvm_exits.as_ref());
        ObserverChanges {
            threads: threads.map(|(now, earlier)| now.since(earlier)).collect(),
            interfaces: interfaces.collect(),
            kvm_exits: exits.map(|(now, earlier)| {
                let since = |(kind, count): (&String, &u64)| {
                    (kind.clone(), count.saturating_sub(earlier[kind]))
                };
                now.iter().map(since).collect()
            }),
        }
    }
}
