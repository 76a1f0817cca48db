//! Knobs of this endpoint: what can be set and read back. This file knows their names and the kinds of their values.

pub mod coalescing;
mod cpus;
mod interrupts;
mod napi;
pub mod queues;
mod receive_steering;
pub mod rings;
mod values;

use std::io;

use serde_json::{Value, json};

use self::coalescing::DirectionCoalescing;
use self::rings::Direction;
use vnetbench_interfaces::features;
use vnetbench_interfaces::interface::{Interface, LINK_TIMEOUT};
use vnetbench_system::error::{Error, Result};
use vnetbench_system::ports;

/// Those that are on or off.
pub const OFFLOADS: [&str; 7] = [
    "tx_checksum",
    "rx_checksum",
    "gso",
    "tso",
    "uso",
    "gro",
    "lro",
];

/// Those of an interface. What one is set to may change what stands before it: a driver starts the adapter anew, and what
/// needs checksums goes with them.
pub const INTERFACE_KNOBS: [&str; 16] = [
    "napi_first",
    "napi_cpus",
    "lro",
    "gro",
    "uso",
    "tso",
    "gso",
    "rx_checksum",
    "tx_checksum",
    "irq_cpus",
    "rps_cpus",
    "coalesce",
    "tx_ring",
    "rx_ring",
    "mtu",
    "queues",
];

enum Knob {
    Mtu,
    /// On or off: the commands of ethtool that read and set it (include/uapi/linux/ethtool.h).
    Switch {
        get: u32,
        set: u32,
    },
    /// On or off too, by the name that ethtool shows.
    Feature(&'static str),
    Queues,
    Ring(Direction),
    Coalesce,
    IrqCpus,
    RpsCpus,
    NapiCpus,
    NapiFirst,
    Cpus,
    Ports,
}

impl Knob {
    const fn switch(get: u32, set: u32) -> Self {
        Self::Switch { get, set }
    }

    fn by_name(name: &str) -> Result<Self> {
        Ok(match name {
            "mtu" => Self::Mtu,
            "rx_checksum" => Self::switch(0x14, 0x15),
            "tx_checksum" => Self::switch(0x16, 0x17),
            "tso" => Self::switch(0x1e, 0x1f),
            "gso" => Self::switch(0x23, 0x24),
            "gro" => Self::switch(0x2b, 0x2c),
            "uso" => Self::Feature("tx-udp-segmentation"),
            "lro" => Self::Feature("rx-lro"),
            "queues" => Self::Queues,
            "rx_ring" => Self::Ring(Direction::Rx),
            "tx_ring" => Self::Ring(Direction::Tx),
            "coalesce" => Self::Coalesce,
            "irq_cpus" => Self::IrqCpus,
            "rps_cpus" => Self::RpsCpus,
            "napi_cpus" => Self::NapiCpus,
            "napi_first" => Self::NapiFirst,
            "cpus" => Self::Cpus,
            "ports" => Self::Ports,
            _ => return Err(Error::BadParameter(format!("there is no knob \"{name}\""))),
        })
    }

    /// Null where the interface has no such knob, or no one value for it.
    fn read(&self, interface: Option<&str>) -> io::Result<Value> {
        let of = || Interface::open(interface.unwrap_or_default());
        let value =
            match self {
                Self::Mtu => of()?.mtu().map(Value::from),
                Self::Switch { get, .. } => of()?.switch(*get).map(Value::from),
                Self::Feature(name) => features::read(&of()?, name).map(Value::from),
                Self::Queues => queues::read(&of()?).map(|queues| json!(queues)),
                Self::Ring(direction) => rings::read_descriptors(&of()?, *direction)
                    .map(|descriptors| json!(descriptors)),
                Self::Coalesce => coalescing::read(&of()?)
                    .map(DirectionCoalescing::without_driver_default)
                    .map(values::coalescing_to_json),
                Self::IrqCpus => interrupts::read(&of()?).map(values::placement_to_json),
                Self::RpsCpus => receive_steering::read(&of()?)
                    .map(|list| json!(list.map(|list| list.to_string()))),
                Self::NapiCpus => {
                    napi::read_cpus(&of()?).map(|list| json!(list.map(|list| list.to_string())))
                }
                Self::NapiFirst => napi::read_priority(&of()?).map(|first| json!(first)),
                Self::Cpus => cpus::read().map(|list| json!(list.to_string())),
                Self::Ports => Ok(json!(ports::read())),
            };
        unsupported_as_null(value)
    }

    /// The same, with all that is to be put back.
    fn read_for_restore(&self, interface: Option<&str>) -> io::Result<Value> {
        match self {
            // A driver whose transmitting is off, and can be on, would be put back with both alike.
            Self::Coalesce => unsupported_as_null(
                Interface::open(interface.unwrap_or_default())
                    .and_then(|interface| coalescing::read(&interface))
                    .map(values::coalescing_to_json),
            ),
            _ => self.read(interface),
        }
    }

