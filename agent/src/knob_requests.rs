//! The requests `knob.get` and `knob.set`. Knobs themselves are in `knobs`; before one is set, `journal` keeps its value.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{journal, knobs};
use vnetbench_system::error::{Error, Result};

/// Knobs that one `knob.get` may name.
const MAX_KNOBS: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetRequest {
    interface: Option<String>,
    knobs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRequest {
    interface: Option<String>,
    knob: String,
    value: Value,
}

pub fn get_knobs(request: GetRequest) -> Result<Value> {
    if request.knobs.len() > MAX_KNOBS {
        return Err(Error::BadParameter(format!(
            "more than {MAX_KNOBS} knobs in one request"
        )));
    }
    let mut values = Map::new();
    for name in request.knobs {
        let value = knobs::read(&name, request.interface.as_deref())?;
        values.insert(name, value);
    }
    Ok(json!({ "values": values }))
}

/// Where a journal is kept, it has how the interface was found before this changes it.
pub fn set_knob(request: SetRequest) -> Result<Value> {
    let SetRequest {
        interface,
        knob,
        value,
    } = request;
    let interface = interface.as_deref();
    let kept = journal::record_original_settings(interface, &knob)?;
    let found = knobs::set_and_read_back(&knob, interface, &value)?;
    drop(kept);
    Ok(json!({"knob": knob, "asked": value, "found": found}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: Value) -> GetRequest {
        serde_json::from_value(json).expect("parameters")
    }

    #[test]
    fn a_knob_of_the_loopback_is_read_and_one_that_it_lacks_is_null() {
        let answer = get_knobs(of(
            json!({"interface": "lo", "knobs": ["mtu", "tso", "queues"]}),
        ));
        let values = &answer.expect("lo is there")["values"];
        assert!(values["mtu"].as_u64() > Some(0));
        assert!(values["tso"].is_boolean());
        assert!(values["queues"].is_null());
    }

    #[test]
    fn what_is_no_knob_no_interface_or_no_value_is_said() {
        let code = |error: Error| error.code();
        let get_code = |json| get_knobs(of(json)).map_err(code);
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
