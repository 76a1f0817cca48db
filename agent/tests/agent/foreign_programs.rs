//! What other programs than the agent put into a network namespace: a packet socket, and an XDP program.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

// include/uapi/linux/bpf.h
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
/// `r0 = XDP_PASS; exit`.
const PASS: [u64; 2] = [0x0000_0002_0000_00b7, 0x0000_0000_0000_0095];

/// Opens a packet socket in the network namespace of an agent.
pub fn open_packet_socket(agent_pid: u32) -> io::Result<OwnedFd> {
    run_in_network_of(agent_pid, || {
        Ok(socket(AddressFamily::PACKET, SocketType::RAW, None)?)
    })
}

/// Tries to connect to an address that never answers, until the first segment has been sent again (RFC 6298: after 1 s).
pub fn connect_in_vain(agent_pid: u32, address: SocketAddr) -> io::Result<()> {
    run_in_network_of(agent_pid, move || {
        match TcpStream::connect_timeout(&address, Duration::from_millis(1500)) {
            Ok(_) => Err(io::Error::other("the address answers")),
            Err(_) => Ok(()),
        }
    })
}

/// Attaches a program that passes all packets. It ends when the returned descriptor is closed.
pub fn attach_pass_program(agent_pid: u32, interface: &'static str) -> io::Result<OwnedFd> {
    run_in_network_of(agent_pid, move || {
        let any_socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        let index = name_to_index(&any_socket, interface)?;
        let license = c"GPL";
        let mut load = [0_u64; 16];
        load[0] = words(BPF_PROG_TYPE_XDP, PASS.len() as u32);
        load[1] = PASS.as_ptr() as u64;
        load[2] = license.as_ptr() as u64;
        let program = bpf(BPF_PROG_LOAD, &load)?;
        let mut link = [0_u64; 16];
        link[0] = words(program.as_raw_fd() as u32, index);
        link[1] = words(BPF_XDP, XDP_FLAGS_SKB_MODE);
        bpf(BPF_LINK_CREATE, &link)
    })
}

/// Runs a function on a thread in the network namespace of an agent.
fn run_in_network_of<T: Send + 'static>(
    agent_pid: u32,
    function: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let namespace = File::open(format!("/proc/{agent_pid}/ns/net"))?;
    let thread = std::thread::spawn(move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        function()
    });
    thread.join().expect("no panic")
}

fn words(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn bpf(command: libc::c_long, attributes: &[u64; 16]) -> io::Result<OwnedFd> {
    // SAFETY: `attributes` and what it points to are valid during the call, and the kernel only reads them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_ptr(),
            size_of_val(attributes),
        )
    };
    match result {
        0.. => {
            // SAFETY: the kernel returned a new descriptor that nothing else owns.
            Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
        }
        _ => Err(io::Error::last_os_error()),
    }
}
