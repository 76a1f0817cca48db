//! Load balancing of a team with a table of ports: moves a port off a member that carries too much.

use serde::{Deserialize, Serialize};

/// Share of a member's speed from which a port moves away. It is ESXi's (vSphere Networking, "Route Based on Physical NIC
/// Load").
const MAX_LOAD_SHARE: f64 = 0.75;
const MIN_PERIOD_S: f64 = 0.1;
const MAX_PERIOD_S: f64 = 3600.0;

/// The parameter `balance` of the request `team.start`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LoadBalancing {
    /// Time over which the load of a member is averaged, and between two moves.
    pub period_s: f64,
    /// Speed of each member.
    pub speeds_bps: Vec<u64>,
}

impl LoadBalancing {
    /// Returns what is wrong with the parameters for a team of `member_count` members; `None` if nothing is.
    pub fn find_problem(&self, member_count: usize) -> Option<String> {
        if !(MIN_PERIOD_S..=MAX_PERIOD_S).contains(&self.period_s) {
            Some(format!(
                "balance.period_s is {}, and a period has {MIN_PERIOD_S} to {MAX_PERIOD_S} s",
                self.period_s
            ))
        } else if self.speeds_bps.len() != member_count || self.speeds_bps.contains(&0) {
            Some("balance.speeds_bps needs a positive speed for each member".into())
        } else {
            None
        }
    }
}

/// What a port of the switch sent in a period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PortLoad {
    /// Index of the port's interface.
    pub port: u64,
    /// The member that carries its frames.
    pub member: u32,
    /// Mean rate.
    pub rate_bps: f64,
}

/// Returns the port to move and its new member; `None` if no member has too much load, or if no move helps.
///
/// The fullest member gives its largest port that fits to the emptiest member. A port fits if that member is less full
/// afterwards than the fullest one is now. ESXi's own choice is not published.
pub fn choose_move(speeds_bps: &[u64], ports: &[PortLoad]) -> Option<(u64, u32)> {
    let share = |member: usize, extra_bps: f64| {
        let on_member = ports.iter().filter(|each| each.member as usize == member);
        let sum_bps: f64 = on_member.map(|each| each.rate_bps).sum();
        (sum_bps + extra_bps) / speeds_bps[member] as f64
    };
    let by_share = |a: &usize, b: &usize| share(*a, 0.0).total_cmp(&share(*b, 0.0));
    let fullest = (0..speeds_bps.len()).max_by(by_share)?;
    let emptiest = (0..speeds_bps.len()).min_by(by_share)?;
    let highest_share = share(fullest, 0.0);
    if highest_share <= MAX_LOAD_SHARE {
        return None;
    }
    ports
        .iter()
        .filter(|each| each.member as usize == fullest && each.rate_bps > 0.0)
        .filter(|each| share(emptiest, each.rate_bps) < highest_share)
        .max_by(|a, b| a.rate_bps.total_cmp(&b.rate_bps))
        .map(|each| (each.port, emptiest as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEEDS: [u64; 2] = [1000, 1000];

    fn load(port: u64, member: u32, rate_bps: f64) -> PortLoad {
        PortLoad {
            port,
            member,
            rate_bps,
        }
    }

    #[test]
    fn nothing_moves_up_to_three_quarters_of_the_speed() {
        let ports = [load(1, 0, 375.0), load(2, 0, 375.0)];
        assert_eq!(choose_move(&SPEEDS, &ports), None);
    }

    #[test]
    fn the_largest_port_that_fits_moves_to_the_emptiest_member() {
        let ports = [load(1, 0, 500.0), load(2, 0, 300.0), load(3, 1, 400.0)];
        // Port 1 would fill the other member to 90 %, more than the 80 % now.
        assert_eq!(choose_move(&SPEEDS, &ports), Some((2, 1)));
    }

    #[test]
    fn the_only_port_of_a_full_member_moves_to_a_faster_one_only() {
        let ports = [load(1, 0, 1000.0), load(2, 1, 0.0)];
        assert_eq!(choose_move(&SPEEDS, &ports), None);
        assert_eq!(choose_move(&[1000, 10_000], &ports), Some((1, 1)));
    }

    #[test]
    fn wrong_parameters_are_named() {
        let problem = |period_s, speeds_bps: &[u64]| {
            let speeds_bps = speeds_bps.to_vec();
            let balancing = LoadBalancing {
                period_s,
                speeds_bps,
            };
            balancing.find_problem(2).unwrap_or_default()
        };
        assert_eq!(problem(30.0, &SPEEDS), "");
        assert!(problem(0.0, &SPEEDS).contains("period_s is 0"));
        assert!(problem(f64::NAN, &SPEEDS).contains("period_s is NaN"));
        assert!(problem(30.0, &[1000]).contains("speeds_bps"));
        assert!(problem(30.0, &[1000, 0]).contains("speeds_bps"));
    }
}
