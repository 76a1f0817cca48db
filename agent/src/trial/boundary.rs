//! What a trial reads only at its start and its end, because it takes long: driver statistics, other
//! programs, and the state of the path.

use serde::Serialize;

use vnetbench_counters::driver::{DriverCounterChanges, DriverCounterReader, DriverReading};
use vnetbench_counters::observer::ObserverRequest;
use vnetbench_counters::path_state::{PathState, PathStateReader, PathStateReading};
use vnetbench_counters::processes::{BusyProcessScanner, ProcessChanges, ProcessesReading};
use vnetbench_system::error::Result;

/// The sources that a trial reads only at its start and its end.
pub struct BoundarySources {
    driver: Option<DriverCounterReader>,
    processes: Option<BusyProcessScanner>,
    path_state: PathStateReader,
}

/// The sources at the start of a trial.
#[derive(Default)]
pub struct BoundaryReading {
    driver: Option<DriverReading>,
    processes: Option<ProcessesReading>,
    path_state: Option<PathStateReading>,
}

/// The changes from the start to the end of a trial. A part is absent if this endpoint does not read it.
#[derive(Default, Serialize)]
pub struct BoundaryChanges {
    #[serde(flatten)]
    driver: DriverCounterChanges,
    #[serde(flatten)]
    processes: Option<ProcessChanges>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_state: Option<PathState>,
}

impl BoundarySources {
    /// Opens the statistics of the interface's driver, the state of the path, and other programs if the endpoint counts
    /// the whole kernel.
    pub fn open(
        interface: Option<&str>,
        counts_whole_kernel: bool,
        request: &ObserverRequest,
    ) -> Result<Self> {
        Ok(Self {
            driver: interface.map(DriverCounterReader::open),
            processes: counts_whole_kernel
                .then(|| BusyProcessScanner::new(request.testbed_threads())),
            path_state: PathStateReader::open(request.namespace_file())?,
        })
    }

    /// Reads everything at the start of the load.
    pub fn read(&self) -> BoundaryReading {
        BoundaryReading {
            path_state: self.path_state.read().ok(),
            driver: self.driver.as_ref().map(DriverCounterReader::read),
            processes: self.processes.as_ref().and_then(|all| all.read().ok()),
        }
    }

    /// Reads everything again, and returns the changes.
    pub fn read_changes_since(&self, earlier: &BoundaryReading) -> BoundaryChanges {
        // Other programs first: their time must match the load's best.
        let processes = self.processes.as_ref().zip(earlier.processes.as_ref());
        let processes = processes.and_then(|(all, earlier)| all.read_changes_since(earlier).ok());
        let driver = self.driver.as_ref().zip(earlier.driver.as_ref());
        BoundaryChanges {
            driver: driver.map_or_else(Default::default, |(driver, earlier)| {
                driver.read_changes_since(earlier)
            }),
            processes,
            path_state: earlier
                .path_state
                .as_ref()
                .and_then(|earlier| self.path_state.read_changes_since(earlier).ok()),
        }
    }
}
