//! The results that both hosts exchange after a test: CPU usage, and the counts of each stream.

use serde::Serialize;
use serde_json::{Value, json};

/// Maximum number of streams in a peer's results: those of both directions.
const MAX_STREAMS_BOTH_DIRECTIONS: usize = 2 * crate::limits::MAX_STREAMS_PER_DIRECTION;

const MAX_PEER_TEXT_CHARACTERS: usize = 200;

/// CPU usage over the whole test, in percent of one CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuUsage {
    /// User and system time.
    pub total: f64,
    /// User time.
    pub user: f64,
    /// System time.
    pub system: f64,
}

/// The counts of one stream on one host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamResult {
    /// Number of the stream on the wire.
    pub id: u32,
    /// Bytes sent or received.
    pub bytes: u64,
    /// Retransmitted segments; `None` for a receiver and for UDP.
    pub retransmits: Option<u64>,
    /// Jitter (RFC 3550) of a UDP receiver.
    pub jitter_s: f64,
    /// Lost datagrams.
    pub lost_datagrams: u64,
    /// Datagrams after the omitted time.
    pub datagrams: u64,
    /// Datagrams in the omitted time; `None` if the peer does not report them and `datagrams` includes them.
    pub omitted_datagrams: Option<u64>,
    /// Duration without the omitted time.
    pub duration_s: f64,
}

/// Whether a host counts retransmits: the protocol's field `sender_has_retransmits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetransmitReporting {
    /// A sender that counts them.
    Counted = 1,
    /// UDP has none.
    Udp = 0,
    /// A host that only receives.
    Receiver = -1,
}

/// The results of one host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TestResults {
    /// CPU usage.
    pub cpu: CpuUsage,
    /// Congestion control algorithm.
    pub congestion_control: Option<String>,
    /// The counts of each stream.
    pub streams: Vec<StreamResult>,
    /// The server's text output, if the client requests it.
    pub server_text: Option<String>,
    /// The server's JSON output, if the client requests it.
    pub server_json: Option<Value>,
}

impl TestResults {
    /// Returns the counts of the stream with this id.
    pub fn find_stream(&self, id: u32) -> Option<&StreamResult> {
        self.streams.iter().find(|stream| stream.id == id)
    }

    /// Fills in values that early versions of iperf3 do not send from the local results.
    ///
    /// These are the duration and the omitted datagrams, which those versions count as sent.
    pub fn fill_missing_from(mut self, local_results: &Self) -> Self {
        for stream in &mut self.streams {
            let Some(local) = local_results.find_stream(stream.id) else {
                continue;
            };
            if stream.omitted_datagrams.is_none() {
                let omitted = local.omitted_datagrams.unwrap_or(0);
                stream.datagrams = stream.datagrams.saturating_sub(omitted);
            }
            if stream.duration_s == 0.0 {
                stream.duration_s = local.duration_s;
            }
        }
        self
    }

