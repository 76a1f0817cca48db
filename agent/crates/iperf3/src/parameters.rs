//! What a client asks of a test: its parameters, as JSON on the wire, each within named limits.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fields::Fields;
use crate::limits::{
    DEFAULT_BLOCK_BYTES, Ending, MAX_BUFFER_BYTES, MAX_BURST, MAX_MSS, MAX_OMIT_SECONDS,
    MAX_STREAMS, Transport,
};
use crate::states::{Failure, Reason};
use vnetbench_system::cpu_list::CpuList;

const DEFAULT_SECONDS: f64 = 10.0;

/// Who sends, seen from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Reverse,
    Both,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    pub transport: Transport,
    pub direction: Direction,
    pub streams: usize,
    pub omit: Duration,
    pub ending: Ending,
    pub block_bytes: usize,
    /// Of one stream; 0 is without a limit.
    pub rate_bps: u64,
    /// Datagrams or blocks that are sent in one go.
    pub burst: u32,
    pub window_bytes: Option<usize>,
    pub mss: Option<u32>,
    pub no_delay: bool,
    pub congestion: Option<String>,
    pub tos: u32,
    pub wide_counters: bool,
    pub repeating_payload: bool,
    pub discard: bool,
    pub server_output: bool,
    pub server_cpus: CpuList,
    pub title: Option<String>,
    pub extra_data: Option<String>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            transport: Transport::Tcp,
            direction: Direction::Forward,
            streams: 1,
            omit: Duration::ZERO,
            ending: Ending::After(Duration::from_secs_f64(DEFAULT_SECONDS)),
            block_bytes: DEFAULT_BLOCK_BYTES,
            rate_bps: 0,
            burst: 0,
            window_bytes: None,
            mss: None,
            no_delay: false,
            congestion: None,
            tos: 0,
            wide_counters: false,
            repeating_payload: false,
            discard: false,
            server_output: false,
            server_cpus: CpuList::default(),
            title: None,
            extra_data: None,
        }
    }
}

impl Parameters {
    pub fn is_udp(&self) -> bool {
        self.transport == Transport::Udp
    }

    pub fn server_sends(&self) -> bool {
        self.direction != Direction::Forward
    }

    /// Streams of both directions.
    pub fn all_streams(&self) -> usize {
        self.streams
            * if self.direction == Direction::Both {
                2
            } else {
                1
            }
    }

    /// The document that a client sends.
    pub fn to_json(&self) -> Value {
        let (seconds, bytes, blocks) = match self.ending {
            // Whole seconds are what every server reads; the client alone decides when the test ends.
            Ending::After(time) => (time.as_secs_f64().ceil() as u64, 0, 0),
            Ending::Bytes(bytes) => (0, bytes, 0),
            Ending::Blocks(blocks) => (0, 0, blocks),
            Ending::Never => (0, 0, 0),
        };
        let mut document = json!({
            if self.is_udp() { "udp" } else { "tcp" }: true,
            "omit": self.omit.as_secs_f64().ceil() as u64,
            "time": seconds,
            "num": bytes,
            "blockcount": blocks,
            "parallel": self.streams,
            "len": self.block_bytes,
            "pacing_timer": 1000,
            "client_version": concat!("vnetbench ", env!("CARGO_PKG_VERSION")),
        });
        let fields = document.as_object_mut().expect("it was made as one");
        let mut add = |present: bool, name: &str, value: Value| {
            if present {
                fields.insert(name.into(), value);
            }
        };
        add(self.direction == Direction::Reverse, "reverse", true.into());
        add(
            self.direction == Direction::Both,
            "bidirectional",
            true.into(),
        );
        add(self.rate_bps > 0, "bandwidth", self.rate_bps.into());
        add(self.burst > 0, "burst", self.burst.into());
        add(
            self.window_bytes.is_some(),
            "window",
            self.window_bytes.into(),
        );
        add(self.mss.is_some(), "MSS", self.mss.into());
        add(self.no_delay, "nodelay", true.into());
        add(
            self.congestion.is_some(),
            "congestion",
            self.congestion.clone().into(),
        );
        add(self.tos > 0, "TOS", self.tos.into());
        add(self.wide_counters, "udp_counters_64bit", 1.into());
        add(self.repeating_payload, "repeating_payload", 1.into());
        add(self.discard, "skip_rx_copy", 1.into());
        add(self.server_output, "get_server_output", 1.into());
        add(self.title.is_some(), "title", self.title.clone().into());
        add(
            self.extra_data.is_some(),
            "extra_data",
            self.extra_data.clone().into(),
        );
        document
    }

