//! All tests of one server: which of them wait for streams, and how many there may be.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::wire::Cookie;

/// Tests at the same time; a client beyond them is told that the server is busy.
pub const MAX_TESTS: usize = 64;
/// Streams of all tests together: a thread and up to 1 MiB each.
pub const MAX_STREAMS: usize = 1_024;

#[derive(Default)]
pub struct House {
    inside: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Default)]
struct Inside {
    tests: usize,
    streams: usize,
    gathering: HashMap<Cookie, Gathering>,
    /// UDP streams carry no cookie: an address gathers them for one test at a time.
    udp: HashMap<IpAddr, Sender<Socket>>,
}

struct Gathering {
    since: Instant,
    to: Option<Sender<Socket>>,
}

pub enum Visit {
    Taken,
    Begins(Socket),
}

impl House {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more test; `None` where all are taken, or the cookie is another's.
    pub fn enter(&self, cookie: Cookie) -> Option<Place<'_>> {
        let mut inside = self.inside();
        if inside.tests >= MAX_TESTS || inside.gathering.contains_key(&cookie) {
            return None;
        }
        inside.tests += 1;
        inside.gathering.insert(
            cookie,
            Gathering {
                since: Instant::now(),
                to: None,
            },
        );
        Some(Place {
            house: self,
            cookie,
            streams: 0,
            udp: None,
        })
    }

    /// Since when the test of this cookie takes streams; `None` where it takes none.
    pub fn gathers_since(&self, cookie: &Cookie) -> Option<Instant> {
        let inside = self.inside();
        let gathering = inside.gathering.get(cookie)?;
        gathering.to.as_ref().map(|_| gathering.since)
    }

    /// Hands a connection to the test that its cookie names. One of a test that takes no stream now is closed.
    pub fn stream(&self, cookie: &Cookie, socket: Socket) -> Visit {
        match self.inside().gathering.get(cookie) {
            None => return Visit::Begins(socket),
            Some(Gathering { to: Some(to), .. }) => {
                // Fails where the test has just ended, and then the connection goes with it.
                let _ = to.send(socket);
            }
            Some(Gathering { to: None, .. }) => {}
        }
        Visit::Taken
    }

    /// Where the UDP streams of an address go now.
    pub fn udp_place(&self, from: IpAddr) -> Option<Sender<Socket>> {
        self.inside().udp.get(&from).cloned()
    }
}

/// One test's place; dropping it gives it back.
pub struct Place<'a> {
    house: &'a House,
    cookie: Cookie,
    streams: usize,
    udp: Option<IpAddr>,
}

impl Place<'_> {
    /// Takes room for so many streams; false where there is none.
    pub fn take_streams(&mut self, count: usize) -> bool {
        let mut inside = self.house.inside();
        if inside.streams + count > MAX_STREAMS {
            return false;
        }
        inside.streams += count;
        self.streams += count;
        true
    }

    pub fn gather_tcp(&self, to: Sender<Socket>) {
        if let Some(gathering) = self.house.inside().gathering.get_mut(&self.cookie) {
            *gathering = Gathering {
                since: Instant::now(),
                to: Some(to),
            };
        }
    }

    /// Waits until no other test gathers from this address; false where that took too long.
    pub fn gather_udp(&mut self, from: IpAddr, to: Sender<Socket>, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut inside = self.house.inside();
        while inside.udp.contains_key(&from) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            inside = self
                .house
                .changed
                .wait_timeout(inside, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        inside.udp.insert(from, to);
        self.udp = Some(from);
        true
    }

    /// All streams are there.
    pub fn gathered(&mut self) {
        let mut inside = self.house.inside();
        if let Some(gathering) = inside.gathering.get_mut(&self.cookie) {
            gathering.to = None;
        }
        if let Some(from) = self.udp.take() {
            inside.udp.remove(&from);
            self.house.changed.notify_all();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.gathered();
        let mut inside = self.house.inside();
        inside.tests -= 1;
        inside.streams -= self.streams;
        inside.gathering.remove(&self.cookie);
    }
}
