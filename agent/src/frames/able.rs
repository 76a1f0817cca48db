//! What generator and sink a port can have, before any trial: tried, and taken away again.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::port::Port;
use super::{Ways, generate, sink};
use crate::error::Result;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    interface: String,
}

/// The answer of `frames.able`.
pub fn able(asked: Asked) -> Result<Value> {
    let port = Port::open(&asked.interface)?;
    let mut ways = Ways::default();
    let (sink, why) = sink::able(&port)?;
    ways.sink = Some(sink);
    ways.add_why(&why);
    Ok(json!(ways))
}