    fn write(&self, interface: Option<&str>, value: &Value) -> Result<io::Result<()>> {
        let of = || Interface::open(interface.unwrap_or_default());
        Ok(match self {
            Self::Mtu => {
                let mtu = values::parse_count(value)?;
                of().and_then(|interface| interface.set_mtu(mtu))
            }
            Self::Switch { set, .. } => {
                let on = values::parse_switch(value)?;
                of().and_then(|interface| interface.set_switch(*set, on))
            }
            Self::Feature(name) => {
                let on = values::parse_switch(value)?;
                of().and_then(|interface| features::set(&interface, name, on))
            }
            Self::Queues => {
                let queues = values::parse_count(value)?;
                of().and_then(|interface| queues::set(&interface, queues))
            }
            Self::Ring(direction) => {
                let descriptors = values::parse_count(value)?;
                of().and_then(|interface| rings::set(&interface, *direction, descriptors))
            }
            Self::Coalesce => {
                let both = values::parse_coalescing(value)?;
                of().and_then(|interface| coalescing::set(&interface, both))
            }
            Self::IrqCpus => {
                let placing = values::parse_placement(value)?;
                of().and_then(|interface| interrupts::set(&interface, &placing))
            }
            Self::RpsCpus => {
                let list = values::parse_cpu_list(value)?;
                of().and_then(|interface| receive_steering::set(&interface, &list))
            }
            Self::NapiCpus => {
                let list = values::parse_cpu_list(value)?;
                of().and_then(|interface| napi::set_cpus(&interface, &list))
            }
            Self::NapiFirst => {
                let first = values::parse_switch(value)?;
                of().and_then(|interface| napi::set_priority(&interface, first))
            }
            Self::Cpus => {
                let list = values::parse_nonempty_cpu_list(value)?;
                cpus::set(&list)
            }
            Self::Ports => {
                ports::set(values::parse_ports(value)?);
                Ok(())
            }
        })
    }
}

fn unsupported_as_null(value: io::Result<Value>) -> io::Result<Value> {
    match value {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(Value::Null),
        read => read,
    }
}

/// `None` where the interface has no such knob, or it is no switch.
pub fn is_enabled(interface: &str, name: &str) -> Option<bool> {
    Knob::by_name(name)
        .ok()?
        .read(Some(interface))
        .ok()?
        .as_bool()
}

/// The value as it stands; null where the interface has no such knob, or no one value for it.
pub fn read(name: &str, interface: Option<&str>) -> Result<Value> {
    applicable_knob(name, interface)?
        .read(interface)
        .map_err(|error| knob_error(name, interface, "read", &error))
}

/// The value of an interface's knob with all that is to be put back when it is set to that again.
pub fn read_full(name: &str, interface: &str) -> Result<Value> {
    let interface = Some(interface);
    applicable_knob(name, interface)?
        .read_for_restore(interface)
        .map_err(|error| knob_error(name, interface, "read", &error))
}

/// Sets it, and returns the value as it then stands.
pub fn set_and_read_back(name: &str, interface: Option<&str>, value: &Value) -> Result<Value> {
    let knob = applicable_knob(name, interface)?;
    let had_link = interface_with_link(interface);
    knob.write(interface, value)?
        .map_err(|error| knob_error(name, interface, "set", &error))?;
    // Some drivers start the adapter anew; what comes next must not find it without its link.
    if let Some(adapter) = had_link
        && !adapter.wait_for_link()
    {
        return Err(Error::Knob {
            knob: name.into(),
            interface: interface.map(str::to_owned),
            reason: format!("was set, and the link has not come back within {LINK_TIMEOUT:?}"),
        });
    }
    knob.read(interface)
        .map_err(|error| knob_error(name, interface, "read back", &error))
}

/// The interface, where it has its link.
fn interface_with_link(name: Option<&str>) -> Option<Interface> {
    let interface = Interface::open(name?).ok()?;
    interface.has_link().then_some(interface)
}

fn applicable_knob(name: &str, interface: Option<&str>) -> Result<Knob> {
    let knob = Knob::by_name(name)?;
    match (&knob, interface) {
        (Knob::Cpus | Knob::Ports, Some(_)) => Err(Error::BadParameter(format!(
            "the knob {name} is the agent's, not an interface's"
        ))),
        (Knob::Cpus | Knob::Ports, None) | (_, Some(_)) => Ok(knob),
        (_, None) => Err(Error::BadParameter(format!(
            "the knob {name} is an interface's, and none is named"
        ))),
    }
}

fn knob_error(knob: &str, interface: Option<&str>, verb: &str, error: &io::Error) -> Error {
    let reason = match error.raw_os_error() {
        Some(libc::ENODEV) => "there is no such interface".into(),
        Some(libc::EOPNOTSUPP) => "the driver does not let it be changed".into(),
        Some(libc::EPERM | libc::EACCES) => "not permitted; run as root".into(),
        _ => error.to_string(),
    };
    Error::Knob {
        knob: knob.into(),
        interface: interface.map(str::to_owned),
        reason: format!("cannot be {verb}: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_knob_that_is_kept_of_an_interface_is_one() {
        for name in INTERFACE_KNOBS {
            assert!(applicable_knob(name, Some("lo")).is_ok(), "{name}");
        }
        assert!(OFFLOADS.iter().all(|name| INTERFACE_KNOBS.contains(name)));
    }
}
