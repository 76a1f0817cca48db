//! Ctrl-C: at the client the first ends the load, and the test is concluded as always; at a server it ends every test and
//! tells its client. The second leaves at once.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::streams::SharedLoad;
use vnetbench_system::signals::on_signals;

/// The load that the next Ctrl-C ends.
static LOAD: Mutex<Option<Arc<SharedLoad>>> = Mutex::new(None);
const EXIT_INTERRUPTED: i32 = 130;

/// From here on Ctrl-C ends the load that `ends` names. To be called before any other thread is started.
pub fn install_handler() -> io::Result<()> {
    on_signals(&[libc::SIGINT], || match lock_load().take() {
        Some(shared) => shared.waker.wake(),
        None => exit_interrupted(),
    })
}

/// At once, as a shell tells it of an interrupted program.
pub fn exit_interrupted() -> ! {
    std::process::exit(EXIT_INTERRUPTED)
}

pub fn set_load(shared: &Arc<SharedLoad>) {
    *lock_load() = Some(Arc::clone(shared));
}

fn lock_load() -> std::sync::MutexGuard<'static, Option<Arc<SharedLoad>>> {
    LOAD.lock().unwrap_or_else(PoisonError::into_inner)
}
