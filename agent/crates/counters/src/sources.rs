//! All sources of counters of one trial, opened together and read at one moment.

use crate::perf::{self, ProcessCycles};
use crate::reading::{CounterSource, Counters, ReadScope, Reading};
use crate::{cgroup, cpu, interface, pressure, process, qdisc, snmp, softirq, softnet};
use vnetbench_system::error::Result;

/// Whose cycles are counted.
pub enum CycleScope<'a> {
    Process(&'a ProcessCycles),
    System,
}

/// What of an endpoint is counted.
pub struct Scope<'a> {
    /// One that is named must exist.
    pub interface: Option<&'a str>,
    pub cycles: CycleScope<'a>,
    /// What is the whole kernel's, too.
    pub system: bool,
    /// Nothing of its load can go over IPv6.
    pub without_ipv6: bool,
}

pub struct Sources {
    always: Vec<Box<dyn CounterSource>>,
    queue: Option<qdisc::OfInterface>,
    last_queue: Counters,
    protocols: snmp::Snmp,
    last_protocols: Counters,
}

impl Sources {
    /// Opens all sources that this kernel has.
    pub fn open(scope: Scope<'_>) -> Result<Self> {
        fn add<S: CounterSource + 'static>(
            to: &mut Vec<Box<dyn CounterSource>>,
            source: Option<S>,
        ) {
            if let Some(source) = source {
                to.push(Box::new(source));
            }
        }
        // The CPU times first: where there are no hardware counters, cycles are estimated from them, and what else is told of
        // a CPU is added to its times.
        let mut sources: Vec<Box<dyn CounterSource>> = vec![Box::new(process::Process)];
        let system = scope.system || matches!(scope.cycles, CycleScope::System);
        if system {
            add(&mut sources, cpu::Cpu::open());
        }
        match scope.cycles {
            CycleScope::Process(process) => sources.push(Box::new(process.source())),
            CycleScope::System => sources.push(Box::new(perf::SystemCycles::open())),
        }
        if system {
            add(&mut sources, softirq::Softirq::open());
            add(&mut sources, softnet::Softnet::open());
            add(&mut sources, pressure::Pressure::open());
        }
        add(&mut sources, cgroup::CgroupQuota::open());
        if let Some(name) = scope.interface {
            sources.push(Box::new(interface::Interface::open(name)?));
        }
        Ok(Self {
            always: sources,
            queue: scope.interface.and_then(qdisc::OfInterface::open),
            last_queue: Counters::default(),
            protocols: snmp::Snmp::open(scope.without_ipv6),
            last_protocols: Counters::default(),
        })
    }

    /// The first reading is whole.
    pub fn read(&mut self, depth: ReadScope) -> Reading {
        let mut reading = Reading {
            depth,
            ..Reading::default()
        };
        for source in &mut self.always {
            source.read(&mut reading);
        }
        if depth.queues {
            let queue = self.queue.as_mut();
            self.last_queue = queue.map_or_else(Counters::default, qdisc::OfInterface::read);
        }
        if depth.protocols {
            self.last_protocols = self.protocols.read();
        }
        reading.queue = self.last_queue.clone();
        reading.protocols = self.last_protocols.clone();
        reading
    }
}
