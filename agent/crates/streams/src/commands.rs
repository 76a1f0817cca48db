//! The commands that all streams of a load part follow, from the wait for the start to the end.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// A command to the streams of a load part; commands follow in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Command {
    /// Wait for the start.
    Wait,
    /// Send and receive.
    Go,
    /// Sources stop sending; sinks read the rest.
    EndSources,
    /// All streams end.
    EndAll,
}

/// The current command of the streams of one load part.
#[derive(Default)]
pub struct Commands {
    current: AtomicU8,
    gate: Mutex<()>,
    changed: Condvar,
    load_end: OnceLock<Instant>,
}

impl Commands {
    /// Returns the current command.
    pub fn current(&self) -> Command {
        match self.current.load(Ordering::Acquire) {
            0 => Command::Wait,
            1 => Command::Go,
            2 => Command::EndSources,
            _ => Command::EndAll,
        }
    }

    /// Sets the time after which `may_send` is false; only the first call has an effect.
    pub fn set_load_end(&self, load_end: Instant) {
        // The error is the time of a second call.
        let _ = self.load_end.set(load_end);
    }

    /// Returns whether a source sends at this time, which is `Instant::now()`.
    ///
    /// A process that was stopped, or has waited for a CPU, sees the end of the load here before it has issued the
    /// command. Frames that it sent then could arrive after the sink has stopped waiting, and would count as lost.
    pub fn may_send(&self, now: Instant) -> bool {
        self.current() == Command::Go && self.load_end.get().is_none_or(|end| now < *end)
    }

    /// Issues a command. A stream sees it after its current system call; `enforce_on` ends blocked calls.
    pub fn issue(&self, command: Command) {
        {
            let _closed = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.current.store(command as u8, Ordering::Release);
        }
        self.changed.notify_all();
    }

    /// Waits for a command other than `Wait`.
    pub fn wait_for_first_command(&self) {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while self.current() == Command::Wait {
            gate = self
                .changed
                .wait(gate)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_source_stops_at_the_end_of_the_load_without_a_command() {
        let (commands, start) = (Commands::default(), Instant::now());
        let load_end = start + Duration::from_secs(1);
        assert!(!commands.may_send(start));
        commands.issue(Command::Go);
        assert!(commands.may_send(load_end));
        commands.set_load_end(load_end);
        assert!(commands.may_send(start));
        assert!(!commands.may_send(load_end));
        commands.issue(Command::EndSources);
        assert!(!commands.may_send(start));
    }
}
