//! Drives several streams on one thread with epoll.

use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::tcp_driver::{RunningStream, StepOutcome};
use crate::transfers::Transfer;
use vnetbench_streams::Commands;

/// Maximum number of calls of one stream before the turn of the next.
const MAX_CALLS_PER_TURN: usize = 8;

/// Drives the streams until all have ended.
pub(crate) fn run_streams(streams: Vec<RunningStream>, commands: &Commands) {
    let Ok(epoll) = epoll::create(CreateFlags::CLOEXEC) else {
        // Dropping the streams reports each of them as failed.
        return;
    };
    let mut streams: Vec<Option<RunningStream>> = streams.into_iter().map(Some).collect();
    for (index, slot) in streams.iter_mut().enumerate() {
        let data = EventData::new_u64(index as u64);
        *slot = slot.take().filter(|running| {
            epoll::add(
                &epoll,
                &running.stream.socket,
                data,
                awaited_events(running),
            )
            .is_ok()
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
                && take_turn(&epoll, data, running, commands) == StepOutcome::Ended
            {
                // Removed from epoll explicitly: the socket stays open until the last reading of the trial.
                let _ = epoll::delete(&epoll, &running.stream.socket);
                *slot = None;
            }
        }
    }
}

/// Advances one stream until it would block, has ended or has used its turn.
fn take_turn(
    epoll: &OwnedFd,
    data: EventData,
    running: &mut RunningStream,
    commands: &Commands,
) -> StepOutcome {
    let before = awaited_events(running);
    let mut outcome = StepOutcome::Progress;
    for _ in 0..MAX_CALLS_PER_TURN {
        outcome = running.advance(commands);
        if outcome != StepOutcome::Progress {
            break;
        }
    }
    let now = awaited_events(running);
    if now != before && epoll::modify(epoll, &running.stream.socket, data, now).is_err() {
        return StepOutcome::Ended;
    }
    outcome
}

/// Returns the events that can advance the stream.
fn awaited_events(running: &RunningStream) -> EventFlags {
    match running.transfer {
        Transfer::Sending {
            has_stopped: false, ..
        } => EventFlags::OUT,
        Transfer::Sending { .. } | Transfer::Receiving(_) => EventFlags::IN,
    }
}
