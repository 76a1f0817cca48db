//! What an interface's driver counts, by its own names and by queue. Some take milliseconds for it, so it is read at the
//! start and at the end of a trial, and is in no sample.

use serde::Serialize;

use crate::adapter::{self, Adapter};
use crate::queues;

pub struct DriverCounters {
    interface: String,
    adapter: Option<Adapter>,
}

pub struct DriverReading {
    adapter: Option<Vec<u64>>,
    queues: Option<queues::Reading>,
}

/// Each is null where nothing is told, or something else at the end than at the start.
#[derive(Default, Serialize)]
pub struct DriverChange {
    adapter: Option<adapter::Moved>,
    queues: Option<Vec<queues::Moved>>,
}

impl DriverCounters {
    pub fn open(interface: &str) -> Self {
        Self {
            interface: interface.into(),
            adapter: Adapter::open(interface),
        }
    }

    pub fn read(&self) -> DriverReading {
        DriverReading {
            adapter: self.adapter.as_ref().and_then(Adapter::read),
            queues: queues::read(&self.interface),
        }
    }

    pub fn since(&self, then: &DriverReading) -> DriverChange {
        let now = self.read();
        let adapter = self.adapter.as_ref();
        let statistics = then.adapter.as_ref().zip(now.adapter.as_ref());
        let queues = then.queues.as_ref().zip(now.queues.as_ref());
        DriverChange {
            adapter: adapter
                .zip(statistics)
                .map(|(adapter, (then, now))| adapter.moved(then, now)),
            queues: queues.map(|(then, now)| queues::between(then, now)),
        }
    }
}
