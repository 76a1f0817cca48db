//! The virtio port between the host and the agent (drivers/char/virtio_console.c).

use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use vnetbench_system::error::{RequestError, Result};

const AGENT_PORT_NAME: &str = "vnetbench.agent";
const VIRTIO_PORTS_FOLDER: &str = "/sys/class/virtio-ports";
/// How long to wait for the port: the host announces its ports only after the driver is loaded.
const PORT_TIMEOUT: Duration = Duration::from_secs(30);
/// The time between two checks for a host. Polling is necessary: poll(2) returns at once on a port without a host.
const PORT_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The open virtio port. It stays open, because the driver discards unread data of the host on the last close.
pub struct HostPort(File);

impl HostPort {
    /// Waits for the port and opens it.
    pub fn wait_and_open() -> Result<Self> {
        let deadline = Instant::now() + PORT_TIMEOUT;
        loop {
            if let Some(path) = find_device_path() {
                let opened = OpenOptions::new().read(true).write(true).open(&path);
                return opened.map(Self).map_err(|error| {
                    RequestError::system(format!("open {}", path.display()), error)
                });
            }
            if Instant::now() > deadline {
                return Err(RequestError::TimedOut {
                    operation: format!("waiting for the virtio port named {AGENT_PORT_NAME}"),
                    after_s: PORT_TIMEOUT.as_secs_f64(),
                    kind: None,
                });
            }
            std::thread::sleep(PORT_POLL_INTERVAL);
        }
    }

    /// Waits until a host opens its end of the port.
    pub fn wait_for_host(&self) {
        while !self.has_host() {
            std::thread::sleep(PORT_POLL_INTERVAL);
        }
    }

    fn has_host(&self) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::OUT)];
        let no_wait = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut polled, Some(&no_wait)).is_ok() && !polled[0].revents().contains(PollFlags::HUP)
    }

    /// Makes the port the standard input and output of this process.
    pub fn redirect_stdin_and_stdout(&self) -> Result<()> {
        rustix::stdio::dup2_stdin(&self.0)
            .and_then(|()| rustix::stdio::dup2_stdout(&self.0))
            .map_err(|error| {
                RequestError::system(
                    format!("redirect standard input and output to the port {AGENT_PORT_NAME}"),
                    error,
                )
            })
    }
}

fn find_device_path() -> Option<PathBuf> {
    let ports = std::fs::read_dir(VIRTIO_PORTS_FOLDER).ok()?;
    let is_ours = |folder: &PathBuf| {
        let name: io::Result<String> = std::fs::read_to_string(folder.join("name"));
        name.is_ok_and(|name| name.trim() == AGENT_PORT_NAME)
    };
    let folder = ports.flatten().map(|entry| entry.path()).find(is_ours)?;
    Some(PathBuf::from("/dev").join(folder.file_name()?))
}
