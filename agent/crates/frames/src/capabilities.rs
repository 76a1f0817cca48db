//! Probes which generator and sink backends a port supports, before any trial.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::filter::TrialFrameFilter;
use crate::generate::XdpSource;
use crate::parameters::{
    ChosenBackends, FrameBackend, FrameParameters, FrameSize, PacingMethod, RejectedFrameCounting,
};
use crate::port::Port;
use crate::sink::FrameCounter;
use vnetbench_system::error::Result;

/// Parameters of the request `frames.capabilities`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapabilitiesRequest {
    interface: String,
}

/// Answers `frames.capabilities`: attaches a sink and loads a generator, then removes both.
///
/// The generator sends one frame from the port to the port's own address.
///
/// # Errors
///
/// Fails if the port is not usable or no backend can count its frames.
pub fn probe_capabilities(parameters: CapabilitiesRequest) -> Result<Value> {
    let port = Port::open_with_link(&parameters.interface)?;
    let empty_filter = TrialFrameFilter {
        secret: 0,
        sources: Vec::new(),
        sinks: Vec::new(),
    };
    let mut backends = ChosenBackends::default();
    // The sink stays attached while the generator is probed, as in a trial.
    let counter = FrameCounter::open(&port, &empty_filter, FrameBackend::Auto)?;
    backends.sink = Some(counter.backend_name());
    backends.add_reason(&counter.fallback_reason);
    match XdpSource::load(&port, &build_smallest_frame_parameters(&port), 0, 0, 1) {
        Ok(_) => backends.generator = Some("xdp"),
        Err(reason) => {
            backends.generator = Some("packet");
            backends.add_reason(&format!("no BPF program can generate frames: {reason}"));
        }
    }
    Ok(json!(backends))
}

/// Returns parameters of 64-byte frames from the port to itself, with benchmarking addresses (RFC 2544, appendix C.2.2).
fn build_smallest_frame_parameters(port: &Port) -> FrameParameters {
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
        rejected_frames: RejectedFrameCounting::Unsent,
        from: Ipv4Addr::new(198, 18, 0, 1).into(),
        to: Ipv4Addr::new(198, 18, 0, 2).into(),
        vlan_tags: Vec::new(),
        mac_to: port.mac,
        generator: FrameBackend::Auto,
        sink: FrameBackend::Auto,
        pacing: PacingMethod::Auto,
        end_after_silence: Duration::ZERO,
        shares_cpus: false,
    }
}
