//! The parameters of a test, which a client sends as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fields::ParameterFields;
use crate::limits::{
    DEFAULT_BLOCK_BYTES, EndCondition, MAX_BURST_BLOCKS, MAX_MSS_BYTES, MAX_OMIT_S,
    MAX_STREAMS_PER_DIRECTION, MAX_WINDOW_BYTES, Transport,
};
use crate::states::{ErrorCode, TestError};
use vnetbench_system::cpu_list::CpuList;

const DEFAULT_DURATION_S: f64 = 10.0;

/// The direction of the data, from the client's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The client sends.
    Forward,
    /// The server sends.
    Reverse,
    /// Both send.
    Bidirectional,
}

/// The parameters of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct TestParameters {
    /// TCP or UDP.
    pub transport: Transport,
    /// Which host sends.
    pub direction: Direction,
    /// Number of streams in each direction.
    pub streams_per_direction: usize,
    /// Time at the start that the results omit.
    pub omit: Duration,
    /// What ends the test.
    pub end_condition: EndCondition,
    /// Size of a block (TCP) or datagram (UDP).
    pub block_bytes: usize,
    /// Rate of each stream in bit/s; 0 means unlimited.
    pub rate_bps: u64,
    /// Number of blocks or datagrams sent back to back; 0 means 1.
    pub burst: u32,
    /// Size of the socket buffers; `None` for the system's default.
    pub socket_buffer_bytes: Option<usize>,
    /// Maximum segment size in bytes.
    pub mss: Option<u32>,
    /// Whether to disable Nagle's algorithm.
    pub no_delay: bool,
    /// TCP congestion control algorithm.
    pub congestion_control: Option<String>,
    /// IP type of service; 0 for the default.
    pub tos: u32,
    /// Whether datagrams carry 64-bit sequence numbers.
    pub counters_64bit: bool,
    /// Whether the payload is a repeating pattern of digits.
    pub repeating_payload: bool,
    /// Whether receivers discard the data in the kernel.
    pub skip_receive_copy: bool,
    /// Whether the server sends its output with the results.
    pub wants_server_output: bool,
    /// CPUs of the server's threads; empty for all.
    pub server_cpus: CpuList,
    /// Title of the output.
    pub title: Option<String>,
    /// Text that both hosts include in their JSON output.
    pub extra_data: Option<String>,
}

impl Default for TestParameters {
    fn default() -> Self {
        Self {
            transport: Transport::Tcp,
            direction: Direction::Forward,
            streams_per_direction: 1,
            omit: Duration::ZERO,
            end_condition: EndCondition::After(Duration::from_secs_f64(DEFAULT_DURATION_S)),
            block_bytes: DEFAULT_BLOCK_BYTES,
            rate_bps: 0,
            burst: 0,
            socket_buffer_bytes: None,
            mss: None,
            no_delay: false,
            congestion_control: None,
            tos: 0,
            counters_64bit: false,
            repeating_payload: false,
            skip_receive_copy: false,
            wants_server_output: false,
            server_cpus: CpuList::default(),
            title: None,
            extra_data: None,
        }
    }
}

impl TestParameters {
    /// Returns whether the test uses UDP.
    pub fn is_udp(&self) -> bool {
        self.transport == Transport::Udp
    }

    /// Returns whether the server sends data: in reverse or in both directions.
    pub fn server_sends(&self) -> bool {
        self.direction != Direction::Forward
    }

    /// Returns the number of streams of all directions.
    pub fn total_stream_count(&self) -> usize {
        self.streams_per_direction
            * if self.direction == Direction::Bidirectional {
                2
            } else {
                1
            }
    }

