//! Driver statistics of an interface, by name and by queue. Some drivers take milliseconds to report them, so the agent
//! reads them only at the start and the end of a trial.

use serde::Serialize;

use crate::adapter::{self, AdapterStatisticsReader};
use crate::queues::{self, QueueTraffic};

/// Reads the driver statistics of one interface.
pub struct DriverCounterReader {
    interface: String,
    adapter: Option<AdapterStatisticsReader>,
}

/// Driver statistics at one moment.
pub struct DriverReading {
    adapter: Option<Vec<u64>>,
    queues: Option<Vec<QueueTraffic>>,
}

/// Changes of driver statistics. Each is null if the driver lacks them or if they differ in number or kind.
#[derive(Default, Serialize)]
pub struct DriverCounterChanges {
    adapter: Option<adapter::NonzeroChangesByName>,
    queues: Option<Vec<QueueTraffic>>,
}

impl DriverCounterReader {
    /// Opens the statistics of an interface.
    pub fn open(interface: &str) -> Self {
        Self {
            interface: interface.into(),
            adapter: AdapterStatisticsReader::open(interface),
        }
    }

    /// Reads all statistics.
    pub fn read(&self) -> DriverReading {
        DriverReading {
            adapter: self
                .adapter
                .as_ref()
                .and_then(AdapterStatisticsReader::read),
            queues: queues::read_queue_traffic(&self.interface),
        }
    }

    /// Reads all statistics and returns their changes since `then`.
    pub fn read_changes_since(&self, earlier: &DriverReading) -> DriverCounterChanges {
        let now = self.read();
        let adapter = self.adapter.as_ref();
        let statistics = earlier.adapter.as_ref().zip(now.adapter.as_ref());
        let queues = earlier.queues.as_ref().zip(now.queues.as_ref());
        DriverCounterChanges {
            adapter: adapter
                .zip(statistics)
                .map(|(adapter, (earlier, now))| adapter.changes_between(earlier, now)),
            queues: queues.map(|(earlier, now)| queues::queue_traffic_since(earlier, now)),
        }
    }
}
