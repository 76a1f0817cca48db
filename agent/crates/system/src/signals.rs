//! Signals that end a program properly, and not where it stands.

use std::io;

/// From here on these signals are waited for on a thread of its own, and `met` is called for each. To be called before any
/// other thread is started.
pub fn on_signals(numbers: &[i32], met: impl Fn() + Send + 'static) -> io::Result<()> {
    // SAFETY: all-zero is a valid `sigset_t`, and `sigemptyset` makes it the empty set.
    let mut signals: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `signals` is valid for writes of its type.
    unsafe { libc::sigemptyset(&mut signals) };
    for number in numbers {
        // SAFETY: as above, and it is a set.
        unsafe { libc::sigaddset(&mut signals, *number) };
    }
    // SAFETY: `signals` is valid for reads of its type; no old mask is asked for.
    let blocked = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut()) };
    if blocked != 0 {
        return Err(io::Error::from_raw_os_error(blocked));
    }
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            loop {
                let mut signal = 0;
                // SAFETY: both are valid for the call, and the signals are blocked in every thread.
                if unsafe { libc::sigwait(&signals, &mut signal) } == 0 {
                    met();
                }
            }
        })?;
    Ok(())
}
