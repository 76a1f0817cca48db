//! JSON-RPC 2.0: what a request, an answer and an event look like on the wire.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use vnetbench_system::error::{Error, Result};

#[derive(Debug)]
pub struct Request {
    /// `None` for a notification: it is carried out and never answered.
    pub id: Option<Value>,
    pub method: String,
    pub params: Map<String, Value>,
}

/// Reads one line. The error comes with the id to answer it under (null where none could be found).
pub fn parse_request(line: &[u8]) -> std::result::Result<Request, (Value, Error)> {
    let message: Value = serde_json::from_slice(line)
        .map_err(|error| (Value::Null, Error::Parse(error.to_string())))?;
    let invalid = |reason: &str| Error::InvalidRequest(reason.into());
    let mut message = match message {
        Value::Object(message) => message,
        Value::Array(_) => return Err((Value::Null, invalid("batches are not taken"))),
        _ => return Err((Value::Null, invalid("it is not an object"))),
    };
    let id = message.remove("id");
    if matches!(
        id,
        Some(Value::Object(_) | Value::Array(_) | Value::Bool(_))
    ) {
        return Err((
            Value::Null,
            invalid("\"id\" is neither text, number nor null"),
        ));
    }
    let answered_as = id.clone().unwrap_or(Value::Null);
    if message.get("jsonrpc") != Some(&Value::from("2.0")) {
        return Err((answered_as, invalid("\"jsonrpc\" is not \"2.0\"")));
    }
    let Some(Value::String(method)) = message.remove("method") else {
        return Err((answered_as, invalid("\"method\" is no text")));
    };
    let params = match message.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => {
            return Err((
                answered_as,
                Error::BadParameter("\"params\" must be an object".into()),
            ));
        }
    };
    Ok(Request { id, method, params })
}

/// The parameters of a method as its own type.
pub fn parse_params<T: DeserializeOwned>(params: Map<String, Value>) -> Result<T> {
    serde_json::from_value(Value::Object(params))
        .map_err(|error| Error::BadParameter(error.to_string()))
}

pub fn format_answer(id: &Value, outcome: Result<Value>) -> String {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => {
            let mut body = json!({"code": error.code(), "message": error.to_string()});
            if let Some(data) = error.data() {
                body["data"] = data;
            }
            json!({"jsonrpc": "2.0", "id": id, "error": body})
        }
    }
    .to_string()
}

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

    fn code_of(line: &[u8]) -> (Value, i32) {
        let (id, error) = parse_request(line).expect_err("the line is wrong");
        (id, error.code())
    }

    #[test]
    fn a_request_is_read_with_and_without_its_parameters() {
        let request = parse_request(br#"{"jsonrpc":"2.0","id":"a","method":"m"}"#).expect("valid");
        assert_eq!(request.id, Some(Value::from("a")));
        assert!(request.params.is_empty());
    }

    #[test]
    fn what_is_no_request_is_answered_by_the_code_that_says_why() {
        assert_eq!(code_of(b"nonsense"), (Value::Null, -32700));
        assert_eq!(code_of(b"\xff\xfe"), (Value::Null, -32700));
        assert_eq!(code_of(&[b'['; 100_000]), (Value::Null, -32700));
        assert_eq!(code_of(b"[]"), (Value::Null, -32600));
        assert_eq!(code_of(b"7"), (Value::Null, -32600));
        assert_eq!(code_of(br#"{"id":3,"method":"m"}"#), (json!(3), -32600));
        assert_eq!(
            code_of(br#"{"jsonrpc":"2.0","id":3,"method":9}"#),
            (json!(3), -32600)
        );
        assert_eq!(
            code_of(br#"{"jsonrpc":"2.0","id":{},"method":"m"}"#),
            (Value::Null, -32600)
        );
        assert_eq!(
            code_of(br#"{"jsonrpc":"2.0","id":4,"method":"m","params":[1]}"#),
            (json!(4), -32602)
        );
    }
}
