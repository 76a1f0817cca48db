//! Runs a function in a network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs a function on a thread of its own in the network namespace of this file; `None` is the agent's own namespace.
/// Files and sockets that the function opens keep referring to that namespace.
///
/// # Errors
///
/// Fails if the namespace cannot be entered, and with the function's own error.
pub fn run_in_namespace<T: Send>(
    namespace_path: Option<&str>,
    function: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if let Some(path) = namespace_path {
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(File::open(path)?.as_fd(), network)?;
            }
            function()
        });
        thread
            .join()
            .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })
}
