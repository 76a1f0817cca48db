//! All sources of counters of a trial, opened together and read at one moment.

use crate::perf::{self, ProcessCycles};
use crate::reading::{CounterSource, Counters, ReadScope, Reading};
use crate::{carrier, cgroup, cpu, interface, pressure, process, qdisc, snmp, softirq, softnet};
use vnetbench_system::error::Result;

/// What cycles are counted for.
pub enum CycleScope<'a> {
    /// The agent's process.
    Process(&'a ProcessCycles),
    /// The whole system.
    System,
}

/// Which counters of an endpoint are read.
pub struct CounterScope<'a> {
    /// The endpoint's interface, which must exist.
    pub interface: Option<&'a str>,
    /// Whether the interface may go down without a fault.
    pub interface_may_lose_link: bool,
    /// What cycles are counted for.
    pub cycles: CycleScope<'a>,
    /// Whether counters of the whole system are read too.
    pub includes_system_counters: bool,
    /// Whether the load cannot use IPv6, so that its counters can be left out.
    pub without_ipv6: bool,
}

/// Reads all sources of counters of a trial.
pub struct CounterReader {
    sources: Vec<Box<dyn CounterSource>>,
    qdisc: Option<qdisc::OwnInterfaceQdisc>,
    carrier: Option<carrier::OwnInterfaceCarrierChanges>,
    /// The last counters of both.
    last_qdisc: Counters,
    protocols: snmp::ProtocolCounterReader,
    last_protocols: Counters,
}

impl CounterReader {
    /// Opens all sources that this kernel has.
    pub fn open(scope: CounterScope<'_>) -> Result<Self> {
        fn push_available_source<S: CounterSource + 'static>(
            to: &mut Vec<Box<dyn CounterSource>>,
            source: Option<S>,
        ) {
            if let Some(source) = source {
                to.push(Box::new(source));
            }
        }
        // CPU times first: cycles may be estimated from them, and other sources add to the entry of a CPU.
        let mut sources: Vec<Box<dyn CounterSource>> = vec![Box::new(process::ProcessUsageReader)];
        let system = scope.includes_system_counters || matches!(scope.cycles, CycleScope::System);
        if system {
            push_available_source(&mut sources, cpu::CpuTimesReader::open());
        }
        match scope.cycles {
            CycleScope::Process(process) => sources.push(Box::new(process.make_source())),
            CycleScope::System => sources.push(Box::new(perf::SystemCycles::open_or_estimate())),
        }
        if system {
            push_available_source(&mut sources, softirq::SoftirqReader::open());
            push_available_source(&mut sources, softnet::SoftnetReader::open());
            push_available_source(&mut sources, pressure::CpuPressureReader::open());
        }
        push_available_source(&mut sources, cgroup::CpuThrottlingReader::open());
        if let Some(name) = scope.interface {
            sources.push(Box::new(interface::InterfaceCounterReader::open(
                name,
                scope.interface_may_lose_link,
            )?));
        }
        Ok(Self {
            sources,
            qdisc: scope.interface.and_then(qdisc::OwnInterfaceQdisc::open),
            carrier: scope
                .interface
                .and_then(carrier::OwnInterfaceCarrierChanges::open),
            last_qdisc: Counters::default(),
            protocols: snmp::ProtocolCounterReader::open(scope.without_ipv6),
            last_protocols: Counters::default(),
        })
    }

    /// Reads all sources. The first reading must use [`ReadScope::ALL`].
    pub fn read(&mut self, scope: ReadScope) -> Reading {
        let mut reading = Reading {
            scope,
            ..Reading::default()
        };
        for source in &mut self.sources {
            source.read(&mut reading);
        }
        if scope.qdiscs {
            let queue = self.qdisc.as_mut();
            self.last_qdisc = queue.map_or_else(Counters::default, qdisc::OwnInterfaceQdisc::read);
            if let Some(carrier) = &mut self.carrier {
                carrier.read(&mut self.last_qdisc);
            }
        }
        if scope.protocols {
            self.last_protocols = self.protocols.read();
        }
        reading.qdisc = self.last_qdisc.clone();
        reading.protocols = self.last_protocols.clone();
        reading
    }
}
