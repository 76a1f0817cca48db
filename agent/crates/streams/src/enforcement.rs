//! Ends the blocked system calls of streams that a command has ended, by shutting down their sockets.

use std::sync::Arc;

use rustix::net::{Shutdown, shutdown};
use socket2::Socket;

use crate::commands::{Command, Commands};
use crate::role::Role;
use crate::stream::Stream;
use vnetbench_system::socket_option;

impl Commands {
    /// Shuts down the sockets of the streams that the current command ends.
    ///
    /// This can take a while: the kernel lets a running call finish first.
    pub fn enforce_on(&self, streams: &[Arc<Stream>]) {
        for stream in streams.iter().filter(|stream| stream.end.get().is_none()) {
            let how = match (self.current(), stream.role) {
                (Command::EndSources, Role::Source)
                    if !stream.is_connection_closed_by_own_thread() =>
                {
                    Shutdown::Write
                }
                (Command::EndAll, Role::Source) => Shutdown::Both,
                // Keep the sending half open: closing it would signal the source that the sink has read everything.
                (Command::EndAll, Role::Sink) => Shutdown::Read,
                _ => continue,
            };
            if how == Shutdown::Write {
                stop_pacing(&stream.socket);
            }
            // Fails only on a closed connection, which the stream's thread has noticed.
            let _ = shutdown(&stream.socket, how);
        }
    }
}

/// Removes the pacing, so that queued data leaves at once: at a low rate it could outlast the trial.
fn stop_pacing(socket: &Socket) {
    // Fails only if the socket has no pacing.
    let _ = socket_option::set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, u64::MAX);
}
