//! Waiting for sockets, up to a moment, with a bell that another thread can ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Rung once it stays so: every wait that takes it along ends at once.
pub struct Waker(OwnedFd);

impl Waker {
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?))
    }

    pub fn wake(&self) {
        // This fails only when it has been rung 2^64 times.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

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

#[derive(Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    Ready,
    Woken,
    TimedOut,
}

/// Waits until one of the sockets is ready (`ready` then says which), the bell is rung or the moment has come.
pub fn wait(
    sockets: &[(BorrowedFd<'_>, PollFlags)],
    ready: &mut Vec<bool>,
    waker: &Waker,
    until: Option<Instant>,
) -> io::Result<WaitOutcome> {
    let mut polled: Vec<PollFd<'_>> = sockets
        .iter()
        .map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags))
        .collect();
    polled.push(PollFd::new(waker, PollFlags::IN));
    loop {
        let left = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
        match poll(&mut polled, left.as_ref()) {
            Ok(0) => return Ok(WaitOutcome::TimedOut),
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let (waker, sockets) = polled.split_last().expect("the bell is there");
    if !waker.revents().is_empty() {
        return Ok(WaitOutcome::Woken);
    }
    ready.clear();
    ready.extend(sockets.iter().map(|socket| !socket.revents().is_empty()));
    Ok(WaitOutcome::Ready)
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_once_rung_ends_every_wait() {
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
