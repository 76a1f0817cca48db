//! The sink by XDP: its program brought to a port, in the driver or behind it, and taken away with this value.

use std::io;

use aya::programs::{ProgramError, Xdp, XdpMode};
use aya::util::nr_cpus;
use aya::{Ebpf, EbpfLoader};

use crate::arrivals::{Arrivals, BITMAP_WORDS};
use crate::bpf_programs::{self, ProbeResult};
use crate::filter::FrameFilter;
use crate::port::Port;

/// What build.rs has made of bpf/sink.bpf.c.
static SINK: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/sink.bpf.o"));

/// Where the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver.
    Native,
    /// Behind it, where the kernel has made a packet of the frame already.
    Generic,
}

impl AttachMode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "xdp native",
            Self::Generic => "xdp generic",
        }
    }
}

/// The program at a port. It is bound to the port by a descriptor alone (bpf_link), so that the kernel takes it away with
/// this process, however that ends.
#[derive(Debug)]
pub struct SinkProgram {
    pub arrivals: Arrivals,
    pub mode: AttachMode,
    _attached: Ebpf,
}

impl SinkProgram {
    /// With it why it is not in the driver; empty where it is.
    pub fn attach(port: &Port, filter: &FrameFilter) -> ProbeResult<(Self, String)> {
        let cpus = nr_cpus().map_err(|(what, error)| format!("{what}: {error}"))?;
        let sinks = filter.sinks.len();
        let places = filter.stream_table();
        // A map has one element at least.
        let elements = |count: usize| count.max(1) as u32;
        let cpus_told = cpus as u32;
        let mut object = bpf_programs::load_object(SINK, |loader: &mut EbpfLoader<'_>| {
            loader
                .override_global("secret", &filter.prefix, true)
                .override_global("cpus", &cpus_told, true)
                .override_global("places", &places[..], true)
                .map_max_entries("accounts", elements(sinks * cpus))
                .map_max_entries("orders", elements(sinks))
                .map_max_entries("words", elements(sinks * BITMAP_WORDS as usize))
                .map_max_entries("receivers", elements(cpus));
        })?;
        let arrivals = Arrivals::open(&object, sinks, cpus)?;
        let program = bpf_programs::load_xdp_program(&mut object, "sink")?;
        let (mode, why) = attach(program, port)?;
        let attached = Self {
            arrivals,
            mode,
            _attached: object,
        };
        Ok((attached, why))
    }
}

fn attach(program: &mut Xdp, port: &Port) -> ProbeResult<(AttachMode, String)> {
    let Err(native) = program.attach_to_if_index(port.index, XdpMode::Driver) else {
        return Ok((AttachMode::Native, String::new()));
    };
    let native = attach_error(&native, port);
    match program.attach_to_if_index(port.index, XdpMode::Skb) {
        Ok(_) => Ok((AttachMode::Generic, format!("not in the driver: {native}"))),
        Err(generic) => Err(attach_error(&generic, port)),
    }
}

/// Why a program cannot be attached, for who can mend it.
fn attach_error(error: &ProgramError, port: &Port) -> String {
    let errno = match error {
        ProgramError::SyscallError(call) => call.io_error.raw_os_error(),
        _ => None,
    };
    let (name, driver) = (&port.name, &port.driver);
    match errno {
        Some(libc::EOPNOTSUPP) if driver.is_empty() => {
            format!("{name} has no driver that takes XDP")
        }
        Some(libc::EOPNOTSUPP) => {
            format!("the driver {driver} of {name} takes no XDP program as it is set")
        }
        Some(libc::EBUSY | libc::EEXIST) => {
            format!("another XDP program is at {name} (ip link set {name} xdp off)")
        }
        Some(libc::ERANGE | libc::EINVAL) => {
            format!(
                "the driver {driver} takes no XDP program at the MTU {} of {name}",
                port.mtu
            )
        }
        Some(libc::ENOSPC) => format!(
            "{name} has fewer receive queues than the other end of its pair has transmit queues (ethtool -L)"
        ),
        Some(errno) => io::Error::from_raw_os_error(errno).to_string(),
        None => bpf_programs::error_chain(error),
    }
}
