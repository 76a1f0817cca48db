//! The command `iperf3-serve`: serves stock iperf3 clients, several at the same time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::Socket;

use crate::control_connection::ControlConnection;
use crate::interrupt;
use crate::listener::Listener;
use crate::printer::write_stdout;
use crate::server_options::ServerOptions;
use crate::session::{Session, deny_access};
use crate::states::TestError;
use crate::test_registry::TestRegistry;
use crate::wire::Cookie;
use vnetbench_system::signals::handle_signals;
use vnetbench_system::waiting::Waker;

const BANNER_SEPARATOR_LINE: &str = "-----------------------------------------------------------";
/// Pause after a failed poll; its causes (no memory, no descriptors) are usually temporary.
const POLL_RETRY_DELAY: Duration = Duration::from_millis(100);

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerEnd {
    /// A signal ended it, or the client of `one_off` completed its test.
    Succeeded,
    /// The client of `one_off` left without a completed test.
    OneOffFailed,
}

/// Serves clients until a signal ends the server, or with `one_off` until the first client has left.
pub fn serve(options: &ServerOptions) -> Result<ServerEnd, TestError> {
    raise_file_limit();
    let failed = |error| TestError::failed(format!("cannot set up the server: {error}"));
    let mut listener = open_listener(options)?;
    if !options.session.json {
        let address = listener.address();
        write_stdout(&format!(
            "{BANNER_SEPARATOR_LINE}\nServer listening on {} ({})\n{BANNER_SEPARATOR_LINE}\n",
            address.port(),
            address.ip()
        ));
    }
    let server = Server {
        options,
        registry: TestRegistry::default(),
        is_stopping: Arc::default(),
        stop_listener: Arc::clone(&listener.stop),
        interrupt: Arc::new(Waker::new().map_err(failed)?),
        has_completed_test: AtomicBool::new(false),
    };
    server.install_signal_handler().map_err(failed)?;
    std::thread::scope(|scope| {
        let mut number = 0_u64;
        while !server.is_stopping.load(Ordering::Acquire) {
            let new_tests = listener
                .wait_for_new_tests(&server.registry)
                .unwrap_or_else(|error| {
                    eprintln!("vnetbench iperf3: cannot wait for clients: {error}. Trying again");
                    std::thread::sleep(POLL_RETRY_DELAY);
                    Vec::new()
                });
            for (socket, cookie) in new_tests {
                number += 1;
                let server = &server;
                let serve = move || server.serve_client(number, socket, cookie);
                let thread = std::thread::Builder::new().name(format!("client {number}"));
                if let Err(error) = thread.spawn_scoped(scope, serve) {
                    eprintln!(
                        "vnetbench iperf3: cannot start a thread for client {number}: {error}"
                    );
                }
            }
        }
    });
    if server.interrupt.is_woken() {
        eprintln!("vnetbench iperf3: {}", TestError::Interrupted);
        return Ok(ServerEnd::Succeeded);
    }
    Ok(if server.has_completed_test.into_inner() {
        ServerEnd::Succeeded
    } else {
        ServerEnd::OneOffFailed
    })
}

fn open_listener(options: &ServerOptions) -> Result<Listener, TestError> {
    let address = SocketAddr::new(options.bind, options.port);
    Listener::bind(address, options.session.idle_timeout).map_err(|error| {
        let fix = match error.raw_os_error() {
            Some(libc::EADDRINUSE) => {
                ". Another server uses this port. Choose another port with -p"
            }
            Some(libc::EADDRNOTAVAIL) => ". This machine does not have this address",
            Some(libc::EACCES) => ". Ports below 1024 need CAP_NET_BIND_SERVICE",
            _ => "",
        };
        TestError::failed(format!("cannot listen on {address}: {error}{fix}"))
    })
}

/// Raises the limit of open files: each stream needs a descriptor, and the usual limit of 1,024 equals
/// `MAX_STREAMS_OF_ALL_TESTS`.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the server refuses the streams beyond the limit.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

/// State shared by the threads of all clients.
struct Server<'a> {
    options: &'a ServerOptions,
    registry: TestRegistry,
    /// Whether the server accepts no more clients.
    is_stopping: Arc<AtomicBool>,
    /// Wakes the listener, which then checks `is_stopping`.
    stop_listener: Arc<Waker>,
    interrupt: Arc<Waker>,
    /// Whether the client of `one_off` completed its test.
    has_completed_test: AtomicBool,
}

impl Server<'_> {
    /// Installs the signal handler: the first signal ends all tests and the server, the second exits at once.
    fn install_signal_handler(&self) -> io::Result<()> {
        let (is_stopping, stop_listener, interrupt) = (
            Arc::clone(&self.is_stopping),
            Arc::clone(&self.stop_listener),
            Arc::clone(&self.interrupt),
        );
        handle_signals(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP], move || {
            if is_stopping.swap(true, Ordering::AcqRel) {
                interrupt::exit_interrupted();
            }
            interrupt.wake();
            stop_listener.wake();
        })
    }

    fn serve_client(&self, number: u64, socket: Socket, cookie: Cookie) {
        let is_completed = self.run_session(&format!("#{number} "), socket, cookie);
        if self.options.one_off {
            self.has_completed_test
                .store(is_completed, Ordering::Release);
            self.is_stopping.store(true, Ordering::Release);
            self.stop_listener.wake();
        }
    }

    /// Serves one client; returns whether it completed its test.
    fn run_session(&self, output_prefix: &str, socket: Socket, cookie: Cookie) -> bool {
        let Ok(control) = ControlConnection::new(socket, Arc::clone(&self.interrupt)) else {
            // The client has already closed the connection.
            return false;
        };
        let options = self.options.session.clone();
        match self.registry.register(cookie, control.peer.ip()) {
            Some(registration) => {
                Session::new(control, cookie, registration, options, output_prefix).serve()
            }
            None => {
                let has_sent_refusal = deny_access(&control).is_ok();
                eprintln!(
                    "vnetbench iperf3: refused {}: the server is busy{}",
                    control.peer,
                    if has_sent_refusal {
                        ""
                    } else {
                        " (the client has already left)"
                    }
                );
                false
            }
        }
    }
}
