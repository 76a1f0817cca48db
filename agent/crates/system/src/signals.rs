//! Calls a function when a signal arrives, so that a program can end properly.

use std::io;

use signal_hook::iterator::Signals;

/// Calls `handle` on a separate thread for each of these signals that arrives.
///
/// Several signals of one number that arrive before the thread runs make one call.
///
/// # Errors
///
/// Fails if the handlers cannot be installed or the thread cannot start.
pub fn handle_signals(numbers: &[i32], handle: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(numbers)?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || signals.forever().for_each(|_| handle()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[test]
    fn each_handled_signal_calls_the_function_and_the_process_lives_on() {
        let (sender, receiver) = channel();
        let handle = move || sender.send(()).expect("the test receives");
        handle_signals(&[libc::SIGUSR1, libc::SIGUSR2], handle).expect("the thread starts");
        for signal in [Signal::USR1, Signal::USR2, Signal::USR1] {
            kill_process(getpid(), signal).expect("a process can signal itself");
            assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok(()));
        }
        assert_eq!(
            receiver.recv_timeout(Duration::from_millis(50)),
            Err(RecvTimeoutError::Timeout)
        );
    }
}
