//! JSON-RPC 2.0: parses requests, and formats answers and events.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use vnetbench_system::error::{RequestError, Result};

/// A request of the bench.
#[derive(Debug)]
pub struct Request {
    /// The request's id; `None` for a notification, which gets no answer.
    pub id: Option<Value>,
    /// The name of the method.
    pub method: String,
    /// The named parameters.
    pub params: Map<String, Value>,
}

/// Parses one line.
///
/// # Errors
///
/// Returns the error with the id for its answer, which is null if the line has no valid id.
pub fn parse_request(line: &[u8]) -> std::result::Result<Request, (Value, RequestError)> {
    let message: Value = serde_json::from_slice(line)
        .map_err(|error| (Value::Null, RequestError::Parse(error.to_string())))?;
    let invalid = |reason: &str| RequestError::InvalidRequest(reason.into());
    let mut message = match message {
        Value::Object(message) => message,
        Value::Array(_) => return Err((Value::Null, invalid("batches are not supported"))),
        _ => return Err((Value::Null, invalid("the request is not an object"))),
    };
    let id = message.remove("id");
    if matches!(
        id,
        Some(Value::Object(_) | Value::Array(_) | Value::Bool(_))
    ) {
        return Err((
            Value::Null,
            invalid("\"id\" must be a string, a number or null"),
        ));
    }
    let answer_id = id.clone().unwrap_or(Value::Null);
    if message.get("jsonrpc") != Some(&Value::from("2.0")) {
        return Err((answer_id, invalid("\"jsonrpc\" must be \"2.0\"")));
    }
    let Some(Value::String(method)) = message.remove("method") else {
        return Err((answer_id, invalid("\"method\" must be a string")));
    };
    let params = match message.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => {
            return Err((
                answer_id,
                RequestError::BadParameter("\"params\" must be an object".into()),
            ));
        }
    };
    Ok(Request { id, method, params })
}

/// Converts the parameters of a method to its request type.
pub fn parse_params<T: DeserializeOwned>(params: Map<String, Value>) -> Result<T> {
    serde_json::from_value(Value::Object(params))
        .map_err(|error| RequestError::BadParameter(error.to_string()))
}

/// Formats the answer to a request.
pub fn format_answer(id: &Value, outcome: Result<Value>) -> String {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => {
            let mut body = json!({"code": error.json_rpc_code(), "message": error.to_string()});
            if let Some(data) = error.json_rpc_data() {
                body["data"] = data;
            }
            json!({"jsonrpc": "2.0", "id": id, "error": body})
        }
    }
    .to_string()
}

/// Formats an event.
pub fn format_event<T: Serialize>(method: &str, params: &T) -> String {
    #[derive(Serialize)]
    struct Event<'a, T> {
        jsonrpc: &'a str,
        method: &'a str,
        params: &'a T,
    }
    serde_json::to_string(&Event {
        jsonrpc: "2.0",
        method,
        params,
    })
    .expect("events have text keys and finite or null numbers only")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_error(line: &[u8]) -> (Value, i32) {
        let (id, error) = parse_request(line).expect_err("the line is invalid");
        (id, error.json_rpc_code())
    }

    #[test]
    fn a_request_without_parameters_is_valid() {
        let request = parse_request(br#"{"jsonrpc":"2.0","id":"a","method":"m"}"#).expect("valid");
        assert_eq!(request.id, Some(Value::from("a")));
        assert!(request.params.is_empty());
    }

    #[test]
    fn invalid_requests_get_the_error_codes_of_json_rpc() {
        assert_eq!(parse_error(b"nonsense"), (Value::Null, -32700));
        assert_eq!(parse_error(b"\xff\xfe"), (Value::Null, -32700));
        assert_eq!(parse_error(&[b'['; 100_000]), (Value::Null, -32700));
        assert_eq!(parse_error(b"[]"), (Value::Null, -32600));
        assert_eq!(parse_error(b"7"), (Value::Null, -32600));
        assert_eq!(parse_error(br#"{"id":3,"method":"m"}"#), (json!(3), -32600));
        assert_eq!(
            parse_error(br#"{"jsonrpc":"2.0","id":3,"method":9}"#),
            (json!(3), -32600)
        );
        assert_eq!(
            parse_error(br#"{"jsonrpc":"2.0","id":{},"method":"m"}"#),
            (Value::Null, -32600)
        );
        assert_eq!(
            parse_error(br#"{"jsonrpc":"2.0","id":4,"method":"m","params":[1]}"#),
            (json!(4), -32602)
        );
    }
}
