//! The delay lines of one agent: starts, configures, reads and stops them by name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::direction::RunningDirection;
use crate::impairments::Impairments;
use crate::ports::TapPort;
use vnetbench_system::error::{RequestError, Result};

const MAX_DELAY_LINES: usize = 64;
const DEFAULT_DELAY_QUEUE_BYTES: usize = 256 << 20;
const MAX_DELAY_QUEUE_BYTES: usize = 16 << 30;
/// Limits the seeds of both directions to integers that every JSON parser represents exactly.
const MAX_SEED: u64 = (1 << 52) - 1;

/// Parameters of the request `delay_line.start`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayLineStartRequest {
    ports: [String; 2],
    #[serde(default)]
    forward: Impairments,
    #[serde(default)]
    reverse: Impairments,
    #[serde(default)]
    seed: u64,
    queue_bytes: Option<usize>,
}

/// Parameters of the request `delay_line.set`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayLineSetRequest {
    line: String,
    forward: Impairments,
    reverse: Impairments,
    #[serde(default)]
    seed: u64,
}

/// Parameters of the requests `delay_line.read` and `delay_line.stop`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayLineNameRequest {
    line: String,
}

/// The delay lines of this agent.
#[derive(Default)]
pub struct DelayLines(Mutex<DelayLineTable>);

#[derive(Default)]
struct DelayLineTable {
    created_count: u64,
    lines: HashMap<String, DelayLine>,
}

struct DelayLine {
    ports: [Arc<TapPort>; 2],
    directions: [RunningDirection; 2],
    queue_bytes: usize,
}

impl DelayLines {
    /// Starts a delay line between two new taps.
    ///
    /// # Errors
    ///
    /// Fails if a parameter is out of range, too many delay lines exist, or a tap cannot be created.
    pub fn start(&self, request: DelayLineStartRequest) -> Result<Value> {
        let mut table = self.lock_lines();
        if table.lines.len() >= MAX_DELAY_LINES {
            return Err(RequestError::BadParameter(format!(
                "{MAX_DELAY_LINES} delay lines exist already; stop one first (delay_line.stop)"
            )));
        }
        let line = DelayLine::start(request)?;
        table.created_count += 1;
        let name = format!("l{}", table.created_count);
        let json = line.to_json(&name);
        table.lines.insert(name, line);
        Ok(json)
    }

    /// Changes the impairments of a delay line and resets its counters.
    ///
    /// # Errors
    ///
    /// Fails if the delay line does not exist or has ended, or a parameter is out of range.
    pub fn reset_with(&self, request: DelayLineSetRequest) -> Result<Value> {
        let table = self.lock_lines();
        let line = table.find_running(&request.line)?;
        check_seed(request.seed)?;
        request.forward.check_parameters()?;
        request.reverse.check_parameters()?;
        for (index, (direction, impairments)) in line
            .directions
            .iter()
            .zip([request.forward, request.reverse])
            .enumerate()
        {
            direction
                .reset_with_impairments(impairments, derive_direction_seed(request.seed, index));
        }
        Ok(line.to_json(&request.line))
    }

    /// Returns the settings and counters of a delay line.
    ///
    /// # Errors
    ///
    /// Fails if the delay line does not exist or has ended.
    pub fn read(&self, request: DelayLineNameRequest) -> Result<Value> {
        Ok(self
            .lock_lines()
            .find_running(&request.line)?
            .to_json(&request.line))
    }

    /// Stops a delay line, removes its taps and returns its last counters, even if a direction has failed.
    pub fn stop(&self, request: DelayLineNameRequest) -> Result<Value> {
        let mut table = self.lock_lines();
        let json = table.find(&request.line)?.to_json(&request.line);
        table.lines.remove(&request.line);
        Ok(json)
    }

    fn lock_lines(&self) -> MutexGuard<'_, DelayLineTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DelayLineTable {
    fn find(&self, name: &str) -> Result<&DelayLine> {
        self.lines
            .get(name)
            .ok_or_else(|| RequestError::BadParameter(format!("there is no delay line \"{name}\"")))
    }

    fn find_running(&self, name: &str) -> Result<&DelayLine> {
        let line = self.find(name)?;
        match line.direction_failure(name) {
            Some(error) => Err(error),
            None => Ok(line),
        }
    }
}

impl DelayLine {
    fn start(request: DelayLineStartRequest) -> Result<Self> {
        request.forward.check_parameters()?;
        request.reverse.check_parameters()?;
        check_seed(request.seed)?;
        let queue_bytes = request.queue_bytes.unwrap_or(DEFAULT_DELAY_QUEUE_BYTES);
        if !(1..=MAX_DELAY_QUEUE_BYTES).contains(&queue_bytes) {
            return Err(RequestError::BadParameter(format!(
                "queue_bytes must be between 1 and {MAX_DELAY_QUEUE_BYTES}"
            )));
        }
        let [a, b] = request.ports;
        let (a, b) = (
            Arc::new(TapPort::create_tap(&a)?),
            Arc::new(TapPort::create_tap(&b)?),
        );
        let start = |index: usize, name, from: &Arc<TapPort>, to: &Arc<TapPort>, impairments| {
            let ports = [Arc::clone(from), Arc::clone(to)];
            RunningDirection::start(
                name,
                ports,
                queue_bytes,
                impairments,
                derive_direction_seed(request.seed, index),
            )
        };
        let forward = start(0, "forward", &a, &b, request.forward)?;
        let reverse = start(1, "reverse", &b, &a, request.reverse)?;
        Ok(Self {
            ports: [a, b],
            directions: [forward, reverse],
            queue_bytes,
        })
    }

    /// Returns settings and counters in the form of docs/protocol.md.
    fn to_json(&self, name: &str) -> Value {
        let mut json = json!({
            "line": name,
            "ports": self.ports.each_ref().map(|port| &port.name),
            "queue_bytes": self.queue_bytes,
        });
        for direction in &self.directions {
            json[direction.name] = direction.to_json();
        }
        json
    }

    /// Returns an error with its fix if a direction no longer forwards frames.
    fn direction_failure(&self, name: &str) -> Option<RequestError> {
        let mut directions = self.directions.iter().enumerate();
        let (index, direction) = directions.find(|(_, each)| each.has_ended())?;
        let [from, to] = [index, 1 - index].map(|index| &self.ports[index].name);
        let fix = "stop the delay line (delay_line.stop) and start it again";
        let line = format!("the delay line {name} from {from} to {to}");
        Some(match direction.thread_error() {
            Some(error) => RequestError::System {
                operation: format!("forward frames on {line}"),
                errno: error.raw_os_error().unwrap_or(0),
                reason: format!("the port {from} is gone ({error}). To continue, {fix}"),
                kind: None,
            },
            None => {
                RequestError::Internal(format!("the thread of {line} panicked. To continue, {fix}"))
            }
        })
    }
}

/// Returns a seed of its own for each direction.
fn derive_direction_seed(seed: u64, direction: usize) -> u64 {
    2 * seed + direction as u64
}

fn check_seed(seed: u64) -> Result<()> {
    if seed > MAX_SEED {
        return Err(RequestError::BadParameter(format!(
            "seed must be at most {MAX_SEED}"
        )));
    }
    Ok(())
}