    /// Returns the document to send.
    pub fn to_json(&self, retransmit_reporting: RetransmitReporting) -> Value {
        let streams: Vec<Value> = self
            .streams
            .iter()
            .map(|stream| {
                json!({
                    "id": stream.id,
                    "bytes": stream.bytes,
                    "retransmits": stream.retransmits.map_or(json!(-1), Value::from),
                    "jitter": stream.jitter_s,
                    "errors": stream.lost_datagrams,
                    // Version 3.12 subtracts its own omitted datagrams from the packets and nothing from the errors;
                    // newer versions subtract the values of these fields.
                    "omitted_errors": 0,
                    "packets": stream.datagrams.saturating_add(stream.omitted_datagrams.unwrap_or(0)),
                    "omitted_packets": stream.omitted_datagrams.unwrap_or(0),
                    "start_time": 0,
                    "end_time": stream.duration_s,
                })
            })
            .collect();
        let mut document = json!({
            "cpu_util_total": self.cpu.total,
            "cpu_util_user": self.cpu.user,
            "cpu_util_system": self.cpu.system,
            "sender_has_retransmits": retransmit_reporting as i32,
            "streams": streams,
        });
        let mut add = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                document[name] = value;
            }
        };
        add(
            "congestion_used",
            self.congestion_control.clone().map(Value::from),
        );
        add(
            "server_output_text",
            self.server_text.clone().map(Value::from),
        );
        add("server_output_json", self.server_json.clone());
        document
    }

    /// Parses a peer's results.
    ///
    /// # Errors
    ///
    /// Names the missing or invalid field.
    pub fn from_json(document: &Value) -> Result<Self, String> {
        let fields = document
            .as_object()
            .ok_or("the results are not a JSON object")?;
        let percent = |name: &str| {
            fields
                .get(name)
                .and_then(Value::as_f64)
                .filter(|percent| *percent >= 0.0)
        };
        let streams = fields
            .get("streams")
            .and_then(Value::as_array)
            .ok_or("the results have no list of streams")?;
        if streams.len() > MAX_STREAMS_BOTH_DIRECTIONS {
            return Err(format!(
                "the results contain {} streams, but the maximum is {MAX_STREAMS_BOTH_DIRECTIONS}",
                streams.len()
            ));
        }
        Ok(Self {
            cpu: CpuUsage {
                total: percent("cpu_util_total").unwrap_or(0.0),
                user: percent("cpu_util_user").unwrap_or(0.0),
                system: percent("cpu_util_system").unwrap_or(0.0),
            },
            congestion_control: fields
                .get("congestion_used")
                .and_then(Value::as_str)
                .map(sanitize_text),
            streams: streams.iter().map(parse_stream).collect::<Result<_, _>>()?,
            server_text: fields
                .get("server_output_text")
                .and_then(Value::as_str)
                .map(|text| text.chars().filter(is_printable_or_space).collect()),
            server_json: fields.get("server_output_json").map(sanitize_json),
        })
    }
}

/// Shortens a peer's text for display and removes control characters, which a terminal would execute.
pub fn sanitize_text(text: &str) -> String {
    text.chars()
        .filter(is_printable)
        .take(MAX_PEER_TEXT_CHARACTERS)
        .collect()
}

