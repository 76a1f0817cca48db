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
/// Maximum number of tests of one client at the same time, so that it leaves places for others.
const MAX_TESTS_PER_CLIENT: usize = 16;
/// Maximum number of streams of all tests; each takes a thread and up to 1 MiB.
pub const MAX_STREAMS_OF_ALL_TESTS: usize = 1_024;
/// Maximum number of streams of one client's tests: those of two tests with the most streams.
pub const MAX_STREAMS_PER_CLIENT: usize = 512;

/// All tests of a server.
#[derive(Default)]
pub struct TestRegistry {
    state: Mutex<RegistryState>,
    udp_released: Condvar,
}

#[derive(Default)]
struct RegistryState {
    tests: HashMap<Cookie, TestEntry>,
    /// UDP streams carry no cookie: at any time, one test collects the streams of an address.
    udp_collectors: HashMap<IpAddr, Sender<Socket>>,
}

/// A registered test; it accepts streams while it has a `stream_sender`.
struct TestEntry {
    client: ClientNetwork,
    stream_count: usize,
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

/// What counts as one client: an IPv4 address, or the /64 network of an IPv6 address, whose hosts choose their own
/// addresses (RFC 4291, section 2.5.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientNetwork(IpAddr);

impl From<IpAddr> for ClientNetwork {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                let prefix = u128::from(address) & (u128::MAX << 64);
                IpAddr::V6(prefix.into())
            }
            address @ IpAddr::V4(_) => address,
        })
    }
}

impl RegistryState {
    fn count_streams(&self, is_counted: impl Fn(&TestEntry) -> bool) -> usize {
        let counted = self.tests.values().filter(|test| is_counted(test));
        counted.map(|test| test.stream_count).sum()
    }
}

impl TestRegistry {
    fn lock_state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a test of the client at this address; returns `None` if there are too many, or if the cookie is in
    /// use.
    pub fn register(&self, cookie: Cookie, address: IpAddr) -> Option<RegistrationGuard<'_>> {
        let client = ClientNetwork::from(address);
        let mut state = self.lock_state();
        let tests_of_client = state.tests.values().filter(|test| test.client == client);
        if state.tests.len() >= MAX_TESTS
            || tests_of_client.count() >= MAX_TESTS_PER_CLIENT
            || state.tests.contains_key(&cookie)
        {
            return None;
        }
        state.tests.insert(
            cookie,
            TestEntry {
                client,
                stream_count: 0,
                collecting_since: Instant::now(),
                stream_sender: None,
            },
        );
        Some(RegistrationGuard {
            registry: self,
            cookie,
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
    udp_address: Option<IpAddr>,
}

impl RegistrationGuard<'_> {
    /// Reserves streams; returns false if there would be more than `MAX_STREAMS_OF_ALL_TESTS`, or more than
    /// `MAX_STREAMS_PER_CLIENT` of this client.
    pub fn reserve_streams(&mut self, count: usize) -> bool {
        let mut state = self.registry.lock_state();
        let client = state.tests[&self.cookie].client;
        if state.count_streams(|_| true) + count > MAX_STREAMS_OF_ALL_TESTS
            || state.count_streams(|test| test.client == client) + count > MAX_STREAMS_PER_CLIENT
        {
            return false;
        }
        if let Some(test) = state.tests.get_mut(&self.cookie) {
            test.stream_count += count;
        }
        true
    }

    /// Accepts TCP streams with this test's cookie.
    pub fn collect_tcp_streams(&self, sender: Sender<Socket>) {
        if let Some(test) = self.registry.lock_state().tests.get_mut(&self.cookie) {
            test.collecting_since = Instant::now();
            test.stream_sender = Some(sender);
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
        self.registry.lock_state().tests.remove(&self.cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_CLIENT: &str = "192.0.2.1";
    const SECOND_CLIENT: &str = "192.0.2.2";

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn cookie(number: usize) -> Cookie {
        let mut cookie = [b'0'; size_of::<Cookie>()];
        cookie[..8].copy_from_slice(&number.to_be_bytes());
        cookie
    }

    /// Registers tests until the server refuses one.
    fn register_all(
        registry: &TestRegistry,
        addresses: impl Iterator<Item = IpAddr>,
        first: usize,
    ) -> Vec<RegistrationGuard<'_>> {
        let numbered = addresses.zip(first..);
        numbered
            .map_while(|(address, number)| registry.register(cookie(number), address))
            .collect()
    }

    #[test]
    fn one_client_leaves_places_for_others() {
        let registry = TestRegistry::default();
        let first = register_all(&registry, std::iter::repeat(address(FIRST_CLIENT)), 0);
        assert_eq!(first.len(), MAX_TESTS_PER_CLIENT);
        assert!(
            registry
                .register(cookie(900), address("::ffff:192.0.2.1"))
                .is_none()
        );
        let second = register_all(&registry, std::iter::repeat(address(SECOND_CLIENT)), 100);
        assert_eq!(second.len(), MAX_TESTS_PER_CLIENT);
        drop(first);
        assert!(
            registry
                .register(cookie(900), address(FIRST_CLIENT))
                .is_some()
        );
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_are_one_client() {
        let registry = TestRegistry::default();
        let hosts = (1_u128..).map(|host| IpAddr::V6((0x2001_0db8_u128 << 96 | host).into()));
        assert_eq!(
            register_all(&registry, hosts, 0).len(),
            MAX_TESTS_PER_CLIENT
        );
        let networks =
            (1_u128..).map(|network| IpAddr::V6((0x2001_0db8_u128 << 96 | network << 64).into()));
        assert_eq!(register_all(&registry, networks, 0).len(), MAX_TESTS);
    }

    #[test]
    fn one_client_leaves_streams_for_others() {
        let registry = TestRegistry::default();
        let mut first = registry
            .register(cookie(1), address(FIRST_CLIENT))
            .expect("a place");
        let mut again = registry
            .register(cookie(2), address(FIRST_CLIENT))
            .expect("a place");
        let mut second = registry
            .register(cookie(3), address(SECOND_CLIENT))
            .expect("a place");
        assert!(first.reserve_streams(MAX_STREAMS_PER_CLIENT));
        assert!(!again.reserve_streams(1));
        assert!(second.reserve_streams(MAX_STREAMS_OF_ALL_TESTS - MAX_STREAMS_PER_CLIENT));
        let mut third = registry
            .register(cookie(4), address("192.0.2.3"))
            .expect("a place");
        assert!(!third.reserve_streams(1));
        drop(first);
        assert!(again.reserve_streams(1));
    }
}
