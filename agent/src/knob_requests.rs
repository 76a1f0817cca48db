//! The requests `knob.get` and `knob.set`. Module `knobs` reads and sets values; `journal` records the original ones.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{journal, knobs};
use vnetbench_system::error::{RequestError, Result};

/// The maximum number of knobs in one `knob.get`.
const MAX_KNOBS: usize = 64;

/// The request `knob.get`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnobGetRequest {
    interface: Option<String>,
    knobs: Vec<String>,
}

/// The request `knob.set`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnobSetRequest {
    interface: Option<String>,
    knob: String,
    value: Value,
}

/// Reads knobs and returns their values.
pub fn get_knobs(request: KnobGetRequest) -> Result<Value> {
    if request.knobs.len() > MAX_KNOBS {
        return Err(RequestError::BadParameter(format!(
            "knobs can have at most {MAX_KNOBS} elements"
        )));
    }
    let mut values = Map::new();
    for name in request.knobs {
        let value = knobs::read(&name, request.interface.as_deref())?;
        values.insert(name, value);
    }
    Ok(json!({ "values": values }))
}

/// Sets a knob and returns the value that the system then reports. Records the original settings in the journal first.
pub fn set_knob(request: KnobSetRequest) -> Result<Value> {
    let KnobSetRequest {
        interface,
        knob,
        value,
    } = request;
    let interface = interface.as_deref();
    let journal_guard = journal::record_interface_settings_before_change(interface, &knob)?;
    let effective = knobs::set_and_read_back(&knob, interface, &value)?;
    drop(journal_guard);
    Ok(json!({"knob": knob, "requested": value, "effective": effective}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(json: Value) -> KnobGetRequest {
        serde_json::from_value(json).expect("parameters")
    }

    #[test]
    fn knobs_that_the_interface_lacks_are_null() {
        let answer = get_knobs(request(
            json!({"interface": "lo", "knobs": ["mtu", "tso", "queues"]}),
        ));
        let values = &answer.expect("lo is there")["values"];
        assert!(values["mtu"].as_u64() > Some(0));
        assert!(values["tso"].is_boolean());
        assert!(values["queues"].is_null());
    }

    #[test]
    fn unknown_knobs_interfaces_and_values_are_rejected() {
        let code = |error: RequestError| error.json_rpc_code();
        let get_code = |json| get_knobs(request(json)).map_err(code);
        assert_eq!(
            get_code(json!({"interface": "lo", "knobs": ["x"]})),
            Err(-32602)
        );
        assert_eq!(
            get_code(json!({"interface": null, "knobs": ["mtu"]})),
            Err(-32602)
        );
        assert_eq!(
            get_code(json!({"interface": "none0", "knobs": ["mtu"]})),
            Err(-32003)
        );
        let set_code =
            |json| set_knob(serde_json::from_value(json).expect("parameters")).map_err(code);
        let on_lo = |knob: &str, value| json!({"interface": "lo", "knob": knob, "value": value});
        assert_eq!(set_code(on_lo("mtu", json!("9000"))), Err(-32602));
        assert_eq!(set_code(on_lo("mtu", json!(-1))), Err(-32602));
        assert_eq!(set_code(on_lo("tso", json!(1))), Err(-32602));
        assert_eq!(set_code(on_lo("rps_cpus", json!("x"))), Err(-32602));
        assert_eq!(
            set_code(json!({"interface": null, "knob": "cpus", "value": ""})),
            Err(-32602)
        );
    }
}
