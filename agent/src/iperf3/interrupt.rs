//! Ctrl-C at the client: the first ends the load, and the test is concluded as always; the second leaves at once.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::streams::Shared;

/// The load that the next Ctrl-C ends.
static LOAD: Mutex<Option<Arc<Shared>>> = Mutex::new(None);
/// As a shell tells it.
const EXIT_INTERRUPTED: i32 = 130;

/// From here on Ctrl-C is waited for on a thread of its own. To be called before any other thread is started.
pub fn watch() -> io::Result<()> {
    // SAFETY: all-zero is a valid `sigset_t`, and `sigemptyset` makes it the empty set.
    let mut signals: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `signals` is valid for reads and writes of its type; no old mask is asked for.
    let blocked = unsafe {
        libc::sigemptyset(&mut signals);
        libc::sigaddset(&mut signals, libc::SIGINT);
        libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut())
    };
    if blocked != 0 {
        return Err(io::Error::from_raw_os_error(blocked));
    }
    std::thread::Builder::new()
        .name("ctrl-c".into())
        .spawn(move || {
            loop {
                let mut signal = 0;
                // SAFETY: both are valid for the call, and the signals are blocked in every thread.
                if unsafe { libc::sigwait(&signals, &mut signal) } != 0 {
                    continue;
                }
                match load().take() {
                    Some(shared) => shared.bell.ring(),
                    None => std::process::exit(EXIT_INTERRUPTED),
                }
            }
        })?;
    Ok(())
}

pub fn ends(shared: &Arc<Shared>) {
    *load() = Some(Arc::clone(shared));
}

fn load() -> std::sync::MutexGuard<'static, Option<Arc<Shared>>> {
    LOAD.lock().unwrap_or_else(PoisonError::into_inner)
}
