//! `guest.team` and `guest.team_state`: a team of a guest's adapters, by the kernel's bonding driver
//! (Documentation/networking/bonding.rst, "Configuring Bonding Manually via Sysfs").

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::addresses::{self, InterfaceAddress};
use super::forwarding::{self, Forwarding};
use vnetbench_interfaces::interface::Interface;
use vnetbench_system::error::{RequestError, Result};

/// Creates and removes bonds by name.
const BONDS_FILE: &str = "/sys/class/net/bonding_masters";
/// Options that name a member, so that the kernel accepts them only after it has the members.
const OPTIONS_OF_MEMBERS: [&str; 2] = ["active_slave", "primary"];
/// The option that decides which others exist, so it is set first.
const MODE_OPTION: &str = "mode";

/// The request `guest.team`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamRequest {
    name: String,
    #[serde(default)]
    members: Vec<String>,
    #[serde(default)]
    options: BTreeMap<String, String>,
    #[serde(default)]
    bridged_with: Vec<String>,
    #[serde(default)]
    addresses: Vec<String>,
}

/// The request `guest.team_state`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamStateRequest {
    name: String,
}

/// Creates the team, instead of an earlier one of this name, and returns its effective options and members.
///
/// Without members, only removes the earlier one.
pub fn create_team(request: TeamRequest) -> Result<Value> {
    let TeamRequest {
        name,
        members,
        options,
        bridged_with,
        addresses,
    } = request;
    let team = find_interface(&name)?;
    let addresses: Vec<InterfaceAddress> = addresses
        .iter()
        .map(|address| address.parse())
        .collect::<std::result::Result<_, _>>()
        .map_err(RequestError::BadParameter)?;
    for option in options.keys() {
        check_option_name(option)?;
    }
    // The bridge may hold the earlier team.
    forwarding::set_forwarding(Forwarding::None, &[])?;
    remove_team(&name)?;
    if members.is_empty() {
        return Ok(json!({"options": {}, "members": []}));
    }
    change_bonds(&format!("+{name}")).map_err(|error| {
        RequestError::system(
            format!("create the team {name} (the guest may lack the module bonding)"),
            error,
        )
    })?;
    for member in &members {
        // A member must be down when it joins.
        find_interface(member)?
            .set_is_up(false)
            .map_err(|error| RequestError::system(format!("take {member} down"), error))?;
    }
    let (before, after) = order_options(&options);
    set_options(&name, &before)?;
    for member in &members {
        write_option(&name, "slaves", &format!("+{member}"))
            .map_err(|error| RequestError::system(format!("add {member} to {name}"), error))?;
    }
    set_options(&name, &after)?;
    team.set_is_up(true)
        .map_err(|error| RequestError::system(format!("bring {name} up"), error))?;
    team.index()
        .and_then(|index| addresses::set_addresses(index, &addresses))
        .map_err(|error| RequestError::system(format!("set the addresses of {name}"), error))?;
    if !bridged_with.is_empty() {
        let mut ports = vec![team];
        for port in &bridged_with {
            ports.push(find_interface(port)?);
        }
        forwarding::set_forwarding(Forwarding::Bridge, &ports)?;
    }
    describe_team(&name, &options)
}

/// Returns the members and these options, as the kernel reads them back.
fn describe_team(name: &str, options: &BTreeMap<String, String>) -> Result<Value> {
    let effective: Result<BTreeMap<&String, String>> = options
        .keys()
        .map(|option| Ok((option, read_option(name, option)?)))
        .collect();
    let members = read_option(name, "slaves")?;
    let members: Vec<&str> = members.split_whitespace().collect();
    Ok(json!({"options": effective?, "members": members}))
}

/// Returns the state that the bonding driver reports.
pub fn read_team_state(request: TeamStateRequest) -> Result<Value> {
    find_interface(&request.name)?;
    let path = format!("/proc/net/bonding/{}", request.name);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| RequestError::system(format!("read {path}"), error))?;
    Ok(json!({ "bonding": text }))
}

fn find_interface(name: &str) -> Result<Interface> {
    Interface::open(name)
        .map_err(|_| RequestError::BadParameter(format!("\"{name}\" is not an interface's name")))
}

/// Checks that the name of an option is a file name in the bond's folder.
fn check_option_name(option: &str) -> Result<()> {
    let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if option.is_empty() || !option.bytes().all(is_valid) {
        return Err(RequestError::BadParameter(format!(
            "\"{option}\" is not an option of the bonding driver"
        )));
    }
    Ok(())
}

/// The name and the value of an option.
type BondOption<'a> = (&'a String, &'a String);

/// Returns the options to set before the members join, and those to set afterwards.
fn order_options(options: &BTreeMap<String, String>) -> (Vec<BondOption<'_>>, Vec<BondOption<'_>>) {
    let (after, mut before): (Vec<_>, Vec<_>) = options
        .iter()
        .partition(|(option, _)| OPTIONS_OF_MEMBERS.contains(&option.as_str()));
    before.sort_by_key(|(option, _)| option.as_str() != MODE_OPTION);
    (before, after)
}

fn set_options(team: &str, options: &[BondOption<'_>]) -> Result<()> {
    for (option, value) in options {
        write_option(team, option, value).map_err(|error| {
            RequestError::system(format!("set {option} of {team} to {value}"), error)
        })?;
    }
    Ok(())
}

fn option_path(team: &str, option: &str) -> PathBuf {
    ["/sys/class/net", team, "bonding", option].iter().collect()
}

fn write_option(team: &str, option: &str, value: &str) -> io::Result<()> {
    std::fs::write(option_path(team, option), value)
}

fn read_option(team: &str, option: &str) -> Result<String> {
    std::fs::read_to_string(option_path(team, option))
        .map(|text| text.trim().to_owned())
        .map_err(|error| RequestError::system(format!("read {option} of {team}"), error))
}

fn remove_team(name: &str) -> Result<()> {
    let teams = std::fs::read_to_string(BONDS_FILE).unwrap_or_default();
    if !teams.split_whitespace().any(|team| team == name) {
        return Ok(());
    }
    change_bonds(&format!("-{name}"))
        .map_err(|error| RequestError::system(format!("remove the team {name}"), error))
}

fn change_bonds(change: &str) -> io::Result<()> {
    std::fs::write(BONDS_FILE, change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_set_first_and_options_of_members_last() {
        let options = ["active_slave", "lacp_rate", "mode", "primary"]
            .map(|option| (option.to_owned(), String::new()))
            .into();
        let (before, after) = order_options(&options);
        assert_eq!(
            before.iter().map(|(o, _)| *o).collect::<Vec<_>>(),
            ["mode", "lacp_rate"]
        );
        assert_eq!(
            after.iter().map(|(o, _)| *o).collect::<Vec<_>>(),
            ["active_slave", "primary"]
        );
    }

    #[test]
    fn a_path_is_not_an_option() {
        assert!(check_option_name("xmit_hash_policy").is_ok());
        for option in ["", "../address", "slaves/x", "Mode"] {
            assert!(check_option_name(option).is_err(), "{option}");
        }
    }
}
