//! Knobs: the settings of this endpoint. This file has their names and the types of their values.

pub mod coalescing;
mod cpus;
mod interrupts;
mod napi;
pub mod queues;
mod receive_steering;
pub mod rings;
mod team_hash_policy;
mod values;

use std::io;

use serde_json::{Value, json};

use self::coalescing::BidirectionalCoalescing;
use self::rings::Direction;
use vnetbench_interfaces::features;
use vnetbench_interfaces::interface::{Interface, LINK_TIMEOUT};
use vnetbench_system::error::{RequestError, Result};
use vnetbench_system::ports;

/// The knobs that switch an offload on or off.
pub const OFFLOADS: [&str; 7] = [
    "tx_checksum",
    "rx_checksum",
    "gso",
    "tso",
    "uso",
    "gro",
    "lro",
];

/// The knobs of an interface, ordered so that setting one may change only those before it in the list.
///
/// A driver may restart the adapter, and disabling checksums also disables the offloads that need them.
pub const INTERFACE_KNOBS_DEPENDENTS_FIRST: [&str; 17] = [
    "team_hash_policy",
    "napi_has_priority",
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
    /// A switch with the ethtool commands that read and set it (include/uapi/linux/ethtool.h).
    Switch {
        get: u32,
        set: u32,
    },
    /// A switch with the feature name that ethtool shows.
    Feature(&'static str),
    Queues,
    Ring(Direction),
    Coalesce,
    IrqCpus,
    RpsCpus,
    NapiCpus,
    NapiHasPriority,
    TeamHashPolicy,
    Cpus,
    Ports,
}

impl Knob {
    const fn switch(get_command: u32, set_command: u32) -> Self {
        Self::Switch {
            get: get_command,
            set: set_command,
        }
    }

    fn from_name(name: &str) -> Result<Self> {
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
            "napi_has_priority" => Self::NapiHasPriority,
            "team_hash_policy" => Self::TeamHashPolicy,
            "cpus" => Self::Cpus,
            "ports" => Self::Ports,
            _ => {
                return Err(RequestError::BadParameter(format!(
                    "unknown knob \"{name}\""
                )));
            }
        })
    }

    /// Reads the value; null if the interface lacks the knob or its queues have different values.
    fn read(&self, interface: Option<&str>) -> io::Result<Value> {
        let open = || Interface::open(interface.unwrap_or_default());
        let value = match self {
            Self::Mtu => open()?.mtu().map(Value::from),
            Self::Switch { get, .. } => open()?.is_ethtool_switch_on(*get).map(Value::from),
            Self::Feature(name) => features::is_feature_on(&open()?, name).map(Value::from),
            Self::Queues => {
                queues::read_queues_per_direction_if_equal(&open()?).map(|queues| json!(queues))
            }
            Self::Ring(direction) => {
                rings::read_descriptors(&open()?, *direction).map(|descriptors| json!(descriptors))
            }
            Self::Coalesce => coalescing::read_coalescing(&open()?)
                .map(BidirectionalCoalescing::copy_rx_to_zero_tx)
                .map(values::coalescing_to_json),
            Self::IrqCpus => {
                interrupts::read_irq_placement(&open()?).map(values::placement_to_json)
            }
            Self::RpsCpus => receive_steering::read_common_rps_cpus(&open()?)
                .map(|list| json!(list.map(|list| list.to_string()))),
            Self::NapiCpus => napi::read_common_napi_thread_cpus(&open()?)
                .map(|list| json!(list.map(|list| list.to_string()))),
            Self::NapiHasPriority => {
                napi::read_common_realtime_priority(&open()?).map(|first| json!(first))
            }
            Self::TeamHashPolicy => {
                team_hash_policy::read_hash_policy(&open()?).map(|policy| json!(policy))
            }
            Self::Cpus => cpus::read_main_thread_cpus().map(|list| json!(list.to_string())),
            Self::Ports => Ok(json!(ports::format_allowed_ports())),
        };
        unsupported_as_null(value)
    }

    /// Reads the value in the form that restores the setting completely.
    fn read_for_restore(&self, interface: Option<&str>) -> io::Result<Value> {
        match self {
            // The short form would restore the transmit direction to the receive value even if it was off.
            Self::Coalesce => unsupported_as_null(
                Interface::open(interface.unwrap_or_default())
                    .and_then(|interface| coalescing::read_coalescing(&interface))
                    .map(values::coalescing_to_json),
            ),
            _ => self.read(interface),
        }
    }

    /// Sets the value. The outer error reports an invalid value, the inner one a failure of the system.
    fn write(&self, interface: Option<&str>, value: &Value) -> Result<io::Result<()>> {
        let open = || Interface::open(interface.unwrap_or_default());
        Ok(match self {
            Self::Mtu => {
                let mtu = values::parse_positive_count(value)?;
                open().and_then(|interface| interface.set_mtu(mtu))
            }
            Self::Switch { set, .. } => {
                let on = values::parse_switch(value)?;
                open().and_then(|interface| interface.set_ethtool_switch(*set, on))
            }
            Self::Feature(name) => {
                let on = values::parse_switch(value)?;
                open().and_then(|interface| features::set_feature(&interface, name, on))
            }
            Self::Queues => {
                let queues = values::parse_positive_count(value)?;
                open().and_then(|interface| queues::set_queues_per_direction(&interface, queues))
            }
            Self::Ring(direction) => {
                let descriptors = values::parse_positive_count(value)?;
                open().and_then(|interface| {
                    rings::set_descriptors(&interface, *direction, descriptors)
                })
            }
            Self::Coalesce => {
                let both = values::parse_coalescing(value)?;
                open().and_then(|interface| coalescing::set_coalescing(&interface, both))
            }
            Self::IrqCpus => {
                let placing = values::parse_placement(value)?;
                open().and_then(|interface| interrupts::set_irq_placement(&interface, &placing))
            }
            Self::RpsCpus => {
                let list = values::parse_cpu_list(value)?;
                open().and_then(|interface| receive_steering::set_rps_cpus(&interface, &list))
            }
            Self::NapiCpus => {
                let list = values::parse_cpu_list(value)?;
                open().and_then(|interface| napi::start_or_end_napi_threads(&interface, &list))
            }
            Self::NapiHasPriority => {
                let first = values::parse_switch(value)?;
                open().and_then(|interface| napi::set_realtime_priority(&interface, first))
            }
            Self::TeamHashPolicy => {
                let policy = values::parse_hash_policy(value)?;
                open().and_then(|interface| team_hash_policy::set_hash_policy(&interface, policy))
            }
            Self::Cpus => {
                let list = values::parse_nonempty_cpu_list(value)?;
                cpus::set_cpus_of_agent_threads(&list)
            }
            Self::Ports => {
                ports::set_allowed_ports(values::parse_port_range(value)?);
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

/// Returns the state of a switch; `None` if the interface lacks the knob or it is not a switch.
pub fn is_offload_on(interface: &str, name: &str) -> Option<bool> {
    Knob::from_name(name)
        .ok()?
        .read(Some(interface))
        .ok()?
        .as_bool()
}

/// Returns the current value; null if the interface lacks the knob or its queues have different values.
pub fn read(name: &str, interface: Option<&str>) -> Result<Value> {
    find_knob_and_check_interface_presence(name, interface)?
        .read(interface)
        .map_err(|error| knob_error(name, interface, "read", &error))
}

/// Returns the value of an interface's knob in the form that restores the setting completely.
pub fn read_for_restore(name: &str, interface: &str) -> Result<Value> {
    let interface = Some(interface);
    find_knob_and_check_interface_presence(name, interface)?
        .read_for_restore(interface)
        .map_err(|error| knob_error(name, interface, "read", &error))
}

/// Sets a knob, and returns the value that the system then reports.
pub fn set_and_read_back(name: &str, interface: Option<&str>, value: &Value) -> Result<Value> {
    let knob = find_knob_and_check_interface_presence(name, interface)?;
    let had_link = open_interface_with_link(interface);
    knob.write(interface, value)?
        .map_err(|error| knob_error(name, interface, "set", &error))?;
    // Some drivers restart the adapter. Waits for the link, so that the next request does not fail.
    if let Some(adapter) = had_link
        && !adapter.wait_for_link()
    {
        return Err(RequestError::Knob {
            knob: name.into(),
            interface: interface.map(str::to_owned),
            reason: format!("was set, but the link did not come back within {LINK_TIMEOUT:?}"),
        });
    }
    knob.read(interface)
        .map_err(|error| knob_error(name, interface, "read back", &error))
}

/// Returns the interface if it has a link.
fn open_interface_with_link(name: Option<&str>) -> Option<Interface> {
    let interface = Interface::open(name?).ok()?;
    interface.has_link().then_some(interface)
}

/// Returns the knob of this name, and checks that the request names an interface exactly if the knob has one.
fn find_knob_and_check_interface_presence(name: &str, interface: Option<&str>) -> Result<Knob> {
    let knob = Knob::from_name(name)?;
    match (&knob, interface) {
        (Knob::Cpus | Knob::Ports, Some(_)) => Err(RequestError::BadParameter(format!(
            "the knob {name} belongs to the agent. Set interface to null"
        ))),
        (Knob::Cpus | Knob::Ports, None) | (_, Some(_)) => Ok(knob),
        (_, None) => Err(RequestError::BadParameter(format!(
            "the knob {name} belongs to an interface. Name the interface in interface"
        ))),
    }
}

fn knob_error(knob: &str, interface: Option<&str>, verb: &str, error: &io::Error) -> RequestError {
    let reason = match error.raw_os_error() {
        Some(libc::ENODEV) => "the interface does not exist".into(),
        Some(libc::EOPNOTSUPP) => "the driver does not support a change of this setting".into(),
        Some(libc::EPERM | libc::EACCES) => {
            "the system does not permit it. Run the agent as root".into()
        }
        _ => error.to_string(),
    };
    RequestError::Knob {
        knob: knob.into(),
        interface: interface.map(str::to_owned),
        reason: format!("cannot be {verb}: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interface_knob_applies_to_an_interface() {
        for name in INTERFACE_KNOBS_DEPENDENTS_FIRST {
            assert!(
                find_knob_and_check_interface_presence(name, Some("lo")).is_ok(),
                "{name}"
            );
        }
        assert!(
            OFFLOADS
                .iter()
                .all(|name| INTERFACE_KNOBS_DEPENDENTS_FIRST.contains(name))
        );
    }
}