/// Whether a terminal shows a character of a peer's text, and neither executes it nor changes the direction of text.
pub fn is_printable(character: &char) -> bool {
    !character.is_control()
        && !matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Removes unprintable characters from a peer's document: JSON escapes only some of them.
fn sanitize_json(value: &Value) -> Value {
    let sanitize = |text: &str| {
        text.chars()
            .filter(is_printable_or_space)
            .collect::<String>()
    };
    match value {
        Value::String(text) => Value::String(sanitize(text)),
        Value::Array(values) => values.iter().map(sanitize_json).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (sanitize(name), sanitize_json(value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Whether a terminal shows a character of a peer's lines of text, and does not execute it.
fn is_printable_or_space(character: &char) -> bool {
    matches!(character, '\n' | '\t') || is_printable(character)
}

fn parse_stream(document: &Value) -> Result<StreamResult, String> {
    let id = read_count_field(document, "id")
        .and_then(|id| u32::try_from(id).ok())
        .ok_or("a stream of the results has no id")?;
    let required_count = |name: &str| {
        read_count_field(document, name)
            .ok_or_else(|| format!("stream {id} of the results has no count \"{name}\""))
    };
    let seconds = |name: &str| {
        document
            .get(name)
            .and_then(Value::as_f64)
            .filter(|s| *s >= 0.0)
    };
    let omitted_packets = read_count_field(document, "omitted_packets");
    Ok(StreamResult {
        id,
        bytes: required_count("bytes")?,
        retransmits: read_count_field(document, "retransmits"),
        jitter_s: seconds("jitter").unwrap_or(0.0),
        lost_datagrams: required_count("errors")?
            .saturating_sub(read_count_field(document, "omitted_errors").unwrap_or(0)),
        datagrams: required_count("packets")?.saturating_sub(omitted_packets.unwrap_or(0)),
        omitted_datagrams: omitted_packets,
        duration_s: (seconds("end_time").unwrap_or(0.0) - seconds("start_time").unwrap_or(0.0))
            .max(0.0),
    })
}

/// Returns a count; `None` if it is missing or unknown (-1, which some versions write as 2^64 - 1).
fn read_count_field(document: &Value, name: &str) -> Option<u64> {
    let number = document.get(name)?;
    match number.as_u64() {
        Some(u64::MAX) => None,
        Some(count) => Some(count),
        None => number
            .as_f64()
            .filter(|number| (0.0..u64::MAX as f64).contains(number))
            .map(|number| number as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_stock_server_are_parsed() {
        let read = TestResults::from_json(&json!({
            "cpu_util_total": 14.79, "cpu_util_user": 7.4, "cpu_util_system": 7.4,
            "sender_has_retransmits": 18_446_744_073_709_551_615_u64, "congestion_used": "bbr",
            "streams": [{"id": 1, "bytes": 262_144, "retransmits": 18_446_744_073_709_551_615_u64, "jitter": 0,
                         "errors": 0, "packets": 0, "start_time": 0, "end_time": 0.001767}]
        }))
        .expect("the results are valid");
        let stream = read.find_stream(1).expect("stream 1 is present");
        assert_eq!((stream.bytes, stream.retransmits), (262_144, None));
        assert_eq!(stream.duration_s, 0.001767);
    }

    #[test]
    fn no_text_of_a_peer_changes_the_terminal() {
        let read = TestResults::from_json(&json!({
            "streams": [], "congestion_used": "cubic\u{202e}\u{9b}31m",
            "server_output_text": "a\u{2067}b\x1b[2J\n",
            "server_output_json": {"title\u{9b}": ["x\u{9b}2J\u{202e}", 1, null, {"y": "z\u{7f}"}]},
        }))
        .expect("the results are valid");
        assert_eq!(read.congestion_control.as_deref(), Some("cubic31m"));
        assert_eq!(read.server_text.as_deref(), Some("ab[2J\n"));
        assert_eq!(
            read.server_json,
            Some(json!({"title": ["x2J", 1, null, {"y": "z"}]}))
        );
    }

    #[test]
    fn results_survive_a_round_trip_through_json() {
        let results = TestResults {
            cpu: CpuUsage {
                total: 3.0,
                user: 1.0,
                system: 2.0,
            },
            congestion_control: Some("cubic".into()),
            streams: vec![StreamResult {
                id: 3,
                bytes: u64::from(u32::MAX) * 1_000,
                retransmits: Some(7),
                jitter_s: 0.001,
                lost_datagrams: 5,
                datagrams: 100,
                omitted_datagrams: Some(30),
                duration_s: 2.5,
            }],
            server_text: Some("text".into()),
            server_json: None,
        };
        assert_eq!(
            TestResults::from_json(&results.to_json(RetransmitReporting::Counted)),
            Ok(results)
        );
    }

    #[test]
    fn missing_values_of_an_early_version_come_from_the_local_results() {
        let stream = json!({"id": 1, "bytes": 0, "errors": 0, "packets": 1_250});
        let peer =
            TestResults::from_json(&json!({"streams": [stream]})).expect("the results are valid");
        let mut local_results = peer.clone();
        local_results.streams[0].omitted_datagrams = Some(625);
        local_results.streams[0].duration_s = 1.5;
        let completed = &peer.fill_missing_from(&local_results).streams[0];
        assert_eq!((completed.datagrams, completed.duration_s), (625, 1.5));
    }

    #[test]
    fn results_without_streams_or_counts_are_refused() {
        assert!(
            TestResults::from_json(&json!({}))
                .unwrap_err()
                .contains("streams")
        );
        let without = json!({"streams": [{"id": 1, "bytes": -5, "errors": 0, "packets": 0}]});
        assert!(
            TestResults::from_json(&without)
                .unwrap_err()
                .contains("\"bytes\"")
        );
    }
}
