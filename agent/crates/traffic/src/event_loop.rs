//! Drives several streams on one thread: epoll says which of them can move.

use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::tcp_driver::{RunningStream, StepOutcome, Transfer};
use vnetbench_streams::Commands;

/// Calls that one stream may make before the next one gets its turn.
const MAX_CALLS_PER_TURN: usize = 8;

/// Returns when all streams have ended.
pub(crate) fn run_many(streams: Vec<RunningStream>, orders: &Commands) {
    let Ok(epoll) = epoll::create(CreateFlags::CLOEXEC) else {
        // Dropping the streams reports each of them as broken.
        return;
    };
    let mut streams: Vec<Option<RunningStream>> = streams.into_iter().map(Some).collect();
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
                && take_turn(&epoll, data, running, orders) == StepOutcome::Ended
            {
                // Taken out of epoll here: the socket itself lives on until the trial's last reading.
                let _ = epoll::delete(&epoll, &running.stream.socket);
                *slot = None;
            }
        }
    }
}

fn take_turn(
    epoll: &OwnedFd,
    data: EventData,
    running: &mut RunningStream,
    orders: &Commands,
) -> StepOutcome {
    let before = interest(running);
    let mut step = StepOutcome::Moved;
    for _ in 0..MAX_CALLS_PER_TURN {
        step = running.step(orders);
        if step != StepOutcome::Moved {
            break;
        }
    }
    let now = interest(running);
    if now != before && epoll::modify(epoll, &running.stream.socket, data, now).is_err() {
        return StepOutcome::Ended;
    }
    step
}

fn interest(running: &RunningStream) -> EventFlags {
    match running.transfer {
        Transfer::Sending {
            has_stopped: false, ..
        } => EventFlags::OUT,
        Transfer::Sending { .. } | Transfer::Receiving(_) => EventFlags::IN,
    }
}
