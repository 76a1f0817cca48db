//! What a guest does with what is not for it: nothing, route it, or bridge it from one of its adapters to another.

use std::io;

use serde::Deserialize;

use super::mounts;
use vnetbench_interfaces::interface::Interface;
use vnetbench_system::error::{Error, Result};

/// The guest's one bridge.
const BRIDGE: &str = "br0";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Forwarding {
    #[default]
    None,
    Router,
    Bridge,
}

/// Between these interfaces.
pub fn set(forwarding: Forwarding, interfaces: &[Interface]) -> Result<()> {
    let routes = if forwarding == Forwarding::Router {
        "1"
    } else {
        "0"
    };
    mounts::set_sysctl("net/ipv4/ip_forward", routes)?;
    mounts::set_sysctl("net/ipv6/conf/all/forwarding", routes)?;
    let bridge = Interface::open(BRIDGE).map_err(|error| Error::system("find br0", error))?;
    // One that is there has ports from before.
    match bridge.remove_bridge() {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {}
        // The kernel has no bridges at all; that matters only where one is wanted.
        Err(_) if forwarding != Forwarding::Bridge => {}
        Err(error) => return Err(Error::system("remove the bridge br0", error)),
    }
    if forwarding == Forwarding::Bridge {
        create_bridge(&bridge, interfaces).map_err(|error| {
            Error::system("bridge (does the guest have the module bridge?)", error)
        })?;
    }
    Ok(())
}

fn create_bridge(bridge: &Interface, ports: &[Interface]) -> io::Result<()> {
    bridge.add_bridge()?;
    for port in ports {
        bridge.add_port(port)?;
    }
    bridge.set_up(true)
}
