//! Forwarding in a guest: none, routing, or bridging between its adapters.

use std::io;

use serde::Deserialize;

use super::mounts;
use vnetbench_interfaces::interface::Interface;
use vnetbench_system::error::{RequestError, Result};

/// The name of the guest's bridge.
const BRIDGE_NAME: &str = "br0";

/// How a guest forwards packets for other hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Forwarding {
    /// Not at all.
    #[default]
    None,
    /// Routes IPv4 and IPv6.
    Router,
    /// Bridges its adapters.
    Bridge,
}

/// Sets up forwarding between these interfaces, and removes any earlier bridge.
pub fn set_forwarding(forwarding: Forwarding, interfaces: &[Interface]) -> Result<()> {
    let routes = if forwarding == Forwarding::Router {
        "1"
    } else {
        "0"
    };
    mounts::set_sysctl("net/ipv4/ip_forward", routes)?;
    mounts::set_sysctl("net/ipv6/conf/all/forwarding", routes)?;
    let bridge =
        Interface::open(BRIDGE_NAME).map_err(|error| RequestError::system("find br0", error))?;
    // An existing bridge may have ports of an earlier configuration.
    match bridge.remove_bridge() {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {}
        // The kernel lacks bridges, which matters only if one is requested.
        Err(_) if forwarding != Forwarding::Bridge => {}
        Err(error) => return Err(RequestError::system("remove the bridge br0", error)),
    }
    if forwarding == Forwarding::Bridge {
        create_bridge(&bridge, interfaces).map_err(|error| {
            RequestError::system(
                "create the bridge br0 (the guest may lack the module bridge)",
                error,
            )
        })?;
    }
    Ok(())
}

fn create_bridge(bridge: &Interface, ports: &[Interface]) -> io::Result<()> {
    bridge.create_bridge()?;
    for port in ports {
        bridge.add_port(port)?;
    }
    bridge.set_is_up(true)
}