    /// Returns the document that a client sends.
    pub fn to_json(&self) -> Value {
        let (seconds, bytes, blocks) = match self.end_condition {
            // Every server parses whole seconds; rounding up is safe because the client ends the test.
            EndCondition::After(time) => (time.as_secs_f64().ceil() as u64, 0, 0),
            EndCondition::Bytes(bytes) => (0, bytes, 0),
            EndCondition::Blocks(blocks) => (0, 0, blocks),
            EndCondition::Never => (0, 0, 0),
        };
        let mut document = json!({
            if self.is_udp() { "udp" } else { "tcp" }: true,
            "omit": self.omit.as_secs_f64().ceil() as u64,
            "time": seconds,
            "num": bytes,
            "blockcount": blocks,
            "parallel": self.streams_per_direction,
            "len": self.block_bytes,
            "pacing_timer": 1000,
            "client_version": concat!("vnetbench ", env!("CARGO_PKG_VERSION")),
        });
        let fields = document.as_object_mut().expect("the document is an object");
        let mut add = |present: bool, name: &str, value: Value| {
            if present {
                fields.insert(name.into(), value);
            }
        };
        add(self.direction == Direction::Reverse, "reverse", true.into());
        add(
            self.direction == Direction::Bidirectional,
            "bidirectional",
            true.into(),
        );
        add(self.rate_bps > 0, "bandwidth", self.rate_bps.into());
        add(self.burst > 0, "burst", self.burst.into());
        add(
            self.socket_buffer_bytes.is_some(),
            "window",
            self.socket_buffer_bytes.into(),
        );
        add(self.mss.is_some(), "MSS", self.mss.into());
        add(self.no_delay, "nodelay", true.into());
        add(
            self.congestion_control.is_some(),
            "congestion",
            self.congestion_control.clone().into(),
        );
        add(self.tos > 0, "TOS", self.tos.into());
        add(self.counters_64bit, "udp_counters_64bit", 1.into());
        add(self.repeating_payload, "repeating_payload", 1.into());
        add(self.skip_receive_copy, "skip_rx_copy", 1.into());
        add(self.wants_server_output, "get_server_output", 1.into());
        add(self.title.is_some(), "title", self.title.clone().into());
        add(
            self.extra_data.is_some(),
            "extra_data",
            self.extra_data.clone().into(),
        );
        document
    }

    /// Parses a client's document.
    ///
    /// # Errors
    ///
    /// iperf3's error code for a value out of range or an unsupported option.
    pub fn from_json(document: &Value) -> Result<Self, TestError> {
        let fields = ParameterFields(document.as_object().ok_or_else(|| {
            TestError::refused(
                ErrorCode::ReceiveParameters,
                "the parameters are not a JSON object",
            )
        })?);
        let transport = match (
            fields.read_flag("tcp"),
            fields.read_flag("udp"),
            fields.read_flag("sctp"),
        ) {
            (_, _, true) => {
                return Err(TestError::refused(
                    ErrorCode::NoSctp,
                    "the server does not support SCTP",
                ));
            }
            (_, true, _) => Transport::Udp,
            _ => Transport::Tcp,
        };
        let parameters = Self {
            transport,
            direction: direction_from_fields(&fields)?,
            streams_per_direction: fields.read_integer(
                "parallel",
                1,
                1..=MAX_STREAMS_PER_DIRECTION as u64,
                ErrorCode::NumberOfStreams,
            )? as usize,
            omit: fields.read_duration("omit", MAX_OMIT_S, ErrorCode::Omit)?,
            end_condition: fields.read_end_condition()?,
            block_bytes: fields.read_block_bytes(transport)?,
            rate_bps: fields.read_integer("bandwidth", 0, 0..=u64::MAX, ErrorCode::Pacing)?,
            burst: fields.read_integer("burst", 0, 0..=MAX_BURST_BLOCKS.into(), ErrorCode::Burst)?
                as u32,
            socket_buffer_bytes: fields
                .read_nonzero_integer("window", 1..=MAX_WINDOW_BYTES as u64, ErrorCode::BufferSize)?
                .map(|bytes| bytes as usize),
            mss: fields
                .read_nonzero_integer("MSS", 1..=MAX_MSS_BYTES.into(), ErrorCode::Mss)?
                .map(|mss| mss as u32),
            no_delay: fields.read_flag("nodelay"),
            congestion_control: fields.read_text("congestion")?,
            tos: fields.read_integer("TOS", 0, 0..=255, ErrorCode::Tos)? as u32,
            counters_64bit: fields.read_flag("udp_counters_64bit"),
            repeating_payload: fields.read_flag("repeating_payload"),
            skip_receive_copy: fields.read_flag("skip_rx_copy"),
            wants_server_output: fields.read_flag("get_server_output"),
            server_cpus: fields.read_server_cpus()?,
            title: fields.read_text("title")?,
            extra_data: fields.read_text("extra_data")?,
        };
        parameters.refuse_unsupported(&fields)?;
        Ok(parameters)
    }

