//! Handles Ctrl-C of the client.
//!
//! The first press ends the load, and the test completes normally. The second press exits at once.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::streams::SharedLoad;
use vnetbench_system::signals::handle_signals;

/// The load that the next Ctrl-C stops.
static LOAD: Mutex<Option<Arc<SharedLoad>>> = Mutex::new(None);
const EXIT_INTERRUPTED: i32 = 130;

/// Installs the handler, which stops the load given to `set_load_that_sigint_stops`.
pub fn install_sigint_handler() -> io::Result<()> {
    handle_signals(&[libc::SIGINT], || match lock_load().take() {
        Some(shared) => shared.waker.wake(),
        None => exit_interrupted(),
    })
}

/// Exits at once with the code that shells use for an interrupted program.
pub fn exit_interrupted() -> ! {
    std::process::exit(EXIT_INTERRUPTED)
}

/// Sets the load that the next Ctrl-C stops.
pub fn set_load_that_sigint_stops(shared: &Arc<SharedLoad>) {
    *lock_load() = Some(Arc::clone(shared));
}

fn lock_load() -> std::sync::MutexGuard<'static, Option<Arc<SharedLoad>>> {
    LOAD.lock().unwrap_or_else(PoisonError::into_inner)
}
