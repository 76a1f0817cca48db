//! What an interface is: its adapter, its driver, and what of both can be set, as it stands.

use serde_json::{Value, json};

use super::adapter;
use crate::knobs::{self, coalescing, queues, rings};
use vnetbench_interfaces::interface::{DriverInfo, Interface};

/// All null but the name where there is none of it.
pub fn interface_facts(name: &str) -> Value {
    let interface = Interface::open(name).ok();
    let interface = interface.as_ref();
    let driver = interface.and_then(|i| i.driver_info().ok());
    let said = |text: fn(&DriverInfo) -> &String| {
        let text = driver.as_ref().map(text)?;
        (!text.is_empty()).then_some(text)
    };
    json!({
        "name": name,
        "mac": interface.and_then(|i| i.mac().ok()),
        "mtu": interface.and_then(|i| i.mtu().ok()),
        "adapter": interface.and_then(adapter::adapter_model),
        "driver": said(|info| &info.driver),
        "driver_version": said(|info| &info.version),
        "firmware": said(|info| &info.firmware),
        "bus": said(|info| &info.bus),
        "rx_queues": interface.and_then(|i| i.queue_count("rx-").ok()),
        "tx_queues": interface.and_then(|i| i.queue_count("tx-").ok()),
        "offloads": interface.and_then(enabled_offloads),
        "channels": interface.and_then(read_channels),
        "rings": interface.and_then(read_rings),
        "coalescing": interface.and_then(read_coalescing),
    })
}

/// Those that are on, by the names of their knobs.
fn enabled_offloads(interface: &Interface) -> Option<Vec<&'static str>> {
    let states = knobs::OFFLOADS.map(|name| (name, knobs::is_enabled(&interface.name, name)));
    if states.iter().all(|(_, state)| state.is_none()) {
        return None;
    }
    let on = states.into_iter().filter(|(_, state)| *state == Some(true));
    Some(on.map(|(name, _)| name).collect())
}

fn read_channels(interface: &Interface) -> Option<Value> {
    let channels = queues::read_channels(interface).ok()?;
    Some(json!({
        "rx": channels.rx, "tx": channels.tx, "combined": channels.combined,
        "max_rx": channels.max_rx, "max_tx": channels.max_tx, "max_combined": channels.max_combined,
    }))
}

fn read_rings(interface: &Interface) -> Option<Value> {
    let rings = rings::read(interface).ok()?;
    Some(json!({"rx": rings.rx, "tx": rings.tx, "max_rx": rings.max_rx, "max_tx": rings.max_tx}))
}

fn read_coalescing(interface: &Interface) -> Option<Value> {
    let found = coalescing::read_all(interface).ok()?;
    Some(json!({
        "rx_us": found.rx_us, "rx_frames": found.rx_frames, "adaptive_rx": found.adaptive_rx != 0,
        "tx_us": found.tx_us, "tx_frames": found.tx_frames, "adaptive_tx": found.adaptive_tx != 0,
    }))
}
