//! A place in the kernel's XDP dispatcher (kernel/bpf/dispatcher.c), which calls the programs that it knows directly.
//!
//! BPF_PROG_TEST_RUN gives a program a place for the length of a call, and every change of places waits for all CPUs: 50 ms
//! and more. A program that is attached anywhere has its place already. So each generator is attached to a tap of its own,
//! which is down, and which the kernel removes with the descriptor, however the agent ends.

use std::fs::File;
use std::io;

use aya::programs::{Xdp, XdpMode};

use crate::bpf_programs::{ProbeResult, error_chain};
use vnetbench_interfaces::interface::Interface;
use vnetbench_interfaces::tap::{self, TUN};

const NAME: &str = "vnb-place%d";

#[derive(Debug)]
pub struct DispatcherSlot {
    _tap: File,
}

impl DispatcherSlot {
    pub fn reserve(program: &mut Xdp) -> ProbeResult<Self> {
        let (tap, index) = create_tap().map_err(|error| {
            format!("a program has to be attached to a tap, and {TUN} gives none: {error} (modprobe tun)")
        })?;
        let attached = program.attach_to_if_index(index, XdpMode::Driver);
        attached.map_err(|error| format!("a tap takes no program: {}", error_chain(&error)))?;
        Ok(Self { _tap: tap })
    }
}

/// A new tap, and its number.
fn create_tap() -> io::Result<(File, u32)> {
    let (tap, name) = tap::open(NAME, 0)?;
    let index = Interface::open(&name)?.index()?;
    Ok((tap, index))
}
