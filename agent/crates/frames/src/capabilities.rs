//! What generator and sink a port can have, before any trial: tried, and taken away again.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::filter::Sought;
use crate::generate::Source;
use crate::parameters::{Asked, Pacing, Refused, Size, Way, Ways};
use crate::port::Port;
use crate::sink::Counting;
use vnetbench_system::error::Result;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Able {
    interface: String,
}

/// The answer of `frames.able`. One frame leaves the port, to itself.
pub fn able(asked: Able) -> Result<Value> {
    let port = Port::open(&asked.interface)?;
    let nothing = Sought {
        prefix: 0,
        sources: Vec::new(),
        sinks: Vec::new(),
    };
    let mut ways = Ways::default();
    // It stays while the generator is tried, as in a trial.
    let (_counting, sink, why) = Counting::open(&port, &nothing, Way::Auto)?;
    ways.sink = Some(sink);
    ways.add_why(&why);
    match Source::load(&port, &smallest_frames(&port), 0, 0, 1) {
        Ok(_) => ways.generator = Some("xdp"),
        Err(why) => {
            ways.generator = Some("packet");
            ways.add_why(&format!("no program makes frames: {why}"));
        }
    }
    Ok(json!(ways))
}

/// From the port to itself, by addresses that are for such tests (RFC 2544, appendix C.2.2).
fn smallest_frames(port: &Port) -> Asked {
    Asked {
        interface: port.name.clone(),
        sizes: vec![Size {
            bytes: 64,
            weight: 1,
        }],
        per_s: None,
        most: None,
        flows: 1,
        vary_addresses: false,
        refused: Refused::Unsent,
        from: Ipv4Addr::new(198, 18, 0, 1).into(),
        to: Ipv4Addr::new(198, 18, 0, 2).into(),
        vlan_tags: Vec::new(),
        mac_to: port.mac,
        generator: Way::Auto,
        sink: Way::Auto,
        pacing: Pacing::Auto,
        settle: Duration::ZERO,
        shares_cpus: false,
    }
}
