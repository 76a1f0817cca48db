//! The first process (PID 1) of a guest: sets up the system, then serves one host after another over a virtio port.
//!
//! On an error it prints one line on the console and powers off, so that no guest keeps running half configured.

mod addresses;
mod configuration;
mod forwarding;
mod modules;
mod mounts;
mod neighbours;
mod port;
mod team;

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, WaitOptions, setrlimit};
use rustix::system::{RebootCommand, reboot};

pub use self::configuration::configure;
use self::port::HostPort;
pub use self::team::{create_team, read_team_state};
use vnetbench_interfaces::interface::Interface;
use vnetbench_system::error::{RequestError, Result};

/// The file system types of an initramfs: RAMFS_MAGIC and TMPFS_MAGIC (include/uapi/linux/magic.h).
const MEMORY_FILE_SYSTEM_MAGICS: [u64; 2] = [0x8584_58f6, 0x0102_1994];
/// The kernel's maximum for a process (fs.nr_open). The default limit of PID 1 is 4096.
const MAX_FILE_DESCRIPTORS: u64 = 1 << 20;

/// Returns whether the kernel started this process from an initramfs.
///
/// The first process of a container has PID 1 too, but another root file system.
pub fn is_initramfs_init() -> bool {
    let root = || Some(rustix::fs::statfs("/").ok()?.f_type as u64);
    rustix::process::getpid().is_init()
        && root().is_some_and(|kind| MEMORY_FILE_SYSTEM_MAGICS.contains(&kind))
}

/// Runs the guest; never returns there. `serve` serves one host over standard input and output.
pub fn run_guest(serve: fn() -> ExitCode) -> ExitCode {
    if !is_initramfs_init() {
        eprintln!(
            "vnetbench-agent: init runs only as the first process (PID 1) of a guest's initramfs"
        );
        return ExitCode::from(2);
    }
    std::panic::set_hook(Box::new(|fault| halt_with_error(&fault.to_string())));
    let Err(error) = set_up_and_serve_hosts(serve);
    halt_with_error(&error.to_string())
}

fn set_up_and_serve_hosts(serve: fn() -> ExitCode) -> Result<Infallible> {
    mounts::mount_all_file_systems()?;
    mounts::set_kernel_parameters()?;
    modules::load_all_modules()?;
    Interface::open("lo")
        .and_then(|lo| lo.set_is_up(true))
        .map_err(|error| RequestError::system("bring lo up", error))?;
    let limit = Rlimit {
        current: Some(MAX_FILE_DESCRIPTORS),
        maximum: Some(MAX_FILE_DESCRIPTORS),
    };
    setrlimit(Resource::Nofile, limit)
        .map_err(|error| RequestError::system("raise the limit of open files", error))?;
    let port = HostPort::wait_and_open()?;
    loop {
        port.wait_for_host();
        serve_host_in_child_process(&port, serve)?;
    }
}

/// Serves one host in a process of its own. It ends when the host disconnects, so that no state remains for the next host.
fn serve_host_in_child_process(port: &HostPort, serve: fn() -> ExitCode) -> Result<()> {
    // SAFETY: this process has only one thread, so that the child holds no locks of other threads.
    match unsafe { libc::fork() } {
        -1 => Err(RequestError::system(
            "start a process",
            std::io::Error::last_os_error(),
        )),
        0 => {
            // In this process a panic ends one request, not the guest.
            drop(std::panic::take_hook());
            if let Err(error) = port.redirect_stdin_and_stdout() {
                eprintln!("vnetbench-agent: {error}");
                std::process::exit(1);
            }
            let _ = serve();
            std::process::exit(1)
        }
        child => wait_for_serving_process(child),
    }
}

/// Waits for the process that serves a host. Also reaps orphans, as PID 1 must.
fn wait_for_serving_process(serving_process: libc::pid_t) -> Result<()> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((process, status))) if process.as_raw_pid() == serving_process => {
                if status.exit_status() == Some(0) {
                    return Ok(());
                }
                return Err(RequestError::Internal(match status.terminating_signal() {
                    Some(signal) => {
                        format!("signal {signal} ended the process that serves the host")
                    }
                    None => "the process that serves the host failed".into(),
                }));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(RequestError::system(
                    "wait for the process that serves the host",
                    error,
                ));
            }
        }
    }
}

fn halt_with_error(message: &str) -> ! {
    eprintln!("vnetbench-agent: {}", message.replace('\n', " "));
    power_off()
}

/// Powers off the guest, from any of its processes.
pub fn power_off() -> ! {
    // Waits until the console has printed everything. Fails harmlessly if standard error is not a terminal.
    let _ = rustix::termios::tcdrain(rustix::stdio::stderr());
    let _ = reboot(RebootCommand::PowerOff);
    // The machine may lack power control, and the kernel panics if PID 1 ends.
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