    /// What a client's document asks; what no server here can do is refused with iperf3's own number.
    pub fn from_json(document: &Value) -> Result<Self, Failure> {
        let fields = Fields(document.as_object().ok_or_else(|| {
            Failure::refused(
                Reason::ReceiveParameters,
                "the parameters are no JSON object",
            )
        })?);
        let transport = match (fields.flag("tcp"), fields.flag("udp"), fields.flag("sctp")) {
            (_, _, true) => {
                return Err(Failure::refused(Reason::NoSctp, "SCTP is not spoken here"));
            }
            (_, true, _) => Transport::Udp,
            _ => Transport::Tcp,
        };
        let direction = match (fields.flag("reverse"), fields.flag("bidirectional")) {
            (true, true) => {
                return Err(Failure::refused(
                    Reason::BothWays,
                    "reverse and bidirectional at once",
                ));
            }
            (true, false) => Direction::Reverse,
            (false, true) => Direction::Both,
            (false, false) => Direction::Forward,
        };
        let parameters = Self {
            transport,
            direction,
            streams: fields.whole(
                "parallel",
                1,
                1..=MAX_STREAMS as u64,
                Reason::NumberOfStreams,
            )? as usize,
            omit: fields.seconds("omit", MAX_OMIT_SECONDS, Reason::Omit)?,
            ending: fields.ending()?,
            block_bytes: fields.block_bytes(transport)?,
            rate_bps: fields.whole("bandwidth", 0, 0..=u64::MAX, Reason::Pacing)?,
            burst: fields.whole("burst", 0, 0..=MAX_BURST.into(), Reason::Burst)? as u32,
            window_bytes: fields
                .asked("window", 1..=MAX_BUFFER_BYTES as u64, Reason::BufferSize)?
                .map(|bytes| bytes as usize),
            mss: fields
                .asked("MSS", 1..=MAX_MSS.into(), Reason::Mss)?
                .map(|mss| mss as u32),
            no_delay: fields.flag("nodelay"),
            congestion: fields.text("congestion")?,
            tos: fields.whole("TOS", 0, 0..=255, Reason::Tos)? as u32,
            wide_counters: fields.flag("udp_counters_64bit"),
            repeating_payload: fields.flag("repeating_payload"),
            discard: fields.flag("skip_rx_copy"),
            server_output: fields.flag("get_server_output"),
            server_cpus: fields.cpus()?,
            title: fields.text("title")?,
            extra_data: fields.text("extra_data")?,
        };
        parameters.refuse_what_is_not_done(&fields)?;
        Ok(parameters)
    }

    fn refuse_what_is_not_done(&self, fields: &Fields<'_>) -> Result<(), Failure> {
        // How the client sends is its own affair; these matter where the server sends.
        let asked = [
            (
                "zerocopy",
                Reason::NotImplemented,
                "sending by sendfile (-Z)",
            ),
            ("fqrate", Reason::Pacing, "pacing by the kernel (--fq-rate)"),
            ("flowlabel", Reason::SetFlowLabel, "an IPv6 flow label (-L)"),
            (
                "dont_fragment",
                Reason::DontFragment,
                "forbidding fragments (--dont-fragment)",
            ),
        ];
        match asked
            .iter()
            .find(|(name, _, _)| self.server_sends() && fields.flag(name))
        {
            Some((_, reason, what)) => Err(Failure::refused(
                *reason,
                format!("{what} is not done by this server"),
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(document: Value) -> Reason {
        match Parameters::from_json(&document) {
            Err(Failure::Refused { reason, .. }) => reason,
            other => panic!("{document} gave {other:?}"),
        }
    }

    #[test]
    fn what_a_stock_client_sends_is_read() {
        let asked = Parameters::from_json(&json!({
            "udp": true, "omit": 1, "time": 3, "num": 0, "blockcount": 0, "parallel": 2, "bidirectional": true,
            "len": 1448, "bandwidth": 1_048_576, "pacing_timer": 1000, "udp_counters_64bit": 1, "client_version": "3.12"
        }))
        .expect("it is right");
        assert_eq!(asked.transport, Transport::Udp);
        assert_eq!(asked.all_streams(), 4);
        assert_eq!(asked.ending, Ending::After(Duration::from_secs(3)));
        assert_eq!(asked.rate_bps, 1_048_576);
        assert!(asked.wide_counters);
    }

    #[test]
    fn what_a_client_asks_is_what_a_server_reads() {
        let asked = Parameters {
            direction: Direction::Reverse,
            streams: 7,
            ending: Ending::Bytes(u64::MAX),
            block_bytes: 4_096,
            window_bytes: Some(65_536),
            mss: Some(1_400),
            no_delay: true,
            congestion: Some("cubic".into()),
            tos: 16,
            server_output: true,
            title: Some("t".into()),
            ..Parameters::default()
        };
        assert_eq!(Parameters::from_json(&asked.to_json()), Ok(asked));
    }

    #[test]
    fn what_is_out_of_bounds_or_not_done_is_refused_with_iperf3s_own_number() {
        assert_eq!(refusal(json!([])), Reason::ReceiveParameters);
        assert_eq!(refusal(json!({"parallel": 129})), Reason::NumberOfStreams);
        assert_eq!(refusal(json!({"parallel": -1})), Reason::NumberOfStreams);
        assert_eq!(refusal(json!({"len": 1e300})), Reason::BlockSize);
        assert_eq!(
            refusal(json!({"udp": true, "len": 8})),
            Reason::UdpBlockSize
        );
        assert_eq!(refusal(json!({"time": 86_401})), Reason::Duration);
        assert_eq!(refusal(json!({"sctp": true})), Reason::NoSctp);
        assert_eq!(
            refusal(json!({"reverse": true, "zerocopy": 1})),
            Reason::NotImplemented
        );
        assert_eq!(
            refusal(json!({"title": "x".repeat(5_000)})),
            Reason::ReceiveParameters
        );
        assert!(Parameters::from_json(&json!({"zerocopy": 1})).is_ok());
    }
}
