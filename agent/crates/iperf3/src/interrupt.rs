//! Ctrl-C: at the client the first ends the load, and the test is concluded as always; at a server it ends every test and
//! tells its client. The second leaves at once.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::streams::Shared;
use vnetbench_system::signals::on_signals;

/// The load that the next Ctrl-C ends.
static LOAD: Mutex<Option<Arc<Shared>>> = Mutex::new(None);
const EXIT_INTERRUPTED: i32 = 130;

/// From here on Ctrl-C ends the load that `ends` names. To be called before any other thread is started.
pub fn watch() -> io::Result<()> {
    on_signals(&[libc::SIGINT], || match load().take() {
        Some(shared) => shared.bell.wake(),
        None => leave(),
    })
}

/// At once, as a shell tells it of an interrupted program.
pub fn leave() -> ! {
    std::process::exit(EXIT_INTERRUPTED)
}

pub fn ends(shared: &Arc<Shared>) {
    *load() = Some(Arc::clone(shared));
}

fn load() -> std::sync::MutexGuard<'static, Option<Arc<Shared>>> {
    LOAD.lock().unwrap_or_else(PoisonError::into_inner)
}
