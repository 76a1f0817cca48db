//! Drives several streams on one thread: epoll says which of them can move.

use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::tcp_driver::{Running, Step, Way};
use vnetbench_streams::Orders;

/// Calls that one stream may make before the next one gets its turn.
const CALLS_A_TURN: usize = 8;

/// Returns when all streams have ended.
pub(crate) fn run_many(streams: Vec<Running>, orders: &Orders) {
    let Ok(epoll) = epoll::create(CreateFlags::CLOEXEC) else {
        // Dropping the streams reports each of them as broken.
        return;
    };
    let mut streams: Vec<Option<Running>> = streams.into_iter().map(Some).collect();
    for (index, slot) in streams.iter_mut().enumerate() {
        let data = EventData::new_u64(index as u64);
        *slot = slot.take().filter(|running| {
            epoll::add(&epoll, &running.stream.socket, data, interest(running)).is_ok()
        });
    }
    let mut events = Vec::with_capacity(streams.len().max(1));
    while streams.iter().any(Option::is_some) {
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        for event in &events {
            let data = event.data;
            let slot = &mut streams[data.u64() as usize];
            if let Some(running) = slot
                && take_turn(&epoll, data, running, orders) == Step::Ended
            {
                // Taken out of epoll here: the socket itself lives on until the trial's last reading.
                let _ = epoll::delete(&epoll, &running.stream.socket);
                *slot = None;
            }
        }
    }
}

fn take_turn(epoll: &OwnedFd, data: EventData, running: &mut Running, orders: &Orders) -> Step {
    let before = interest(running);
    let mut step = Step::Moved;
    for _ in 0..CALLS_A_TURN {
        step = running.step(orders);
        if step != Step::Moved {
            break;
        }
    }
    let now = interest(running);
    if now != before && epoll::modify(epoll, &running.stream.socket, data, now).is_err() {
        return Step::Ended;
    }
    step
}

fn interest(running: &Running) -> EventFlags {
    match running.way {
        Way::Sending {
            has_stopped: false, ..
        } => EventFlags::OUT,
        Way::Sending { .. } | Way::Receiving(_) => EventFlags::IN,
    }
}
