//! Calls a function when a signal arrives, so that a program can end properly.

use std::io;

/// Blocks signals and calls `handle` for each one, on a separate thread.
///
/// Call this before any other thread starts, because threads inherit the signal mask.
///
/// # Errors
///
/// Fails if the signals cannot be blocked or the thread cannot start.
pub fn handle_signals(numbers: &[i32], handle: impl Fn() + Send + 'static) -> io::Result<()> {
    // SAFETY: an all-zero `sigset_t` is valid, and `sigemptyset` empties it.
    let mut signals: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `signals` is valid for writes of its type.
    unsafe { libc::sigemptyset(&mut signals) };
    for number in numbers {
        // SAFETY: `signals` is an initialized set, valid for writes.
        unsafe { libc::sigaddset(&mut signals, *number) };
    }
    // SAFETY: `signals` is valid for reads; a null pointer means that the old mask is not returned.
    let status = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut()) };
    if status != 0 {
        return Err(io::Error::from_raw_os_error(status));
    }
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            loop {
                let mut signal = 0;
                // SAFETY: both pointers are valid during the call, and every thread blocks the signals.
                if unsafe { libc::sigwait(&signals, &mut signal) } == 0 {
                    handle();
                }
            }
        })?;
    Ok(())
}
