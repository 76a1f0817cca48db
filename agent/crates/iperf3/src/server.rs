//! `iperf3-serve`: takes stock iperf3 clients, any number at once, each as if it were alone.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::Socket;

use crate::control_connection::Control;
use crate::interrupt;
use crate::listener::Door;
use crate::options::ServeOptions;
use crate::printer::print_whole;
use crate::session::{Session, deny};
use crate::states::Failure;
use crate::test_registry::House;
use crate::wire::Cookie;
use vnetbench_system::signals::on_signals;
use vnetbench_system::waiting::Waker;

const LINE: &str = "-----------------------------------------------------------";
/// What keeps the door from being attended (no memory, no descriptors) mostly passes.
const TROUBLE_PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is ended by hand, or with `one_off` until the first client has left; then returns whether that was a
/// whole test.
pub fn serve(options: &ServeOptions) -> Result<bool, Failure> {
    allow_many_files();
    let failed = |error| Failure::broken(format!("the server cannot be set up: {error}"));
    let mut door = open_door(options)?;
    if !options.manner.json {
        let address = door.address();
        print_whole(&format!(
            "{LINE}\nServer listening on {} ({})\n{LINE}\n",
            address.port(),
            address.ip()
        ));
    }
    let server = Server {
        options,
        house: House::default(),
        closed: Arc::default(),
        closing: Arc::clone(&door.closing),
        by_hand: Arc::new(Waker::new().map_err(failed)?),
        whole: AtomicBool::new(false),
    };
    server.end_by_hand().map_err(failed)?;
    std::thread::scope(|scope| {
        let mut number = 0_u64;
        while !server.closed.load(Ordering::Acquire) {
            let begun = door.attend(&server.house).unwrap_or_else(|error| {
                eprintln!("vnetbench iperf3: {error}; going on");
                std::thread::sleep(TROUBLE_PAUSE);
                Vec::new()
            });
            for (socket, cookie) in begun {
                number += 1;
                let server = &server;
                let work = move || server.serve(number, socket, cookie);
                let thread = std::thread::Builder::new().name(format!("client {number}"));
                if let Err(error) = thread.spawn_scoped(scope, work) {
                    eprintln!("vnetbench iperf3: client {number} gets no thread: {error}");
                }
            }
        }
    });
    if server.by_hand.is_woken() {
        eprintln!("vnetbench iperf3: {}", Failure::ByHand);
        return Ok(true);
    }
    Ok(server.whole.into_inner())
}

fn open_door(options: &ServeOptions) -> Result<Door, Failure> {
    let address = SocketAddr::new(options.bind, options.port);
    Door::open(address, options.manner.patience).map_err(|error| {
        let fix = match error.raw_os_error() {
            Some(libc::EADDRINUSE) => "; another server has this port: choose one with -p",
            Some(libc::EADDRNOTAVAIL) => "; this machine has no such address",
            Some(libc::EACCES) => "; ports below 1024 need the right to bind them",
            _ => "",
        };
        Failure::broken(format!("cannot listen on {address}: {error}{fix}"))
    })
}

/// Each stream needs a descriptor, and the usual limit is as low as the number of streams allowed here.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, a stream too many is refused when it comes.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

/// What the threads of all clients share.
struct Server<'a> {
    options: &'a ServeOptions,
    house: House,
    /// No client is to be taken any more.
    closed: Arc<AtomicBool>,
    /// Has the door look whether that is so.
    closing: Arc<Waker>,
    by_hand: Arc<Waker>,
    /// Whether the one client of `one_off` had a whole test.
    whole: AtomicBool,
}

impl Server<'_> {
    /// Has signals end it: the first one properly, a second one where it stands.
    fn end_by_hand(&self) -> io::Result<()> {
        let (closed, closing, by_hand) = (
            Arc::clone(&self.closed),
            Arc::clone(&self.closing),
            Arc::clone(&self.by_hand),
        );
        on_signals(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP], move || {
            if closed.swap(true, Ordering::AcqRel) {
                interrupt::leave();
            }
            by_hand.wake();
            closing.wake();
        })
    }

    fn serve(&self, number: u64, socket: Socket, cookie: Cookie) {
        let had_a_test = self.take(&format!("#{number} "), socket, cookie);
        if self.options.one_off {
            self.whole.store(had_a_test, Ordering::Release);
            self.closed.store(true, Ordering::Release);
            self.closing.wake();
        }
    }

    /// Returns whether it was a whole test.
    fn take(&self, name: &str, socket: Socket, cookie: Cookie) -> bool {
        let Ok(control) = Control::new(socket, Arc::clone(&self.by_hand)) else {
            // It is gone already.
            return false;
        };
        let manner = self.options.manner.clone();
        match self.house.enter(cookie) {
            Some(place) => Session::new(control, cookie, place, manner, name).serve(),
            None => {
                let told = deny(&control).is_ok();
                eprintln!(
                    "vnetbench iperf3: {} was turned away: the server is full{}",
                    control.peer,
                    if told { "" } else { ", and it did not wait" }
                );
                false
            }
        }
    }
}
