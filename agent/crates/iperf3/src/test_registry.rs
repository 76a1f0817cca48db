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
pub struct TestRegistry {
    state: Mutex<RegistryState>,
    udp_released: Condvar,
}

#[derive(Default)]
struct RegistryState {
    test_count: usize,
    stream_count: usize,
    tests: HashMap<Cookie, TestEntry>,
    /// UDP streams carry no cookie: an address gathers them for one test at a time.
    udp_collectors: HashMap<IpAddr, Sender<Socket>>,
}

struct TestEntry {
    collecting_since: Instant,
    stream_sender: Option<Sender<Socket>>,
}

pub enum Delivery {
    Delivered,
    NewTest(Socket),
}

impl TestRegistry {
    fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more test; `None` where all are taken, or the cookie is another's.
    pub fn register(&self, cookie: Cookie) -> Option<Registration<'_>> {
        let mut state = self.state();
        if state.test_count >= MAX_TESTS || state.tests.contains_key(&cookie) {
            return None;
        }
        state.test_count += 1;
        state.tests.insert(
            cookie,
            TestEntry {
                collecting_since: Instant::now(),
                stream_sender: None,
            },
        );
        Some(Registration {
            registry: self,
            cookie,
            stream_count: 0,
            udp_address: None,
        })
    }

    /// Since when the test of this cookie takes streams; `None` where it takes none.
    pub fn collecting_since(&self, cookie: &Cookie) -> Option<Instant> {
        let state = self.state();
        let test = state.tests.get(cookie)?;
        test.stream_sender.as_ref().map(|_| test.collecting_since)
    }

    /// Hands a connection to the test that its cookie names. One of a test that takes no stream now is closed.
    pub fn deliver(&self, cookie: &Cookie, socket: Socket) -> Delivery {
        match self.state().tests.get(cookie) {
            None => return Delivery::NewTest(socket),
            Some(TestEntry {
                stream_sender: Some(to),
                ..
            }) => {
                // Fails where the test has just ended, and then the connection goes with it.
                let _ = to.send(socket);
            }
            Some(TestEntry {
                stream_sender: None,
                ..
            }) => {}
        }
        Delivery::Delivered
    }

    /// Where the UDP streams of an address go now.
    pub fn udp_collector(&self, from: IpAddr) -> Option<Sender<Socket>> {
        self.state().udp_collectors.get(&from).cloned()
    }
}

/// One test's place; dropping it gives it back.
pub struct Registration<'a> {
    registry: &'a TestRegistry,
    cookie: Cookie,
    stream_count: usize,
    udp_address: Option<IpAddr>,
}

impl Registration<'_> {
    /// Takes room for so many streams; false where there is none.
    pub fn reserve_streams(&mut self, count: usize) -> bool {
        let mut state = self.registry.state();
        if state.stream_count + count > MAX_STREAMS {
            return false;
        }
        state.stream_count += count;
        self.stream_count += count;
        true
    }

    pub fn collect_tcp_streams(&self, to: Sender<Socket>) {
        if let Some(test) = self.registry.state().tests.get_mut(&self.cookie) {
            *test = TestEntry {
                collecting_since: Instant::now(),
                stream_sender: Some(to),
            };
        }
    }

    /// Waits until no other test gathers from this address; false where that took too long.
    pub fn collect_udp_streams(
        &mut self,
        from: IpAddr,
        to: Sender<Socket>,
        timeout: Duration,
    ) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.registry.state();
        while state.udp_collectors.contains_key(&from) {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return false;
            }
            state = self
                .registry
                .udp_released
                .wait_timeout(state, remaining)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        state.udp_collectors.insert(from, to);
        self.udp_address = Some(from);
        true
    }

    /// All streams are there.
    pub fn end_collection(&mut self) {
        let mut state = self.registry.state();
        if let Some(test) = state.tests.get_mut(&self.cookie) {
            test.stream_sender = None;
        }
        if let Some(from) = self.udp_address.take() {
            state.udp_collectors.remove(&from);
            self.registry.udp_released.notify_all();
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.end_collection();
        let mut state = self.registry.state();
        state.test_count -= 1;
        state.stream_count -= self.stream_count;
        state.tests.remove(&self.cookie);
    }
}
