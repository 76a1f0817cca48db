//! Parameters of an endpoint's frame streams, and the backends chosen for them.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Maximum length of the repeating sequence of frame sizes (MAX_MIX_SEQUENCE_FRAMES in bpf/generate.bpf.c).
pub const MAX_MIX_SEQUENCE_FRAMES: usize = 64;
/// Bytes of the frame check sequence. RFC 2544 counts it; the kernel does not see it.
pub const FCS_BYTES: usize = 4;

/// Parameters of an endpoint's frame streams.
#[derive(Debug, Clone)]
pub struct FrameParameters {
    /// Interface that frames leave and arrive by.
    pub interface: String,
    /// Frame sizes, interleaved in a fixed sequence by weight.
    pub sizes: Vec<FrameSize>,
    /// Frame rate of each stream; `None` if unpaced.
    pub frames_per_s: Option<f64>,
    /// Maximum number of frames of each stream.
    pub max_frames: Option<u64>,
    /// Flows (UDP port pairs) of each stream.
    pub flows: u32,
    /// Whether the last byte of both IP addresses varies with the flow.
    pub vary_addresses: bool,
    /// Source IP address.
    pub from: IpAddr,
    /// Destination IP address.
    pub to: IpAddr,
    /// VLAN ids, outermost first.
    pub vlan_tags: Vec<u16>,
    /// Destination MAC address.
    pub mac_to: [u8; 6],
    /// Backend that generates frames.
    pub generator: FrameBackend,
    /// Backend that counts frames.
    pub sink: FrameBackend,
    /// How a source waits until a frame is due.
    pub pacing: PacingMethod,
    /// How frames are counted that the port rejects.
    pub rejected_frames: RejectedFrameCounting,
    /// After the load, a sink ends once no frame has arrived for this time.
    pub end_after_silence: Duration,
    /// Whether a source's thread shares its CPU with another source.
    pub shares_cpus: bool,
}

/// A frame size with its share of the mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameSize {
    /// Size of the frame with its FCS.
    pub bytes: usize,
    /// How often the size occurs in the repeating sequence.
    pub weight: u32,
}

/// How frames are counted that the port rejects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectedFrameCounting {
    /// As not sent: the port is the limit of the tester.
    #[default]
    Unsent,
    /// As sent and lost: the full queue belongs to the device under test.
    Lost,
}

/// Backend that generates or counts frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameBackend {
    /// The best backend that the port supports.
    #[default]
    Auto,
    /// BPF programs: live frames and XDP.
    Xdp,
    /// Packet sockets (packet(7)).
    Packet,
}

/// How a source waits until a frame is due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PacingMethod {
    /// The best method at the rate.
    #[default]
    Auto,
    /// The BPF program polls the clock.
    Program,
    /// The thread sleeps, then generates all due frames as a batch.
    Batches,
}

/// Backends chosen for an endpoint's frames.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ChosenBackends {
    /// Backend of the sources; null if the endpoint has none.
    pub generator: Option<&'static str>,
    /// Backend of the sinks; null if the endpoint has none.
    pub sink: Option<&'static str>,
    /// Why better backends are not available; empty if the best ones are used.
    pub reason: String,
}

impl ChosenBackends {
    pub(crate) fn add_reason(&mut self, reason: &str) {
        if !self.reason.is_empty() && !reason.is_empty() {
            self.reason.push_str("; ");
        }
        self.reason.push_str(reason);
    }
}
