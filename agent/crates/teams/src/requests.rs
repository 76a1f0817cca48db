//! The teams of one agent: starts, reads and stops them by their ports.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketType, socket};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::balance::LoadBalancing;
use crate::balancer::Balancer;
use crate::policy::{Field, Policy, Reduction};
use crate::program::{MAX_MEMBERS, TeamConfig, TeamProgram};
use vnetbench_interfaces::interface::Interface;
use vnetbench_system::error::{RequestError, Result};

const MAX_TEAMS: usize = 16;

/// Parameters of the request `team.start`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamStartRequest {
    port: String,
    members: Vec<String>,
    policy: Policy,
    #[serde(default)]
    fields: Vec<Field>,
    #[serde(default)]
    reduction: Reduction,
    #[serde(default)]
    active: u32,
    #[serde(default = "yes")]
    bundled: bool,
    #[serde(default)]
    balance: Option<LoadBalancing>,
}

fn yes() -> bool {
    true
}

/// Parameters of the requests `team.read` and `team.stop`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamPortRequest {
    port: String,
}

/// The teams of this agent, by their ports.
#[derive(Default)]
pub struct Teams(Mutex<HashMap<String, Team>>);

struct Team {
    request: TeamStartRequest,
    program: TeamProgram,
}

impl Teams {
    /// Starts a team, instead of an earlier one at this port, and returns its state.
    ///
    /// # Errors
    ///
    /// Fails if a parameter is invalid, an interface does not exist, or the kernel refuses the programs.
    pub fn start(&self, request: TeamStartRequest) -> Result<Value> {
        check_parameters(&request)?;
        let config = make_config(&request)?;
        let mut teams = self.lock_teams();
        teams.remove(&request.port);
        if teams.len() >= MAX_TEAMS {
            return Err(RequestError::BadParameter(format!(
                "{MAX_TEAMS} teams exist already; stop one first (team.stop)"
            )));
        }
        let program = TeamProgram::attach(
            config,
            &request.port,
            &request.members,
            request.balance.as_ref(),
        )
        .map_err(|reason| RequestError::System {
            operation: format!("start a team at {}", request.port),
            errno: 0,
            reason,
            kind: None,
        })?;
        let team = Team { request, program };
        let json = team.to_json()?;
        teams.insert(team.request.port.clone(), team);
        Ok(json)
    }

    /// Returns the settings, counters and table of a team.
    ///
    /// # Errors
    ///
    /// Fails if the port has no team.
    pub fn read(&self, request: TeamPortRequest) -> Result<Value> {
        self.lock_teams()
            .get(&request.port)
            .ok_or_else(|| {
                RequestError::BadParameter(format!("the port {} has no team", request.port))
            })?
            .to_json()
    }

    /// Detaches the programs of a port's team, if it has one.
    ///
    /// # Errors
    ///
    /// Does not fail.
    pub fn stop(&self, request: TeamPortRequest) -> Result<Value> {
        let was_running = self.lock_teams().remove(&request.port).is_some();
        Ok(json!({"port": request.port, "was_running": was_running}))
    }

    fn lock_teams(&self) -> MutexGuard<'_, HashMap<String, Team>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Team {
    fn to_json(&self) -> Result<Value> {
        let TeamStartRequest {
            port,
            members,
            policy,
            fields,
            reduction,
            active,
            bundled,
            balance,
        } = &self.request;
        let counters = &self.program.counters;
        let sent = counters.sent(members.len());
        let received = counters.received(members.len());
        let members: Vec<Value> = members
            .iter()
            .zip(sent.iter().zip(&received))
            .map(|(interface, (sent, received))| {
                json!({"interface": interface, "sent": sent, "received": received})
            })
            .collect();
        Ok(json!({
            "port": port,
            "members": members,
            "policy": policy,
            "fields": fields,
            "reduction": reduction,
            "active": active,
            "bundled": bundled,
            "balance": balance,
            "moves": self.program.balancer.as_ref().map(Balancer::move_count),
            "lacking_fields": counters.lacking_fields(),
            "rejected": counters.rejected(),
            "table": self.table_to_json()?,
        }))
    }

