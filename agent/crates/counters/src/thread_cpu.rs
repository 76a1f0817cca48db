//! CPU time of threads of other processes, such as a guest's vCPUs, also after they have ended.

use std::io;

use serde::{Deserialize, Serialize};

use crate::thread_time::{NANOS_PER_S, ThreadTimeReader, ThreadTimes};
use vnetbench_system::error::{RequestError, Result};

/// A thread to observe, by its thread id (gettid(2)).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadRequest {
    name: String,
    /// The thread's id.
    pub tid: u32,
}

pub struct ObservedThread {
    name: String,
    clock: ThreadTimeReader,
    last: ThreadTimes,
    is_gone: bool,
}

/// Times of a thread at one moment.
#[derive(Debug, Clone)]
pub struct ThreadReading {
    name: String,
    time: ThreadTimes,
    is_gone: bool,
}

#[derive(Debug, Serialize)]
pub struct ThreadChange {
    name: String,
    cpu_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_s: Option<f64>,
    /// Whether the thread has ended; the times are those of its last reading.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_gone: bool,
}

impl ObservedThread {
    pub fn open(request: ThreadRequest) -> Result<Self> {
        let ThreadRequest { name, tid } = request;
        let refused = |error: io::Error| {
            let operation = format!("read the CPU time of {name} (thread {tid})");
            RequestError::system(operation, error)
        };
        let clock = ThreadTimeReader::open(tid).map_err(refused)?;
        let last = clock.read().map_err(refused)?;
        Ok(Self {
            name,
            clock,
            last,
            is_gone: false,
        })
    }

    pub fn read(&mut self) -> ThreadReading {
        match self.clock.read() {
            Ok(time) => self.last = time,
            Err(_) => self.is_gone = true,
        }
        ThreadReading {
            name: self.name.clone(),
            time: self.last,
            is_gone: self.is_gone,
        }
    }
}

impl ThreadReading {
    pub fn since(&self, earlier: &Self) -> ThreadChange {
        let seconds = |nanos: u64| nanos as f64 / NANOS_PER_S as f64;
        let spent = self.time.since(&earlier.time);
        ThreadChange {
            name: self.name.clone(),
            cpu_s: seconds(spent.cpu_nanos),
            waited_s: spent.waited_nanos.map(seconds),
            is_gone: self.is_gone,
        }
    }
}
