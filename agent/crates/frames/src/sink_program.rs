//! The XDP sink: attaches the sink program to a port, natively or generically, until the value is dropped.

use std::io;

use aya::programs::{ProgramError, Xdp, XdpMode};
use aya::util::nr_cpus;
use aya::{Ebpf, EbpfLoader};

use crate::arrivals::{BITMAP_WORDS, SinkProgramMaps};
use crate::filter::TrialFrameFilter;
use crate::port::Port;
use vnetbench_bpf::ProbeResult;

/// The object that build.rs compiles from bpf/sink.bpf.c.
static SINK: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/sink.bpf.o"));

/// XDP mode in which the program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver.
    Native,
    /// Behind the driver, after the kernel has allocated a socket buffer.
    Generic,
}

impl AttachMode {
    /// Returns the backend's name in the agent's protocol.
    pub fn backend_name(self) -> &'static str {
        match self {
            Self::Native => "xdp native",
            Self::Generic => "xdp generic",
        }
    }
}

/// The sink program at a port. Only a descriptor (bpf_link) attaches it, so the kernel detaches it when the agent ends.
#[derive(Debug)]
pub struct SinkProgram {
    /// The program's counters.
    pub arrivals: SinkProgramMaps,
    /// How the program is attached.
    pub mode: AttachMode,
    /// Why the program does not run in the driver; empty if it does.
    pub fallback_reason: String,
    _object: Ebpf,
}

impl SinkProgram {
    /// Loads the sink program and attaches it to the port.
    pub fn attach(port: &Port, filter: &TrialFrameFilter) -> ProbeResult<Self> {
        let cpus = nr_cpus().map_err(|(action, error)| format!("{action}: {error}"))?;
        let sinks = filter.sinks.len();
        let roles = filter.stream_roles();
        // A map needs at least one element.
        let elements = |count: usize| count.max(1) as u32;
        let cpu_count = cpus as u32;
        let mut object = vnetbench_bpf::load_object(SINK, |loader: &mut EbpfLoader<'_>| {
            loader
                .override_global("secret", &filter.secret, true)
                .override_global("cpus", &cpu_count, true)
                .override_global("stream_roles", &roles[..], true)
                .map_max_entries("stream_counters", elements(sinks * cpus))
                .map_max_entries("sequence_states", elements(sinks))
                .map_max_entries("bitmap_words", elements(sinks * BITMAP_WORDS as usize))
                .map_max_entries("cpu_counters", elements(cpus));
        })?;
        let arrivals = SinkProgramMaps::open(&object, sinks, cpus)?;
        let program = vnetbench_bpf::load_xdp_program(&mut object, "sink")?;
        let (mode, fallback_reason) = match attach_in_native_mode(program, port) {
            Ok(()) => (AttachMode::Native, String::new()),
            Err(reason) => {
                attach_in_generic_mode(program, port)?;
                (
                    AttachMode::Generic,
                    format!("XDP runs in the kernel instead of the driver: {reason}"),
                )
            }
        };
        Ok(Self {
            arrivals,
            mode,
            fallback_reason,
            _object: object,
        })
    }
}

fn attach_in_native_mode(program: &mut Xdp, port: &Port) -> ProbeResult<()> {
    let attached = program.attach_to_if_index(port.index, XdpMode::Driver);
    attached
        .map(drop)
        .map_err(|error| attach_error(&error, port))
}

fn attach_in_generic_mode(program: &mut Xdp, port: &Port) -> ProbeResult<()> {
    let attached = program.attach_to_if_index(port.index, XdpMode::Skb);
    attached
        .map(drop)
        .map_err(|error| attach_error(&error, port))
}

/// Explains why a program cannot be attached, and how to fix it.
fn attach_error(error: &ProgramError, port: &Port) -> String {
    let errno = match error {
        ProgramError::SyscallError(call) => call.io_error.raw_os_error(),
        _ => None,
    };
    let (name, driver) = (&port.name, &port.driver);
    match errno {
        Some(libc::EOPNOTSUPP) if driver.is_empty() => {
            format!("{name} has no driver with XDP support")
        }
        Some(libc::EOPNOTSUPP) => {
            format!(
                "the driver {driver} of {name} does not support XDP in its current configuration"
            )
        }
        Some(libc::EBUSY | libc::EEXIST) => {
            format!("another XDP program is attached to {name} (ip link set {name} xdp off)")
        }
        Some(libc::ERANGE | libc::EINVAL) => {
            format!(
                "the driver {driver} of {name} cannot run XDP at an MTU of {}",
                port.mtu
            )
        }
        Some(libc::ENOSPC) => format!(
            "{name} has fewer receive queues than its veth peer has transmit queues (ethtool -L)"
        ),
        Some(errno) => io::Error::from_raw_os_error(errno).to_string(),
        None => vnetbench_bpf::join_first_error_lines(error),
    }
}
