//! The parameters of the workload `frames`: their defaults and limits.

use std::net::IpAddr;
use std::time::Duration;

use serde::Deserialize;

use super::limits::{check_positive_count, reject_parameter};
use vnetbench_frames::template::{self, MAX_FLOWS, MAX_VLAN_TAGS};
use vnetbench_frames::{
    FCS_BYTES, FrameBackend, FrameParameters, FrameSize, MAX_MIX_SEQUENCE_FRAMES, PacingMethod,
    RejectedFrameCounting,
};
use vnetbench_interfaces::interface;
use vnetbench_system::error::Result;

/// The largest frame that any adapter supports: 9216 bytes of payload with headers, tags and FCS.
const MAX_FRAME_BYTES_WITH_FCS: usize = 9216 + 26;
const MAX_FRAMES_PER_S: f64 = 100e6;
const MIN_FRAMES_PER_S: f64 = 0.001;
/// The highest VLAN id; 0 and 4095 are reserved (IEEE 802.1Q, 9.6).
const MAX_VLAN_ID: u16 = 4094;
const DEFAULT_SETTLE_S: f64 = 0.1;
/// Less than the drain limit of a trial.
const MAX_SETTLE_S: f64 = 4.0;

/// The workload-specific parameters of a `frames` request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameRequest {
    frame_bytes: Vec<FrameSize>,
    frames_per_s: Option<f64>,
    frames: Option<u64>,
    flows: Option<u32>,
    vary_addresses: Option<bool>,
    ip_version: Option<u8>,
    vlan_tags: Option<Vec<u16>>,
    addresses: Addresses,
    mac_to: String,
    generator: Option<FrameBackend>,
    sink: Option<FrameBackend>,
    pacing: Option<PacingMethod>,
    rejected_frames: Option<RejectedFrameCounting>,
    settle_s: Option<f64>,
    shares_cpus: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Addresses {
    from: IpAddr,
    to: IpAddr,
}

/// Checks a `frames` request and returns its parameters.
pub fn build_frame_parameters(
    parameters: FrameRequest,
    interface: Option<&str>,
) -> Result<FrameParameters> {
    let Some(interface) = interface else {
        return reject_parameter("the workload frames requires interface".into());
    };
    let Some(mac_to) = interface::parse_mac(&parameters.mac_to) else {
        return reject_parameter(format!(
            "mac_to is not a MAC address: \"{}\"",
            parameters.mac_to
        ));
    };
    let Addresses { from, to } = parameters.addresses;
    check_ip_version(from, to, parameters.ip_version)?;
    let vlan_tags = parameters.vlan_tags.unwrap_or_default();
    if vlan_tags.len() > MAX_VLAN_TAGS
        || vlan_tags.iter().any(|tag| !(1..=MAX_VLAN_ID).contains(tag))
    {
        return reject_parameter(format!(
            "vlan_tags can have at most {MAX_VLAN_TAGS} elements, each from 1 to {MAX_VLAN_ID}"
        ));
    }
    if let Some(per_s) = parameters.frames_per_s
        && !(MIN_FRAMES_PER_S..=MAX_FRAMES_PER_S).contains(&per_s)
    {
        return reject_parameter(format!(
            "frames_per_s must be between {MIN_FRAMES_PER_S} and {MAX_FRAMES_PER_S}"
        ));
    }
    if parameters.frames == Some(0) {
        return reject_parameter("frames must be at least 1".into());
    }
    let flows = parameters.flows.unwrap_or(1);
    check_positive_count("flows", flows as usize, MAX_FLOWS as usize)?;
    let settle_s = parameters.settle_s.unwrap_or(DEFAULT_SETTLE_S);
    if !(0.0..=MAX_SETTLE_S).contains(&settle_s) {
        return reject_parameter(format!("settle_s must be between 0 and {MAX_SETTLE_S}"));
    }
    let frames = FrameParameters {
        interface: interface.into(),
        sizes: parameters.frame_bytes,
        frames_per_s: parameters.frames_per_s,
        max_frames: parameters.frames,
        flows,
        vary_addresses: parameters.vary_addresses.unwrap_or(false),
        from,
        to,
        vlan_tags,
        mac_to,
        generator: parameters.generator.unwrap_or_default(),
        sink: parameters.sink.unwrap_or_default(),
        pacing: parameters.pacing.unwrap_or_default(),
        rejected_frames: parameters.rejected_frames.unwrap_or_default(),
        end_after_silence: Duration::from_secs_f64(settle_s),
        shares_cpus: parameters.shares_cpus.unwrap_or(false),
    };
    check_sizes_and_weights(&frames)?;
    Ok(frames)
}

/// Checks that both addresses have the requested version, or that of the source.
fn check_ip_version(from: IpAddr, to: IpAddr, requested: Option<u8>) -> Result<()> {
    let version = |address: IpAddr| if address.is_ipv6() { 6 } else { 4 };
    let expected = requested.unwrap_or(version(from));
    if version(from) != expected || version(to) != expected {
        return reject_parameter(format!(
            "addresses {from} and {to} must both be IPv{expected}"
        ));
    }
    Ok(())
}

