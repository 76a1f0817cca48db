//! A place in the kernel's XDP dispatcher (kernel/bpf/dispatcher.c), which calls the programs that it knows directly.
//!
//! BPF_PROG_TEST_RUN gives a program a place for the length of a call, and every change of places waits for all CPUs: 50 ms
//! and more. A program that is attached anywhere has its place already. So each generator is attached to a tap of its own,
//! which is down, and which the kernel removes with the descriptor, however the agent ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use aya::programs::{Xdp, XdpMode};

use super::loading::{Able, why};

const TUN: &str = "/dev/net/tun";
/// The kernel puts a number there.
const NAME: &[u8] = b"vnb-place%d";

#[derive(Debug)]
pub struct Place {
    _tap: File,
}

impl Place {
    pub fn of(program: &mut Xdp) -> Able<Self> {
        let (tap, index) = tap().map_err(|error| {
            format!("a program has to be attached to a tap, and {TUN} gives none: {error} (modprobe tun)")
        })?;
        let attached = program.attach_to_if_index(index, XdpMode::Driver);
        attached.map_err(|error| format!("a tap takes no program: {}", why(&error)))?;
        Ok(Self { _tap: tap })
    }
}

/// A new tap, and its number.
fn tap() -> io::Result<(File, u32)> {
    let tap = OpenOptions::new().read(true).write(true).open(TUN)?;
    // SAFETY: all-zero is a valid `ifreq` (integers, and a union of integers, addresses and null pointers).
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(NAME) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: `request` is a valid `ifreq` through the call; the kernel writes the name that it chose to it.
    if unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has ended the name with a zero.
    let index = unsafe { libc::if_nametoindex(request.ifr_name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((tap, index))
}
