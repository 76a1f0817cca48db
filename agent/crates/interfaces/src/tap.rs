//! Taps: interfaces whose other end is a file descriptor of this process. The kernel removes them with the process, however
//! it ends (tun(4), Documentation/networking/tuntap.rst).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// Device file of taps.
pub const TUN_DEVICE_PATH: &str = "/dev/net/tun";

/// A tap, which exists as long as its file is open.
pub struct Tap {
    /// Reads and writes the frames.
    pub file: File,
    /// Name of the interface.
    pub name: String,
}

impl Tap {
    /// Creates a tap. The kernel replaces `%d` in the name with a number.
    pub fn create(name: &str, flags: libc::c_int) -> io::Result<Self> {
        let mut request = make_ifreq(name)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(TUN_DEVICE_PATH)?;
        let flags = flags | libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: `request` is a valid `ifreq` during the call; the kernel writes the chosen name to it.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let bytes = request.ifr_name.iter().take_while(|byte| **byte != 0);
        let name: Vec<u8> = bytes.map(|byte| *byte as u8).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        Ok(Self { file, name })
    }

    /// Sets the offloads that the reader of this tap supports: TUN_F_CSUM and others.
    pub fn set_reader_offloads(&self, offloads: libc::c_uint) -> io::Result<()> {
        let value = libc::c_ulong::from(offloads);
        // SAFETY: the third argument is a number, and the kernel writes nothing.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNSETOFFLOAD, value) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Returns a request about an interface of this name.
fn make_ifreq(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: an all-zero `ifreq` is valid: integers, and a union of integers, addresses and null pointers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains(['\0', '/']) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}
