//! Waits for sockets until a deadline, with a waker for other threads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Wakes waiting threads. Once woken it stays so: every later wait with it ends at once.
pub struct Waker(OwnedFd);

impl Waker {
    /// Creates a waker.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?))
    }

    /// Ends all current and later waits.
    pub fn wake(&self) {
        // This fails only after 2^64 calls.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Returns whether [`Self::wake`] was called.
    pub fn is_woken(&self) -> bool {
        let now = Some(Instant::now());
        matches!(
            wait(&[], &mut Vec::new(), self, now),
            Ok(WaitOutcome::Woken)
        )
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Why a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// A socket is ready.
    Ready,
    /// The waker was woken.
    Woken,
    /// The deadline has passed.
    TimedOut,
}

/// Waits until a socket is ready, the waker is woken or the deadline has passed. `ready` then has which sockets are ready.
pub fn wait(
    sockets: &[(BorrowedFd<'_>, PollFlags)],
    ready: &mut Vec<bool>,
    waker: &Waker,
    deadline: Option<Instant>,
) -> io::Result<WaitOutcome> {
    let mut polled: Vec<PollFd<'_>> = sockets
        .iter()
        .map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags))
        .collect();
    polled.push(PollFd::new(waker, PollFlags::IN));
    loop {
        let timeout = deadline.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec::try_from(left).expect("the time between two instants fits a timespec")
        });
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) => return Ok(WaitOutcome::TimedOut),
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let (waker, sockets) = polled
        .split_last()
        .expect("the waker is the last polled descriptor");
    if !waker.revents().is_empty() {
        return Ok(WaitOutcome::Woken);
    }
    ready.clear();
    ready.extend(sockets.iter().map(|socket| !socket.revents().is_empty()));
    Ok(WaitOutcome::Ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_woken_waker_ends_every_wait() {
        let waker = Waker::new().expect("eventfd");
        let now = Some(Instant::now());
        let mut ready = Vec::new();
        assert_eq!(
            wait(&[], &mut ready, &waker, now).expect("poll"),
            WaitOutcome::TimedOut
        );
        waker.wake();
        assert_eq!(
            wait(&[], &mut ready, &waker, None).expect("poll"),
            WaitOutcome::Woken
        );
        assert_eq!(
            wait(&[], &mut ready, &waker, None).expect("poll"),
            WaitOutcome::Woken
        );
    }
}
