//! Converts the values of knobs from and to JSON.

use serde_json::{Value, json};

use super::coalescing::{BidirectionalCoalescing, CoalesceSetting};
use super::interrupts::IrqPlacement;
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::error::{RequestError, Result};
use vnetbench_system::ports::{self, AllowedPorts};

/// The value of `coalesce` for an adaptive delay.
const ADAPTIVE_VALUE: &str = "adaptive";
/// The value of `irq_cpus` for interrupts spread over CPUs.
const SPREAD_VALUE: &str = "spread";
/// Separates the CPU lists of single interrupts.
const INTERRUPT_CPU_LIST_SEPARATOR: &str = ";";
/// More than any hash policy has.
const MAX_HASH_POLICY_BYTES: usize = 32;
/// More than any adapter supports.
const MAX_COALESCE_S: f64 = 1.0;

/// Parses the value of a switch.
pub fn parse_switch(value: &Value) -> Result<bool> {
    value
        .as_bool()
        .ok_or_else(|| invalid_value_error(value, "true or false"))
}

fn invalid_value_error(value: &Value, expected: &str) -> RequestError {
    RequestError::BadParameter(format!("the value must be {expected}, not {value}"))
}

/// Parses the name of a bond's hash policy, such as `layer3+4`.
pub fn parse_hash_policy(value: &Value) -> Result<&str> {
    let is_known_character = |c: char| c.is_ascii_alphanumeric() || c == '+';
    value
        .as_str()
        .filter(|name| !name.is_empty() && name.len() <= MAX_HASH_POLICY_BYTES)
        .filter(|name| name.chars().all(is_known_character))
        .ok_or_else(|| invalid_value_error(value, "the name of a hash policy"))
}

/// Parses a count of at least 1.
pub fn parse_positive_count(value: &Value) -> Result<u32> {
    value
        .as_u64()
        .and_then(|n| u32::try_from(n).ok())
        .filter(|n| *n > 0)
        .ok_or_else(|| invalid_value_error(value, "a positive whole number"))
}

/// Formats a coalescing setting: one value if both directions are equal, else `{"rx": …, "tx": …}`.
pub fn coalescing_to_json(both: BidirectionalCoalescing) -> Value {
    let [rx, tx] = [both.rx, both.tx].map(|coalesce| match coalesce {
        CoalesceSetting::Adaptive => Value::from(ADAPTIVE_VALUE),
        CoalesceSetting::DelayUs(us) => json!(f64::from(us) / 1e6),
    });
    if rx == tx {
        rx
    } else {
        json!({"rx": rx, "tx": tx})
    }
}

/// Parses a coalescing setting.
pub fn parse_coalescing(value: &Value) -> Result<BidirectionalCoalescing> {
    let Some(parts) = value.as_object() else {
        return parse_coalesce_setting(value).map(BidirectionalCoalescing::uniform);
    };
    match (parts.get("rx"), parts.get("tx")) {
        (Some(rx), Some(tx)) if parts.len() == 2 => Ok(BidirectionalCoalescing {
            rx: parse_coalesce_setting(rx)?,
            tx: parse_coalesce_setting(tx)?,
        }),
        _ => Err(invalid_value_error(value, "an object with rx and tx")),
    }
}

fn parse_coalesce_setting(value: &Value) -> Result<CoalesceSetting> {
    if value == ADAPTIVE_VALUE {
        return Ok(CoalesceSetting::Adaptive);
    }
    let seconds = value.as_f64();
    match seconds.filter(|seconds| (0.0..=MAX_COALESCE_S).contains(seconds)) {
        Some(seconds) => Ok(CoalesceSetting::DelayUs((seconds * 1e6).round() as u32)),
        None => Err(invalid_value_error(
            value,
            "seconds from 0 to 1 or \"adaptive\"",
        )),
    }
}

/// Formats the placement of interrupts.
pub fn placement_to_json(placement: IrqPlacement) -> Value {
    Value::from(match placement {
        IrqPlacement::Spread => SPREAD_VALUE.into(),
        IrqPlacement::SharedCpus(list) => list.to_string(),
        IrqPlacement::PerInterrupt(lists) => {
            let lists: Vec<String> = lists.iter().map(CpuList::to_string).collect();
            lists.join(INTERRUPT_CPU_LIST_SEPARATOR)
        }
    })
}

/// Parses the placement of interrupts.
pub fn parse_placement(value: &Value) -> Result<IrqPlacement> {
    match value.as_str() {
        Some(SPREAD_VALUE) => Ok(IrqPlacement::Spread),
        Some(text) if text.contains(INTERRUPT_CPU_LIST_SEPARATOR) => {
            let lists = text.split(INTERRUPT_CPU_LIST_SEPARATOR).map(CpuList::parse);
            Ok(IrqPlacement::PerInterrupt(lists.collect::<Result<_>>()?))
        }
        _ => parse_nonempty_cpu_list(value).map(IrqPlacement::SharedCpus),
    }
}

/// Parses a port range; an empty string means any port.
pub fn parse_port_range(value: &Value) -> Result<AllowedPorts> {
    let ports = value.as_str().and_then(ports::parse_allowed_ports);
    ports
        .ok_or_else(|| invalid_value_error(value, "a port range first-last from 1024 on, or empty"))
}

/// Parses a CPU list of at least one CPU.
pub fn parse_nonempty_cpu_list(value: &Value) -> Result<CpuList> {
    let list = parse_cpu_list(value)?;
    if list.is_empty() {
        return Err(invalid_value_error(value, "a CPU list of at least one CPU"));
    }
    Ok(list)
}

/// Parses a CPU list, which may be empty.
pub fn parse_cpu_list(value: &Value) -> Result<CpuList> {
    CpuList::parse(
        value
            .as_str()
            .ok_or_else(|| invalid_value_error(value, "a CPU list as a string"))?,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_values_can_be_parsed_again() {
        for value in [
            json!(0.0),
            json!(2e-5),
            json!("adaptive"),
            json!({"rx": "adaptive", "tx": 6.4e-5}),
            json!({"rx": 5e-5, "tx": 0.0}),
        ] {
            assert_eq!(
                coalescing_to_json(parse_coalescing(&value).expect("valid")),
                value
            );
        }
        for value in ["spread", "0-1", "0-1;0;0"] {
            let value = json!(value);
            assert_eq!(
                placement_to_json(parse_placement(&value).expect("valid")),
                value
            );
        }
    }
}
