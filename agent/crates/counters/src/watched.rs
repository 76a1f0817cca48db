//! What an observer is told to watch beside the system as a whole: threads, interfaces, virtual machines.

use serde::{Deserialize, Serialize};

use crate::interfaces::{Interfaces, Passed};
use crate::kvm_exits::{Exits, KvmExits};
use crate::thread_cpu::{self, ThreadCpu, ThreadReading};
use vnetbench_system::error::{Error, Result};

/// Of threads, of interfaces, and of processes with virtual machines.
const MAX_OBSERVED: usize = 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ObserverRequest {
    threads: Option<Vec<thread_cpu::ThreadRequest>>,
    interfaces: Option<Vec<String>>,
    namespace: Option<String>,
    kvm_pids: Option<Vec<u32>>,
}

pub struct Observer {
    threads: Vec<ThreadCpu>,
    interfaces: Option<Interfaces>,
    kvm: Option<KvmExits>,
}

/// All of it at one moment.
#[derive(Debug, Clone)]
pub struct ObserverReading {
    threads: Vec<ThreadReading>,
    interfaces: Vec<Passed>,
    /// Whether what waits before these was read at this moment.
    has_queues: bool,
    kvm_exits: Option<Exits>,
}

/// All of it between two.
#[derive(Debug, Serialize)]
pub struct ObserverChange {
    threads: Vec<thread_cpu::ThreadChange>,
    interfaces: Vec<Passed>,
    /// Null where the kernel does not show them.
    kvm_exits: Option<Exits>,
}

impl ObserverRequest {
    pub fn check(&self) -> Result<()> {
        let counts = [
            ("threads", self.threads.as_ref().map(Vec::len)),
            ("interfaces", self.interfaces.as_ref().map(Vec::len)),
            ("kvm_pids", self.kvm_pids.as_ref().map(Vec::len)),
        ];
        match counts.iter().find(|(_, count)| *count > Some(MAX_OBSERVED)) {
            Some((name, _)) => Err(Error::BadParameter(format!(
                "{name} must be {MAX_OBSERVED} at most"
            ))),
            None => Ok(()),
        }
    }

    /// Opens all that is to be watched, once for all readings; `None` where nothing is.
    pub fn open(self) -> Result<Option<Observer>> {
        let (threads, interfaces, processes) = (
            self.threads.unwrap_or_default(),
            self.interfaces.unwrap_or_default(),
            self.kvm_pids.unwrap_or_default(),
        );
        if threads.is_empty() && interfaces.is_empty() && processes.is_empty() {
            return Ok(None);
        }
        let threads = threads.into_iter().map(ThreadCpu::open);
        Ok(Some(Observer {
            threads: threads.collect::<Result<_>>()?,
            interfaces: match interfaces.is_empty() {
                true => None,
                false => Some(Interfaces::open(interfaces, self.namespace)?),
            },
            kvm: KvmExits::open(&processes),
        }))
    }
}

impl Observer {
    pub fn read(&mut self, queues: bool) -> ObserverReading {
        ObserverReading {
            threads: self.threads.iter_mut().map(ThreadCpu::read).collect(),
            interfaces: self
                .interfaces
                .as_mut()
                .map_or_else(Vec::new, |interfaces| interfaces.read(queues)),
            has_queues: queues,
            kvm_exits: self.kvm.as_mut().map(KvmExits::read),
        }
    }
}

impl ObserverReading {
    pub fn since(&self, earlier: &Self) -> ObserverChange {
        let threads = self.threads.iter().zip(&earlier.threads);
        let interfaces = self.interfaces.iter().zip(&earlier.interfaces);
        let interfaces = interfaces.map(|(now, then)| match self.has_queues {
            true => now.since(then),
            false => now.since(then).without_queue(),
        });
        let exits = self.kvm_exits.as_ref().zip(earlier.kvm_exits.as_ref());
        ObserverChange {
            threads: threads.map(|(now, then)| now.since(then)).collect(),
            interfaces: interfaces.collect(),
            kvm_exits: exits.map(|(now, then)| {
                let since = |(kind, count): (&String, &u64)| {
                    (kind.clone(), count.saturating_sub(then[kind]))
                };
                now.iter().map(since).collect()
            }),
        }
    }
}