    fn table_to_json(&self) -> Result<Vec<Value>> {
        let failed = |reason: String| RequestError::System {
            operation: "read the table of a team".into(),
            errno: 0,
            reason,
            kind: None,
        };
        let entries = self.program.read_table().map_err(failed)?;
        let is_by_port = self.request.policy == Policy::PortTable;
        let any_socket = socket(AddressFamily::INET, SocketType::DGRAM, None)
            .map_err(|error| failed(error.to_string()))?;
        Ok(entries
            .into_iter()
            .map(|(key, member)| {
                if is_by_port {
                    // An interface that is gone has no name any more.
                    let name = index_to_name(&any_socket, key as u32).unwrap_or_default();
                    json!({"port": name, "member": member})
                } else {
                    json!({"mac": format_mac(key), "member": member})
                }
            })
            .collect())
    }
}

fn format_mac(number: u64) -> String {
    let octets: Vec<String> = number.to_be_bytes()[2..]
        .iter()
        .map(|octet| format!("{octet:02x}"))
        .collect();
    octets.join(":")
}

fn check_parameters(request: &TeamStartRequest) -> Result<()> {
    let count = request.members.len();
    let problem = if !(1..=MAX_MEMBERS).contains(&count) {
        format!("members has {count} interfaces, and a team has 1 to {MAX_MEMBERS}")
    } else if request.active as usize >= count {
        format!(
            "active is {}, and the members are 0 to {}",
            request.active,
            count - 1
        )
    } else if (request.policy == Policy::Fields) == request.fields.is_empty() {
        "fields belongs to the policy \"fields\", which needs at least one".into()
    } else if request.balance.is_some() && request.policy != Policy::PortTable {
        "balance moves ports, and only the policy \"port-table\" has a table of them".into()
    } else if let Some(problem) = request
        .balance
        .as_ref()
        .and_then(|balancing| balancing.find_problem(count))
    {
        problem
    } else {
        return Ok(());
    };
    Err(RequestError::BadParameter(problem))
}

fn make_config(request: &TeamStartRequest) -> Result<TeamConfig> {
    let mut members = [0; MAX_MEMBERS];
    for (index, name) in members.iter_mut().zip(&request.members) {
        *index = find_index(name)?;
    }
    Ok(TeamConfig {
        port: find_index(&request.port)?,
        member_count: request.members.len() as u32,
        members,
        policy: request.policy as u32,
        fields: request
            .fields
            .iter()
            .fold(0, |bits, field| bits | *field as u32),
        reduction: request.reduction as u32,
        active: request.active,
        is_bundled: request.bundled.into(),
    })
}

fn find_index(name: &str) -> Result<u32> {
    Interface::open(name)
        .and_then(|interface| interface.index())
        .map_err(|error| RequestError::system(format!("find the interface {name}"), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(request: Value) -> TeamStartRequest {
        serde_json::from_value(request).expect("a request of the protocol")
    }

    #[test]
    fn a_request_that_no_program_can_run_is_refused() {
        let problem =
            |request| check_parameters(&parse(request)).map_err(|error| error.to_string());
        let members = ["m0", "m1"];
        assert_eq!(
            problem(json!({"port": "p", "members": members, "policy": "turns"})),
            Ok(())
        );
        let none: [&str; 0] = [];
        for (request, expected) in [
            (
                json!({"port": "p", "members": none, "policy": "turns"}),
                "members has 0",
            ),
            (
                json!({"port": "p", "members": members, "policy": "active", "active": 2}),
                "active is 2",
            ),
            (
                json!({"port": "p", "members": members, "policy": "fields"}),
                "needs at least one",
            ),
            (
                json!({"port": "p", "members": members, "policy": "turns", "fields": ["source_ip"]}),
                "belongs to the policy",
            ),
            (
                json!({"port": "p", "members": members, "policy": "turns",
                       "balance": {"period_s": 30, "speeds_bps": [1, 1]}}),
                "table of them",
            ),
            (
                json!({"port": "p", "members": members, "policy": "port-table",
                       "balance": {"period_s": 30, "speeds_bps": [1]}}),
                "a positive speed",
            ),
        ] {
            let found = problem(request).expect_err("a refusal");
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn a_mac_address_is_written_as_six_octets() {
        assert_eq!(format_mac(0x0250_5601_0aff), "02:50:56:01:0a:ff");
    }
}