    fn refuse_unsupported(&self, fields: &ParameterFields<'_>) -> Result<(), TestError> {
        // These options apply to the sender: they matter only if the server sends.
        let unsupported = [
            (
                "zerocopy",
                ErrorCode::NotImplemented,
                "sending by sendfile (-Z)",
            ),
            (
                "fqrate",
                ErrorCode::Pacing,
                "pacing by the kernel (--fq-rate)",
            ),
            (
                "flowlabel",
                ErrorCode::SetFlowLabel,
                "an IPv6 flow label (-L)",
            ),
            (
                "dont_fragment",
                ErrorCode::DontFragment,
                "the do-not-fragment flag (--dont-fragment)",
            ),
        ];
        match unsupported
            .iter()
            .find(|(name, _, _)| self.server_sends() && fields.read_flag(name))
        {
            Some((_, code, what)) => Err(TestError::refused(
                *code,
                format!("the server does not support {what}"),
            )),
            None => Ok(()),
        }
    }
}

fn direction_from_fields(fields: &ParameterFields<'_>) -> Result<Direction, TestError> {
    match (
        fields.read_flag("reverse"),
        fields.read_flag("bidirectional"),
    ) {
        (true, true) => Err(TestError::refused(
            ErrorCode::ReverseAndBidirectional,
            "the parameters reverse and bidirectional exclude each other",
        )),
        (true, false) => Ok(Direction::Reverse),
        (false, true) => Ok(Direction::Bidirectional),
        (false, false) => Ok(Direction::Forward),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(document: Value) -> ErrorCode {
        match TestParameters::from_json(&document) {
            Err(TestError::Refused { code, .. }) => code,
            other => panic!("{document} gave {other:?}"),
        }
    }

    #[test]
    fn parameters_of_a_stock_client_are_parsed() {
        let parameters = TestParameters::from_json(&json!({
            "udp": true, "omit": 1, "time": 3, "num": 0, "blockcount": 0, "parallel": 2, "bidirectional": true,
            "len": 1448, "bandwidth": 1_048_576, "pacing_timer": 1000, "udp_counters_64bit": 1, "client_version": "3.12"
        }))
        .expect("the parameters are valid");
        assert_eq!(parameters.transport, Transport::Udp);
        assert_eq!(parameters.total_stream_count(), 4);
        assert_eq!(
            parameters.end_condition,
            EndCondition::After(Duration::from_secs(3))
        );
        assert_eq!(parameters.rate_bps, 1_048_576);
        assert!(parameters.counters_64bit);
    }

    #[test]
    fn parameters_survive_a_round_trip_through_json() {
        let parameters = TestParameters {
            direction: Direction::Reverse,
            streams_per_direction: 7,
            end_condition: EndCondition::Bytes(u64::MAX),
            block_bytes: 4_096,
            socket_buffer_bytes: Some(65_536),
            mss: Some(1_400),
            no_delay: true,
            congestion_control: Some("cubic".into()),
            tos: 16,
            wants_server_output: true,
            title: Some("t".into()),
            ..TestParameters::default()
        };
        assert_eq!(
            TestParameters::from_json(&parameters.to_json()),
            Ok(parameters)
        );
    }

    #[test]
    fn values_out_of_range_and_unsupported_options_are_refused_with_an_error_code() {
        assert_eq!(refusal(json!([])), ErrorCode::ReceiveParameters);
        assert_eq!(
            refusal(json!({"parallel": 129})),
            ErrorCode::NumberOfStreams
        );
        assert_eq!(refusal(json!({"parallel": -1})), ErrorCode::NumberOfStreams);
        assert_eq!(refusal(json!({"len": 1e300})), ErrorCode::BlockSize);
        assert_eq!(
            refusal(json!({"udp": true, "len": 8})),
            ErrorCode::UdpBlockSize
        );
        assert_eq!(refusal(json!({"time": 86_401})), ErrorCode::Duration);
        assert_eq!(refusal(json!({"sctp": true})), ErrorCode::NoSctp);
        assert_eq!(
            refusal(json!({"reverse": true, "zerocopy": 1})),
            ErrorCode::NotImplemented
        );
        assert_eq!(
            refusal(json!({"title": "x".repeat(5_000)})),
            ErrorCode::ReceiveParameters
        );
        assert!(TestParameters::from_json(&json!({"zerocopy": 1})).is_ok());
    }
}
