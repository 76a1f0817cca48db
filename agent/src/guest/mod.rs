//! PID 1 of a guest: readies the kernel, then serves one host after another over a virtio port, until it is told to power
//! off. What goes wrong is one line on the console, and then the power is off too: a guest never lives on half made.

mod addresses;
mod configuration;
mod forwarding;
mod modules;
mod mounts;
mod neighbours;
mod port;

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, WaitOptions, setrlimit};
use rustix::system::{RebootCommand, reboot};

pub use self::configuration::configure;
use self::port::HostPort;
use vnetbench_interfaces::interface::Interface;
use vnetbench_system::error::{Error, Result};

/// What the root of an initramfs is: RAMFS_MAGIC or TMPFS_MAGIC (include/uapi/linux/magic.h).
const MEMORY_FILE_SYSTEMS: [u64; 2] = [0x8584_58f6, 0x0102_1994];
/// What the kernel lets a process have at most (fs.nr_open); its own limit for PID 1 is 4096.
const MAX_DESCRIPTORS: u64 = 1 << 20;

/// Whether a kernel has just started this out of an initramfs. In a container the first process has another root, and a
/// kernel that is not its own.
pub fn is_first_process() -> bool {
    let root = || Some(rustix::fs::statfs("/").ok()?.f_type as u64);
    rustix::process::getpid().is_init()
        && root().is_some_and(|kind| MEMORY_FILE_SYSTEMS.contains(&kind))
}

/// Never returns in a guest. `serve` serves one host over standard input and output.
pub fn init(serve: fn() -> ExitCode) -> ExitCode {
    if !is_first_process() {
        eprintln!(
            "vnetbench-agent: init is the first process (PID 1) of a guest's initramfs, and nothing else"
        );
        return ExitCode::from(2);
    }
    std::panic::set_hook(Box::new(|fault| halt_with_error(&fault.to_string())));
    let Err(error) = serve_hosts(serve);
    halt_with_error(&error.to_string())
}

fn serve_hosts(serve: fn() -> ExitCode) -> Result<Infallible> {
    mounts::mount_all()?;
    mounts::set_kernel_parameters()?;
    modules::load_all()?;
    Interface::open("lo")
        .and_then(|lo| lo.set_up(true))
        .map_err(|error| Error::system("set lo up", error))?;
    let limit = Rlimit {
        current: Some(MAX_DESCRIPTORS),
        maximum: Some(MAX_DESCRIPTORS),
    };
    setrlimit(Resource::Nofile, limit)
        .map_err(|error| Error::system("allow more descriptors", error))?;
    let port = HostPort::find()?;
    loop {
        port.wait_for_host();
        serve_host(&port, serve)?;
    }
}

/// Serves one host in a process of its own, which ends when the host hangs up: so nothing of it is left for the next.
fn serve_host(port: &HostPort, serve: fn() -> ExitCode) -> Result<()> {
    // SAFETY: this process has one thread, so that the copy of it is whole.
    match unsafe { libc::fork() } {
        -1 => Err(Error::system(
            "start a process",
            std::io::Error::last_os_error(),
        )),
        0 => {
            // A fault in one request is answered there, and does not end the guest.
            drop(std::panic::take_hook());
            if let Err(error) = port.redirect_standard_streams() {
                eprintln!("vnetbench-agent: {error}");
                std::process::exit(1);
            }
            let _ = serve();
            std::process::exit(1)
        }
        session => wait_for_session(session),
    }
}

/// Whatever else ends meanwhile has lost its parent, and is waited for here only so that it is gone.
fn wait_for_session(session: libc::pid_t) -> Result<()> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((process, status))) if process.as_raw_pid() == session => {
                if status.exit_status() == Some(0) {
                    return Ok(());
                }
                return Err(Error::Internal(match status.terminating_signal() {
                    Some(signal) => format!("the process that serves was ended by signal {signal}"),
                    None => "the process that serves could not go on".into(),
                }));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::system("wait for the process that serves", error)),
        }
    }
}

fn halt_with_error(what: &str) -> ! {
    eprintln!("vnetbench-agent: {}", what.replace('\n', " "));
    power_off()
}

/// Of the whole guest, from any of its processes.
pub fn power_off() -> ! {
    // What was said last must be out before; a console that is none has nothing to be waited for.
    let _ = rustix::termios::tcdrain(rustix::stdio::stderr());
    let _ = reboot(RebootCommand::PowerOff);
    // The kernel panics where PID 1 ends, and there may be no power to switch.
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
