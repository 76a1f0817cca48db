//! Facts about an interface: its adapter, its driver, and its current settings.

use serde_json::{Value, json};

use super::adapter;
use crate::knobs::{self, coalescing, queues, rings};
use vnetbench_interfaces::interface::{DriverInfo, Interface};

/// Returns the facts about an interface. All but the name are null if it does not exist.
pub fn read_interface_facts(name: &str) -> Value {
    let interface = Interface::open(name).ok();
    let interface = interface.as_ref();
    let driver = interface.and_then(|i| i.driver_info().ok());
    let driver_text = |text: fn(&DriverInfo) -> &String| {
        let text = driver.as_ref().map(text)?;
        (!text.is_empty()).then_some(text)
    };
    json!({
        "name": name,
        "mac": interface.and_then(|i| i.mac_text().ok()),
        "mtu": interface.and_then(|i| i.mtu().ok()),
        "adapter": interface.and_then(adapter::identify_adapter_model),
        "driver": driver_text(|info| &info.driver),
        "driver_version": driver_text(|info| &info.version),
        "firmware": driver_text(|info| &info.firmware),
        "bus": driver_text(|info| &info.bus),
        "rx_queues": interface.and_then(|i| i.count_queues("rx-").ok()),
        "tx_queues": interface.and_then(|i| i.count_queues("tx-").ok()),
        "offloads": interface.and_then(list_enabled_offloads),
        "channels": interface.and_then(read_channels),
        "rings": interface.and_then(read_rings),
        "coalescing": interface.and_then(read_coalescing),
    })
}

/// Returns the enabled offloads, by the names of their knobs.
fn list_enabled_offloads(interface: &Interface) -> Option<Vec<&'static str>> {
    let states = knobs::OFFLOADS.map(|name| (name, knobs::is_offload_on(&interface.name, name)));
    if states.iter().all(|(_, state)| state.is_none()) {
        return None;
    }
    let enabled = states.into_iter().filter(|(_, state)| *state == Some(true));
    Some(enabled.map(|(name, _)| name).collect())
}

fn read_channels(interface: &Interface) -> Option<Value> {
    let channels = queues::read_channels(interface).ok()?;
    Some(json!({
        "rx": channels.rx, "tx": channels.tx, "combined": channels.combined,
        "max_rx": channels.max_rx, "max_tx": channels.max_tx, "max_combined": channels.max_combined,
    }))
}

fn read_rings(interface: &Interface) -> Option<Value> {
    let rings = rings::read_rings(interface).ok()?;
    Some(json!({"rx": rings.rx, "tx": rings.tx, "max_rx": rings.max_rx, "max_tx": rings.max_tx}))
}

fn read_coalescing(interface: &Interface) -> Option<Value> {
    let coalescing = coalescing::read_ethtool_coalescing(interface).ok()?;
    Some(json!({
        "rx_us": coalescing.rx_us, "rx_frames": coalescing.rx_frames, "adaptive_rx": coalescing.adaptive_rx != 0,
        "tx_us": coalescing.tx_us, "tx_frames": coalescing.tx_frames, "adaptive_tx": coalescing.adaptive_tx != 0,
    }))
}
