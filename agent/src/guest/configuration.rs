//! `guest.configure`: gives a guest its identity. Guests that resume from the same snapshot are identical until then.

use serde::Deserialize;
use serde_json::{Value, json};

use super::addresses::{self, InterfaceAddress};
use super::forwarding::{self, Forwarding};
use super::neighbours::{self, Neighbour};
use crate::facts;
use vnetbench_interfaces::interface::{Interface, LINK_TIMEOUT, list_interface_names};
use vnetbench_system::clock;
use vnetbench_system::error::{RequestError, Result};

/// The request `guest.configure`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestConfigureRequest {
    host_name: Option<String>,
    clock: Option<String>,
    #[serde(default)]
    interfaces: Vec<InterfaceRequest>,
    forwarding: Option<Forwarding>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterfaceRequest {
    r#match: AdapterSelector,
    name: Option<String>,
    mac: Option<String>,
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default)]
    neighbours: Vec<Neighbour>,
    up: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AdapterSelector {
    Mac(String),
    Driver(String),
    Index(usize),
}

/// An adapter of this guest, before it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Adapter {
    index: u32,
    name: String,
    mac: String,
    driver: String,
}

/// Configures the guest, regardless of its earlier configuration, and returns the facts about its interfaces.
pub fn configure(request: GuestConfigureRequest) -> Result<Value> {
    let address_lists: Vec<Vec<InterfaceAddress>> = request
        .interfaces
        .iter()
        .map(|interface| interface.addresses.iter().map(|a| a.parse()).collect())
        .collect::<std::result::Result<_, _>>()
        .map_err(RequestError::BadParameter)?;
    let matched = match_adapters(&request.interfaces, &list_adapters()?)?;
    if let Some(name) = &request.host_name {
        rustix::system::sethostname(name.as_bytes())
            .map_err(|error| RequestError::system(format!("set the host name {name}"), error))?;
    }
    clock::set_identity(request.clock.as_deref());
    rename_adapters(&request.interfaces, &matched)?;
    let mut interfaces = Vec::with_capacity(matched.len());
    for ((request, adapter), addresses) in
        request.interfaces.iter().zip(&matched).zip(&address_lists)
    {
        let name = request.name.as_deref().unwrap_or(&adapter.name);
        let interface = configure_interface(request, adapter, name, addresses)
            .map_err(|error| RequestError::system(format!("configure {name}"), error))?;
        interfaces.push(interface);
    }
    forwarding::set_forwarding(request.forwarding.unwrap_or_default(), &interfaces)?;
    for (request, interface) in request.interfaces.iter().zip(&interfaces) {
        if request.up != Some(false) && !interface.wait_for_link() {
            return Err(RequestError::TimedOut {
                operation: format!("waiting for the link of {}", interface.name),
                after_s: LINK_TIMEOUT.as_secs_f64(),
                kind: None,
            });
        }
    }
    for (request, adapter) in request.interfaces.iter().zip(&matched) {
        for neighbour in &request.neighbours {
            neighbours::add_permanent_neighbour(adapter.index, neighbour)?;
        }
    }
    let described: Result<Vec<Value>> = interfaces
        .iter()
        .zip(&matched)
        .map(|(interface, adapter)| describe_interface(interface, adapter.index))
        .collect();
    Ok(json!({ "interfaces": described? }))
}

/// Returns the adapters of this guest in the kernel's order, without interfaces that have no hardware.
fn list_adapters() -> Result<Vec<Adapter>> {
    let mut adapters = Vec::new();
    for name in list_interface_names() {
        let read = || {
            let interface = Interface::open(&name)?;
            match interface.bus_device_path() {
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(None),
                hardware => hardware?,
            };
            Ok(Some(Adapter {
                index: interface.index()?,
                mac: interface.mac_text()?,
                driver: interface.driver_name()?,
                name: name.clone(),
            }))
        };
        let adapter: std::io::Result<Option<Adapter>> = read();
        adapters
            .extend(adapter.map_err(|error| RequestError::system(format!("read {name}"), error))?);
    }
    adapters.sort_by_key(|adapter| adapter.index);
    Ok(adapters)
}

