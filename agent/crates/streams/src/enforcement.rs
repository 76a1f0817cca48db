//! How an order reaches the streams that a system call keeps waiting: their sockets are shut down.

use std::sync::Arc;

use rustix::net::{Shutdown, shutdown};
use socket2::Socket;

use crate::orders::{Command, Commands};
use crate::role::Role;
use crate::stream::Stream;
use vnetbench_system::socket_option;

impl Commands {
    /// Shuts down what the order in force has ended. Takes its time: the kernel lets a call that is at work finish first.
    pub fn enforce(&self, streams: &[Arc<Stream>]) {
        for stream in streams.iter().filter(|stream| stream.end.get().is_none()) {
            let how = match (self.current(), stream.role) {
                (Command::EndSources, Role::Source) if !stream.closes_itself() => Shutdown::Write,
                (Command::EndAll, Role::Source) => Shutdown::Both,
                // Not its sending half: that would tell the source that everything was read.
                (Command::EndAll, Role::Sink) => Shutdown::Read,
                _ => continue,
            };
            if how == Shutdown::Write {
                stop_pacing(&stream.socket);
            }
            // Fails only on a connection that is gone already, and then its thread knows.
            let _ = shutdown(&stream.socket, how);
        }
    }
}

/// Lets what a paced stream still holds go at once: at its rate that could take far longer than a trial waits.
fn stop_pacing(socket: &Socket) {
    // Fails only where the socket was never paced.
    let _ = socket_option::set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, u64::MAX);
}
