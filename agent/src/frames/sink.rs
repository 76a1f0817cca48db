//! The sinks at a port: what of a trial's frames has come, in which order, and what else came.

use serde::Serialize;

use super::port::Port;
use super::{Asked, Frames, Ways};
use crate::error::{Error, Result};

/// What a sink came to, beside how many it received.
#[derive(Debug, Serialize)]
pub struct Received {
    pub duplicates: u64,
    pub out_of_order: u64,
    /// The highest number; null where none came.
    pub highest: Option<u64>,
}

/// A sink for each of these keys, in their order.
pub fn open(
    port: &Port,
    _asked: &Asked,
    keys: &[u32],
    _ways: &mut Ways,
) -> Result<Vec<Box<dyn Frames>>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    Err(Error::Trial(format!("{} has no sink yet", port.name)))
}
