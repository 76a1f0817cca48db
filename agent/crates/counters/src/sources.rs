//! All sources of counters of one trial, opened together and read at one moment.

use crate::perf::{self, ProcessCycles};
use crate::reading::{Counters, Depth, Reading, Source};
use crate::{cgroup, cpu, interface, pressure, process, qdisc, snmp, softirq, softnet};
use vnetbench_system::error::Result;

/// Whose cycles are counted.
pub enum CyclesOf<'a> {
    Process(&'a ProcessCycles),
    System,
}

/// What of an endpoint is counted.
pub struct Scope<'a> {
    /// One that is named must exist.
    pub interface: Option<&'a str>,
    pub cycles: CyclesOf<'a>,
    /// What is the whole kernel's, too.
    pub system: bool,
    /// Nothing of its load can go over IPv6.
    pub without_ipv6: bool,
}

pub struct Sources {
    always: Vec<Box<dyn Source>>,
    queue: Option<qdisc::OfInterface>,
    queue_said: Counters,
    protocols: snmp::Snmp,
    protocols_said: Counters,
}

impl Sources {
    /// Opens all sources that this kernel has.
    pub fn open(scope: Scope<'_>) -> Result<Self> {
        fn add<S: Source + 'static>(to: &mut Vec<Box<dyn Source>>, source: Option<S>) {
            if let Some(source) = source {
                to.push(Box::new(source));
            }
        }
        // The CPU times first: where there are no hardware counters, cycles are estimated from them, and what else is told of
        // a CPU is added to its times.
        let mut sources: Vec<Box<dyn Source>> = vec![Box::new(process::Process)];
        let system = scope.system || matches!(scope.cycles, CyclesOf::System);
        if system {
            add(&mut sources, cpu::Cpu::open());
        }
        match scope.cycles {
            CyclesOf::Process(process) => sources.push(Box::new(process.source())),
            CyclesOf::System => sources.push(Box::new(perf::SystemCycles::open())),
        }
        if system {
            add(&mut sources, softirq::Softirq::open());
            add(&mut sources, softnet::Softnet::open());
            add(&mut sources, pressure::Pressure::open());
        }
        add(&mut sources, cgroup::Quota::open());
        if let Some(name) = scope.interface {
            sources.push(Box::new(interface::Interface::open(name)?));
        }
        Ok(Self {
            always: sources,
            queue: scope.interface.and_then(qdisc::OfInterface::open),
            queue_said: Counters::default(),
            protocols: snmp::Snmp::open(scope.without_ipv6),
            protocols_said: Counters::default(),
        })
    }

    /// The first reading is whole.
    pub fn read(&mut self, depth: Depth) -> Reading {
        let mut reading = Reading {
            depth,
            ..Reading::default()
        };
        for source in &mut self.always {
            source.read(&mut reading);
        }
        if depth.queues {
            let queue = self.queue.as_mut();
            self.queue_said = queue.map_or_else(Counters::default, qdisc::OfInterface::read);
        }
        if depth.protocols {
            self.protocols_said = self.protocols.read();
        }
        reading.queue = self.queue_said.clone();
        reading.protocols = self.protocols_said.clone();
        reading
    }
}
