//! Registers all tests of a server, limits their number, and delivers streams to them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::wire::Cookie;

/// Maximum number of tests at the same time; further clients get the state `AccessDenied`.
pub const MAX_TESTS: usize = 64;
/// Maximum number of streams of all tests; each takes a thread and up to 1 MiB.
pub const MAX_STREAMS_TOGETHER: usize = 1_024;

/// All tests of a server.
#[derive(Default)]
pub struct TestRegistry {
    state: Mutex<RegistryState>,
    udp_released: Condvar,
}

#[derive(Default)]
struct RegistryState {
    stream_count: usize,
    tests: HashMap<Cookie, TestEntry>,
    /// UDP streams carry no cookie: at any time, one test collects the streams of an address.
    udp_collectors: HashMap<IpAddr, Sender<Socket>>,
}

/// A registered test; it accepts streams while it has a `stream_sender`.
struct TestEntry {
    collecting_since: Instant,
    stream_sender: Option<Sender<Socket>>,
}

/// The result of delivering a connection.
pub enum Delivery {
    /// The connection belonged to a registered test.
    Delivered,
    /// No test has this cookie: the connection starts a new test.
    NewTest(Socket),
}

impl TestRegistry {
    fn lock_state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a test; returns `None` if there are too many or the cookie is in use.
    pub fn register(&self, cookie: Cookie) -> Option<RegistrationGuard<'_>> {
        let mut state = self.lock_state();
        if state.tests.len() >= MAX_TESTS || state.tests.contains_key(&cookie) {
            return None;
        }
        state.tests.insert(
            cookie,
            TestEntry {
                collecting_since: Instant::now(),
                stream_sender: None,
            },
        );
        Some(RegistrationGuard {
            registry: self,
            cookie,
            stream_count: 0,
            udp_address: None,
        })
    }

    /// Returns the time since which the test accepts streams; `None` if it accepts none.
    pub fn collecting_since(&self, cookie: &Cookie) -> Option<Instant> {
        let state = self.lock_state();
        let test = state.tests.get(cookie)?;
        test.stream_sender.as_ref().map(|_| test.collecting_since)
    }

    /// Delivers a connection to the test with this cookie; closes it if the test accepts no streams.
    pub fn deliver(&self, cookie: &Cookie, socket: Socket) -> Delivery {
        match self.lock_state().tests.get(cookie) {
            None => return Delivery::NewTest(socket),
            Some(TestEntry {
                stream_sender: Some(sender),
                ..
            }) => {
                // Fails if the test has just ended; this closes the connection.
                let _ = sender.send(socket);
            }
            Some(TestEntry {
                stream_sender: None,
                ..
            }) => {}
        }
        Delivery::Delivered
    }

    /// Returns the channel that collects the UDP streams of an address.
    pub fn udp_collector(&self, address: IpAddr) -> Option<Sender<Socket>> {
        self.lock_state().udp_collectors.get(&address).cloned()
    }
}

/// One registered test; dropping it removes the test.
pub struct RegistrationGuard<'a> {
    registry: &'a TestRegistry,
    cookie: Cookie,
    stream_count: usize,
    udp_address: Option<IpAddr>,
}

impl RegistrationGuard<'_> {
    /// Reserves streams; returns false if there would be more than `MAX_STREAMS_TOGETHER`.
    pub fn reserve_streams(&mut self, count: usize) -> bool {
        let mut state = self.registry.lock_state();
        if state.stream_count + count > MAX_STREAMS_TOGETHER {
            return false;
        }
        state.stream_count += count;
        self.stream_count += count;
        true
    }

    /// Accepts TCP streams with this test's cookie.
    pub fn collect_tcp_streams(&self, sender: Sender<Socket>) {
        if let Some(test) = self.registry.lock_state().tests.get_mut(&self.cookie) {
            *test = TestEntry {
                collecting_since: Instant::now(),
                stream_sender: Some(sender),
            };
        }
    }

    /// Accepts UDP streams from this address once no other test does; returns false after the timeout.
    pub fn wait_to_collect_udp_streams(
        &mut self,
        address: IpAddr,
        sender: Sender<Socket>,
        timeout: Duration,
    ) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.registry.lock_state();
        while state.udp_collectors.contains_key(&address) {
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
        state.udp_collectors.insert(address, sender);
        self.udp_address = Some(address);
        true
    }

    /// Stops accepting streams.
    pub fn end_collection(&mut self) {
        let mut state = self.registry.lock_state();
        if let Some(test) = state.tests.get_mut(&self.cookie) {
            test.stream_sender = None;
        }
        if let Some(address) = self.udp_address.take() {
            state.udp_collectors.remove(&address);
            self.registry.udp_released.notify_all();
        }
    }
}

impl Drop for RegistrationGuard<'_> {
    fn drop(&mut self) {
        self.end_collection();
        let mut state = self.registry.lock_state();
        state.stream_count -= self.stream_count;
        state.tests.remove(&self.cookie);
    }
}
