//! Reserves a slot in the kernel's XDP dispatcher (kernel/bpf/dispatcher.c), which calls registered programs directly.
//!
//! BPF_PROG_TEST_RUN registers a program for the length of a call, and each change of the dispatcher waits for all CPUs:
//! 50 ms and more. A program that is attached to any interface is registered already. So each generator is attached to a
//! tap of its own. The tap stays down, and the kernel removes it with the descriptor, however the agent ends.

use std::fs::File;
use std::io;

use aya::programs::{Xdp, XdpMode};

use vnetbench_bpf::{ProbeResult, join_first_error_lines};
use vnetbench_interfaces::interface::Interface;
use vnetbench_interfaces::tap::{TUN_DEVICE_PATH, Tap};

const TAP_NAME_PATTERN: &str = "vnb-xdp%d";

/// Keeps a program registered with the dispatcher until it is dropped.
#[derive(Debug)]
pub struct DispatcherSlot {
    _tap: File,
}

impl DispatcherSlot {
    /// Attaches a program to a new tap.
    pub fn attach_to_new_tap(program: &mut Xdp) -> ProbeResult<Self> {
        let tap = IndexedTap::create().map_err(|error| {
            format!(
                "cannot create a tap device with {TUN_DEVICE_PATH}: {error} (to load its module: modprobe tun)"
            )
        })?;
        let attached = program.attach_to_if_index(tap.interface_index, XdpMode::Driver);
        attached.map_err(|error| {
            format!(
                "cannot attach the program to a tap: {}",
                join_first_error_lines(&error)
            )
        })?;
        Ok(Self { _tap: tap.file })
    }
}

/// A tap with the index of its interface.
struct IndexedTap {
    file: File,
    interface_index: u32,
}

impl IndexedTap {
    fn create() -> io::Result<Self> {
        let tap = Tap::create(TAP_NAME_PATTERN, 0)?;
        let interface_index = Interface::open(&tap.name)?.index()?;
        Ok(Self {
            file: tap.file,
            interface_index,
        })
    }
}
