//! The virtio port over which the host speaks with the agent (drivers/char/virtio_console.c).

use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use vnetbench_system::error::{Error, Result};

const NAME: &str = "vnetbench.agent";
const PORTS: &str = "/sys/class/virtio-ports";
/// The host tells of its ports only after the driver has been loaded.
const PORT_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks. A port without a host is always ready to say so: there is nothing to sleep on.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Kept open all the time: on its last close the driver throws away what a host has sent already.
pub struct HostPort(File);

impl HostPort {
    pub fn find() -> Result<Self> {
        let until = Instant::now() + PORT_TIMEOUT;
        loop {
            if let Some(path) = device_path() {
                let opened = OpenOptions::new().read(true).write(true).open(&path);
                return opened
                    .map(Self)
                    .map_err(|error| Error::system(format!("open {}", path.display()), error));
            }
            if Instant::now() > until {
                return Err(Error::TimedOut {
                    operation: format!("waiting for the virtio port named {NAME}"),
                    after_s: PORT_TIMEOUT.as_secs_f64(),
                    kind: None,
                });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    pub fn wait_for_host(&self) {
        while !self.has_host() {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn has_host(&self) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::OUT)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut polled, Some(&at_once)).is_ok() && !polled[0].revents().contains(PollFlags::HUP)
    }

    /// Of this process: what it reads from its input and writes to its output goes through the port.
    pub fn redirect_standard_streams(&self) -> Result<()> {
        rustix::stdio::dup2_stdin(&self.0)
            .and_then(|()| rustix::stdio::dup2_stdout(&self.0))
            .map_err(|error| Error::system(format!("speak through the port {NAME}"), error))
    }
}

fn device_path() -> Option<PathBuf> {
    let ports = std::fs::read_dir(PORTS).ok()?;
    let is_ours = |folder: &PathBuf| {
        let name: io::Result<String> = std::fs::read_to_string(folder.join("name"));
        name.is_ok_and(|name| name.trim() == NAME)
    };
    let folder = ports.flatten().map(|entry| entry.path()).find(is_ours)?;
    Some(PathBuf::from("/dev").join(folder.file_name()?))
}
