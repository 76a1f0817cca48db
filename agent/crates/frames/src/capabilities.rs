//! What generator and sink a port can have, before any trial: tried, and taken away again.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::filter::FrameFilter;
use crate::generate::XdpSource;
use crate::parameters::{
    Backend, ChosenBackends, FrameParameters, FrameSize, PacingMethod, RefusedFrames,
};
use crate::port::Port;
use crate::sink::FrameCounter;
use vnetbench_system::error::Result;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapabilitiesRequest {
    interface: String,
}

/// The answer of `frames.able`. One frame leaves the port, to itself.
pub fn probe_capabilities(parameters: CapabilitiesRequest) -> Result<Value> {
    let port = Port::open(&parameters.interface)?;
    let nothing = FrameFilter {
        prefix: 0,
        sources: Vec::new(),
        sinks: Vec::new(),
    };
    let mut ways = ChosenBackends::default();
    // It stays while the generator is tried, as in a trial.
    let (_counting, sink, why) = FrameCounter::open_sinks(&port, &nothing, Backend::Auto)?;
    ways.sink = Some(sink);
    ways.add_reason(&why);
    match XdpSource::load(&port, &smallest_frame_parameters(&port), 0, 0, 1) {
        Ok(_) => ways.generator = Some("xdp"),
        Err(why) => {
            ways.generator = Some("packet");
            ways.add_reason(&format!("no program makes frames: {why}"));
        }
    }
    Ok(json!(ways))
}

/// From the port to itself, by addresses that are for such tests (RFC 2544, appendix C.2.2).
fn smallest_frame_parameters(port: &Port) -> FrameParameters {
    FrameParameters {
        interface: port.name.clone(),
        sizes: vec![FrameSize {
            bytes: 64,
            weight: 1,
        }],
        frames_per_s: None,
        max_frames: None,
        flows: 1,
        vary_addresses: false,
        refused_frames: RefusedFrames::Unsent,
        from: Ipv4Addr::new(198, 18, 0, 1).into(),
        to: Ipv4Addr::new(198, 18, 0, 2).into(),
        vlan_tags: Vec::new(),
        mac_to: port.mac,
        generator: Backend::Auto,
        sink: Backend::Auto,
        pacing: PacingMethod::Auto,
        settle: Duration::ZERO,
        shares_cpus: false,
    }
}
