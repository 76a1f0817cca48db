//! `iperf3-serve`: takes stock iperf3 clients, any number at once, each as if it were alone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::Socket;

use super::control::Control;
use super::door::Door;
use super::house::House;
use super::interrupt;
use super::options::ServeOptions;
use super::printer::print_whole;
use super::session::{Session, deny};
use super::states::Failure;
use super::wire::Cookie;
use crate::signals::on_signals;
use crate::waiting::Bell;

const LINE: &str = "-----------------------------------------------------------";
/// What keeps the door from being attended (no memory, no descriptors) mostly passes.
const TROUBLE_PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is ended by hand, or with `one_off` until the first client has left; then returns whether that was a
/// whole test.
pub fn serve(options: &ServeOptions) -> Result<bool, Failure> {
    allow_many_files();
    let failed = |error| Failure::broken(format!("the server cannot be set up: {error}"));
    let address = SocketAddr::new(options.bind, options.port);
    let mut door = Door::open(address, options.manner.patience).map_err(|error| {
        let fix = match error.raw_os_error() {
            Some(libc::EADDRINUSE) => "; another server has this port: choose one with -p",
            Some(libc::EADDRNOTAVAIL) => "; this machine has no such address",
            Some(libc::EACCES) => "; ports below 1024 need the right to bind them",
            _ => "",
        };
        Failure::broken(format!("cannot listen on {address}: {error}{fix}"))
    })?;
    if !options.manner.json {
        let address = door.address();
        print_whole(&format!(
            "{LINE}\nServer listening on {} ({})\n{LINE}\n",
            address.port(),
            address.ip()
        ));
    }
    let house = House::default();
    let whole = AtomicBool::new(false);
    let closed = Arc::new(AtomicBool::new(false));
    let by_hand = Arc::new(Bell::new().map_err(failed)?);
    let (closed_by_hand, rung, closing) = (
        Arc::clone(&closed),
        Arc::clone(&by_hand),
        Arc::clone(&door.closing),
    );
    on_signals(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP], move || {
        if closed_by_hand.swap(true, Ordering::AcqRel) {
            interrupt::leave();
        }
        rung.ring();
        closing.ring();
    })
    .map_err(failed)?;
    std::thread::scope(|scope| {
        let mut number = 0_u64;
        while !closed.load(Ordering::Acquire) {
            let begun = door.attend(&house).unwrap_or_else(|error| {
                eprintln!("vnetbench iperf3: {error}; going on");
                std::thread::sleep(TROUBLE_PAUSE);
                Vec::new()
            });
            for (socket, cookie) in begun {
                number += 1;
                let (house, closed, whole, closing) =
                    (&house, &closed, &whole, door.closing.clone());
                let by_hand = Arc::clone(&by_hand);
                let manner = options.manner.clone();
                let one_off = options.one_off;
                let work = move || {
                    let name = format!("#{number} ");
                    let done = begin(house, socket, cookie, manner, &name, by_hand);
                    if one_off {
                        whole.store(done, Ordering::Release);
                        closed.store(true, Ordering::Release);
                        closing.ring();
                    }
                };
                let thread = std::thread::Builder::new().name(format!("client {number}"));
                if let Err(error) = thread.spawn_scoped(scope, work) {
                    eprintln!("vnetbench iperf3: client {number} gets no thread: {error}");
                }
            }
        }
    });
    if by_hand.is_rung() {
        eprintln!("vnetbench iperf3: {}", Failure::ByHand);
        return Ok(true);
    }
    Ok(whole.into_inner())
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

fn begin(
    house: &House,
    socket: Socket,
    cookie: Cookie,
    manner: super::running::Manner,
    name: &str,
    by_hand: Arc<Bell>,
) -> bool {
    let Ok(control) = Control::new(socket, by_hand) else {
        // It is gone already.
        return false;
    };
    match house.enter(cookie) {
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
