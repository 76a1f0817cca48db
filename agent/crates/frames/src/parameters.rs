//! What is asked of a side's streams of frames, and by which ways it was granted.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The interleaving of sizes has so many places.
pub const MAX_MIX_FRAMES: usize = 64;
/// Of the frame check sequence, which the RFCs count and the kernel does not see.
pub const FCS_BYTES: usize = 4;

/// What is asked of a side's streams.
#[derive(Debug, Clone)]
pub struct FrameParameters {
    pub interface: String,
    /// In a fixed interleaving, each as often as its weight says.
    pub sizes: Vec<FrameSize>,
    /// On each stream; `None`: as fast as it goes.
    pub frames_per_s: Option<f64>,
    /// Most of each stream.
    pub max_frames: Option<u64>,
    /// Of each stream.
    pub flows: u32,
    pub vary_addresses: bool,
    pub from: IpAddr,
    pub to: IpAddr,
    /// Outermost first.
    pub vlan_tags: Vec<u16>,
    pub mac_to: [u8; 6],
    pub generator: Backend,
    pub sink: Backend,
    pub pacing: PacingMethod,
    pub refused_frames: RefusedFrames,
    /// A sink ends when none has come for so long after the load has ended.
    pub settle: Duration,
    /// A source's thread has another's on its CPU.
    pub shares_cpus: bool,
}

/// Of a frame, with its FCS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameSize {
    pub bytes: usize,
    pub weight: u32,
}

/// What a frame is that the port does not take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedFrames {
    /// The port carries no more.
    #[default]
    Unsent,
    /// It was offered all the same: the queue that was full is the first of what is tested.
    Lost,
}

/// By which way frames are made or counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The best that the port has.
    #[default]
    Auto,
    Xdp,
    Packet,
}

/// How a frame waits until it is due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PacingMethod {
    /// What is best at the rate.
    #[default]
    Auto,
    /// The kernel's program looks at the clock again and again.
    Program,
    /// The thread sleeps, and has a batch made of those that are due.
    Batches,
}

/// By which ways a side's frames are made and counted.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ChosenBackends {
    /// Null where the side has none of that role.
    pub generator: Option<&'static str>,
    pub sink: Option<&'static str>,
    /// Why not by the best ways; empty where they are.
    #[serde(rename = "why")]
    pub reason: String,
}

impl ChosenBackends {
    pub(crate) fn add_reason(&mut self, why: &str) {
        if !self.reason.is_empty() && !why.is_empty() {
            self.reason.push_str("; ");
        }
        self.reason.push_str(why);
    }
}
