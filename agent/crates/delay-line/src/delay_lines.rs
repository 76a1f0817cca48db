//! The delay lines of one agent: opened, set, read and stopped by name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::direction::Direction;
use crate::impairments::Impairments;
use crate::ports::Port;
use vnetbench_system::error::{Error, Result};

const MAX_LINES: usize = 64;
const DEFAULT_QUEUE_BYTES: usize = 256 << 20;
const MAX_QUEUE_BYTES: usize = 16 << 30;
/// Both directions' seeds are then numbers that every reader of JSON keeps.
const MAX_SEED: u64 = (1 << 52) - 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRequest {
    ports: [String; 2],
    #[serde(default)]
    forward: Impairments,
    #[serde(default)]
    reverse: Impairments,
    #[serde(default)]
    seed: u64,
    queue_bytes: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateRequest {
    line: String,
    forward: Impairments,
    reverse: Impairments,
    #[serde(default)]
    seed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineRequest {
    line: String,
}

/// Those of this agent.
#[derive(Default)]
pub struct DelayLines(Mutex<OpenLines>);

#[derive(Default)]
struct OpenLines {
    created: u64,
    lines: HashMap<String, DelayLine>,
}

struct DelayLine {
    ports: [Arc<Port>; 2],
    directions: [Direction; 2],
    queue_bytes: usize,
}

impl DelayLines {
    pub fn start(&self, request: StartRequest) -> Result<Value> {
        let mut open = self.open();
        if open.lines.len() >= MAX_LINES {
            return Err(Error::BadParameter(format!(
                "{MAX_LINES} lines are open already; stop some"
            )));
        }
        let line = DelayLine::start(request)?;
        open.created += 1;
        let name = format!("l{}", open.created);
        let json = line.to_json(&name);
        open.lines.insert(name, line);
        Ok(json)
    }

    pub fn set(&self, request: UpdateRequest) -> Result<Value> {
        let open = self.open();
        let line = open.find_running(&request.line)?;
        check_seed(request.seed)?;
        request.forward.check()?;
        request.reverse.check()?;
        for (place, (direction, impairments)) in line
            .directions
            .iter()
            .zip([request.forward, request.reverse])
            .enumerate()
        {
            direction.set(impairments, direction_seed(request.seed, place));
        }
        Ok(line.to_json(&request.line))
    }

    pub fn read(&self, request: LineRequest) -> Result<Value> {
        Ok(self
            .open()
            .find_running(&request.line)?
            .to_json(&request.line))
    }

    /// What it counted to the last, also where it had ended by itself; then its ports are gone.
    pub fn stop(&self, request: LineRequest) -> Result<Value> {
        let mut open = self.open();
        let json = open.find(&request.line)?.to_json(&request.line);
        open.lines.remove(&request.line);
        Ok(json)
    }

    fn open(&self) -> MutexGuard<'_, OpenLines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenLines {
    fn find(&self, name: &str) -> Result<&DelayLine> {
        self.lines
            .get(name)
            .ok_or_else(|| Error::BadParameter(format!("there is no line \"{name}\"")))
    }

    fn find_running(&self, name: &str) -> Result<&DelayLine> {
        let line = self.find(name)?;
        match line.failure(name) {
            Some(error) => Err(error),
            None => Ok(line),
        }
    }
}

impl DelayLine {
    fn start(request: StartRequest) -> Result<Self> {
        request.forward.check()?;
        request.reverse.check()?;
        check_seed(request.seed)?;
        let queue_bytes = request.queue_bytes.unwrap_or(DEFAULT_QUEUE_BYTES);
        if !(1..=MAX_QUEUE_BYTES).contains(&queue_bytes) {
            return Err(Error::BadParameter(format!(
                "queue_bytes must lie within 1 and {MAX_QUEUE_BYTES}"
            )));
        }
        let [a, b] = request.ports;
        let (a, b) = (Arc::new(Port::open(&a)?), Arc::new(Port::open(&b)?));
        let start = |place: usize, name, from: &Arc<Port>, to: &Arc<Port>, impairments| {
            let ports = [Arc::clone(from), Arc::clone(to)];
            Direction::start(
                name,
                ports,
                queue_bytes,
                impairments,
                direction_seed(request.seed, place),
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

    /// As docs/protocol.md has it.
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

    /// Why it carries nothing any more one way, and what to do about it.
    fn failure(&self, name: &str) -> Option<Error> {
        let mut directions = self.directions.iter().enumerate();
        let (place, direction) = directions.find(|(_, each)| each.has_ended())?;
        let [from, to] = [place, 1 - place].map(|place| &self.ports[place].name);
        let fix = "stop the line (line.stop), and start it anew";
        let line = format!("line {name} from {from} to {to}");
        Some(match direction.failure() {
            Some(error) => Error::System {
                operation: format!("go on with {line}"),
                errno: error.raw_os_error().unwrap_or(0),
                reason: format!("port {from} is gone ({error}); {fix}"),
                kind: None,
            },
            None => Error::Internal(format!("{line} has ended; {fix}")),
        })
    }
}

/// Both directions draw numbers of their own.
fn direction_seed(seed: u64, direction: usize) -> u64 {
    2 * seed + direction as u64
}

fn check_seed(seed: u64) -> Result<()> {
    if seed > MAX_SEED {
        return Err(Error::BadParameter(format!(
            "seed must be {MAX_SEED} at most"
        )));
    }
    Ok(())
}