/// Returns the adapter of each request: the first one that matches and is not assigned yet.
fn match_adapters(request: &[InterfaceRequest], adapters: &[Adapter]) -> Result<Vec<Adapter>> {
    let mut free: Vec<&Adapter> = adapters.iter().collect();
    request
        .iter()
        .map(|request| {
            let by_mac = |mac: &str| {
                free.iter()
                    .position(|adapter| adapter.mac.eq_ignore_ascii_case(mac))
            };
            let position = match &request.r#match {
                // The adapter may already have its new MAC address.
                AdapterSelector::Mac(mac) => {
                    by_mac(mac).or_else(|| by_mac(request.mac.as_deref()?))
                }
                AdapterSelector::Driver(driver) => {
                    free.iter().position(|adapter| adapter.driver == *driver)
                }
                AdapterSelector::Index(index) => {
                    let selected = adapters.get(*index);
                    free.iter().position(|adapter| Some(*adapter) == selected)
                }
            };
            position
                .map(|position| free.remove(position).clone())
                .ok_or_else(|| no_such_adapter_error(&request.r#match, adapters))
        })
        .collect()
}

fn no_such_adapter_error(selector: &AdapterSelector, adapters: &[Adapter]) -> RequestError {
    let criterion = match selector {
        AdapterSelector::Mac(mac) => format!("the MAC address {mac}"),
        AdapterSelector::Driver(driver) => format!("the driver {driver}"),
        AdapterSelector::Index(index) => format!("the index {index}"),
    };
    let available: Vec<String> = adapters
        .iter()
        .map(|adapter| format!("{} ({}, {})", adapter.name, adapter.driver, adapter.mac))
        .collect();
    let available = if available.is_empty() {
        "none".into()
    } else {
        available.join(", ")
    };
    RequestError::BadParameter(format!(
        "no unassigned adapter of this guest has {criterion}; its adapters are: {available}"
    ))
}

/// Renames adapters, which takes them down. Uses temporary names first, because a new name may still belong to another
/// adapter.
fn rename_adapters(request: &[InterfaceRequest], matched: &[Adapter]) -> Result<()> {
    let renamed: Vec<(&Adapter, &str)> = matched
        .iter()
        .zip(request)
        .filter_map(|(adapter, request)| Some((adapter, request.name.as_deref()?)))
        .filter(|(adapter, name)| adapter.name != *name)
        .collect();
    let temporary_name = |adapter: &Adapter| format!("renamed{}", adapter.index);
    for (adapter, name) in &renamed {
        rename_interface(&adapter.name, &temporary_name(adapter)).map_err(|error| {
            RequestError::system(format!("rename {} to {name}", adapter.name), error)
        })?;
    }
    for (adapter, name) in renamed {
        rename_interface(&temporary_name(adapter), name).map_err(|error| {
            RequestError::system(format!("rename {} to {name}", adapter.name), error)
        })?;
    }
    Ok(())
}

fn rename_interface(from: &str, to: &str) -> std::io::Result<()> {
    let interface = Interface::open(from)?;
    interface.set_is_up(false)?;
    interface.set_name(to)
}

fn configure_interface(
    request: &InterfaceRequest,
    adapter: &Adapter,
    name: &str,
    addresses: &[InterfaceAddress],
) -> std::io::Result<Interface> {
    let interface = Interface::open(name)?;
    if let Some(mac) = &request.mac
        && !adapter.mac.eq_ignore_ascii_case(mac)
    {
        // Most drivers accept a new address while the interface is up. Taking it down could cost seconds without a link.
        if let Err(error) = interface.set_mac(mac) {
            if error.raw_os_error() != Some(libc::EBUSY) {
                return Err(error);
            }
            interface.set_is_up(false)?;
            interface.set_mac(mac)?;
        }
    }
    interface.set_is_up(request.up.unwrap_or(true))?;
    addresses::set_addresses(adapter.index, addresses)?;
    Ok(interface)
}

fn describe_interface(interface: &Interface, index: u32) -> Result<Value> {
    let read = || {
        let addresses = addresses::read_addresses(index)?;
        let addresses: Vec<String> = addresses.iter().map(InterfaceAddress::to_string).collect();
        let mut described = facts::read_interface_facts(&interface.name);
        described["addresses"] = json!(addresses);
        described["up"] = json!(interface.is_up()?);
        Ok(described)
    };
    read().map_err(|error: std::io::Error| {
        RequestError::system(format!("read back {}", interface.name), error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapters() -> Vec<Adapter> {
        let adapter = |index, mac: &str, driver: &str| Adapter {
            index,
            name: format!("eth{}", index - 2),
            mac: format!("52:54:00:00:00:{mac}"),
            driver: driver.into(),
        };
        vec![
            adapter(2, "0a", "e1000e"),
            adapter(3, "0b", "vmxnet3"),
            adapter(4, "0c", "vmxnet3"),
        ]
    }

    fn indexes(matches: Value) -> Result<Vec<u32>> {
        let request: Vec<InterfaceRequest> = matches
            .as_array()
            .expect("a list")
            .iter()
            .map(|m| serde_json::from_value(m.clone()).expect("parameters"))
            .collect();
        let matched = match_adapters(&request, &adapters())?;
        Ok(matched.iter().map(|adapter| adapter.index).collect())
    }

    #[test]
    fn adapters_are_selected_by_mac_driver_or_index() {
        let matched = indexes(json!([
            {"match": {"driver": "vmxnet3"}},
            {"match": {"driver": "vmxnet3"}},
            {"match": {"index": 0}},
        ]));
        assert_eq!(matched.expect("all adapters exist"), [3, 4, 2]);
        let matched = indexes(json!([{"match": {"mac": "52:54:00:00:00:0C"}}]));
        assert_eq!(matched.expect("the adapter exists"), [4]);
    }

    #[test]
    fn an_adapter_is_selected_by_its_new_mac_too() {
        let matched = indexes(json!([
            {"match": {"mac": "52:54:00:00:00:ff"}, "mac": "52:54:00:00:00:0b"}
        ]));
        assert_eq!(matched.expect("the adapter exists"), [3]);
    }

    #[test]
    fn an_error_for_a_missing_adapter_lists_all_adapters() {
        for matches in [
            json!([{"match": {"driver": "e1000e"}}, {"match": {"driver": "e1000e"}}]),
            json!([{"match": {"index": 3}}]),
            json!([{"match": {"index": 1}}, {"match": {"index": 1}}]),
            json!([{"match": {"mac": "52:54:00:00:00:ff"}}]),
        ] {
            let refused = indexes(matches).expect_err("no adapter matches");
            assert_eq!(refused.json_rpc_code(), -32602);
            assert!(
                refused.to_string().contains("eth1 (vmxnet3, 52:54"),
                "{refused}"
            );
        }
    }
}