fn check_sizes_and_weights(parameters: &FrameParameters) -> Result<()> {
    let min_bytes = template::min_bytes_with_fcs(parameters);
    let weights: u64 = parameters
        .sizes
        .iter()
        .map(|size| u64::from(size.weight))
        .sum();
    if parameters.sizes.iter().any(|size| size.weight == 0)
        || !(1..=MAX_MIX_SEQUENCE_FRAMES as u64).contains(&weights)
    {
        return reject_parameter(format!(
            "frame_bytes needs at least one size; weights must be at least 1 and sum up to at most {MAX_MIX_SEQUENCE_FRAMES}"
        ));
    }
    for FrameSize { bytes, .. } in &parameters.sizes {
        if *bytes < min_bytes {
            let tags = parameters.vlan_tags.len();
            let ip = if parameters.from.is_ipv6() { 6 } else { 4 };
            return reject_parameter(format!(
                "frame_bytes {bytes} is too small: an IPv{ip} frame with {tags} VLAN tags needs at least {min_bytes} \
                 bytes ({FCS_BYTES} bytes FCS included), because it carries a number and a timestamp"
            ));
        }
        check_positive_count("frame_bytes", *bytes, MAX_FRAME_BYTES_WITH_FCS)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::trial::rpc_requests::tests::plan_with;
    use vnetbench_traffic::Workload;

    fn parameters(changes: Value) -> Result<FrameParameters> {
        let mut parameters = json!({
            "workload": "frames", "listen": null, "interface": "eth0",
            "frame_bytes": [{"bytes": 64, "weight": 1}], "mac_to": "02:00:00:00:00:02",
            "addresses": {"from": "198.18.0.1", "to": "198.19.0.1"},
        });
        for (key, value) in changes.as_object().expect("an object") {
            parameters[key] = value.clone();
        }
        let (_, mut load) = plan_with(parameters)?.load.expect("streams");
        match load.parts.remove(0).workload {
            Workload::Frames(parameters) => Ok(parameters),
            work => panic!("frames, not {work:?}"),
        }
    }

    #[test]
    fn the_default_is_one_flow_at_full_speed() {
        let frames = parameters(json!({})).expect("valid");
        assert_eq!(
            (frames.flows, frames.frames_per_s, frames.max_frames),
            (1, None, None)
        );
        assert_eq!(frames.mac_to, [2, 0, 0, 0, 0, 2]);
        assert_eq!(frames.end_after_silence, Duration::from_millis(100));
        let nulls = json!({"frames_per_s": null, "frames": null, "flows": null, "vary_addresses": null,
            "ip_version": null, "vlan_tags": null, "generator": null, "sink": null, "pacing": null, "settle_s": null,
            "shares_cpus": null});
        parameters(nulls).expect("null parameters get the defaults");
    }

    #[test]
    fn invalid_frame_parameters_are_rejected() {
        let sizes = |sizes: &[(usize, u32)]| {
            let sizes: Vec<Value> = sizes
                .iter()
                .map(|(bytes, weight)| json!({"bytes": bytes, "weight": weight}))
                .collect();
            json!({ "frame_bytes": sizes })
        };
        let ipv6 = json!({"from": "2001:2::1", "to": "2001:2::2"});
        for changes in [
            sizes(&[]),
            sizes(&[(63, 1)]),
            sizes(&[(64, 0)]),
            sizes(&[(64, 1), (512, 64)]),
            sizes(&[(1 << 20, 1)]),
            json!({"vlan_tags": [5]}),
            json!({"vlan_tags": [0], "frame_bytes": [{"bytes": 512, "weight": 1}]}),
            json!({"vlan_tags": [1, 2, 3], "frame_bytes": [{"bytes": 512, "weight": 1}]}),
            json!({ "addresses": ipv6 }),
            json!({"ip_version": 6}),
            json!({"addresses": {"from": "198.18.0.1", "to": "2001:2::2"}}),
            json!({"mac_to": "02:00:00:00:00"}),
            json!({"interface": null}),
            json!({"frames_per_s": 0}),
            json!({"frames": 0}),
            json!({"flows": 0}),
            json!({"flows": MAX_FLOWS + 1}),
            json!({"settle_s": 5}),
            json!({"listen": {"address": "127.0.0.1"}}),
            json!({"threads": 1, "streams": [{"id": 1, "role": "sink"}, {"id": 2, "role": "source"}]}),
        ] {
            let error = parameters(changes.clone()).expect_err(&changes.to_string());
            assert_eq!(error.json_rpc_code(), -32602, "{changes}");
        }
    }

    #[test]
    fn vlan_tags_and_ipv6_raise_the_minimum_frame_size() {
        let ipv6 = json!({"from": "2001:2::1", "to": "2001:2::2"});
        for (tags, bytes) in [(json!([]), 84), (json!([7]), 88), (json!([7, 8]), 92)] {
            let request = |bytes| json!({"addresses": ipv6, "vlan_tags": tags, "frame_bytes": [{"bytes": bytes, "weight": 1}]});
            parameters(request(bytes)).expect("the minimum");
            let message = parameters(request(bytes - 1))
                .expect_err("too small")
                .to_string();
            assert!(
                message.contains(&format!("at least {bytes} bytes")),
                "{message}"
            );
        }
    }
}
