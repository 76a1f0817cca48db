//! Real-time priority for threads that must run as soon as they are due.

use std::time::{Duration, Instant};

/// In each round of turns, the last one is without real-time priority.
const TURNS_PER_ROUND: u32 = 10;
const REAL_TIME_TURN_DURATION: Duration = Duration::from_millis(20);
/// Turn length of generators that share a CPU.
pub const SHARED_CPU_TURN_DURATION: Duration = Duration::from_millis(1);
const HIGHEST_PRIORITY_NICE: libc::c_int = -20;

/// Real-time priority of a thread, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RealTimeRank {
    /// A generator of frames, which never sleeps.
    Generator = 1,
    /// A thread that empties the short ring of a port, and sleeps otherwise.
    Port,
    /// The sampler, which sleeps nearly all the time. A late sample would cover another interval.
    Sampler,
}

/// Gives the calling thread real-time priority. Returns false if that is not permitted (CAP_SYS_NICE).
pub fn set_realtime_priority(rank: RealTimeRank) -> bool {
    let request = libc::sched_param {
        sched_priority: rank as libc::c_int,
    };
    // SCHED_RR, because with SCHED_FIFO the first generator would keep a shared CPU.
    // SAFETY: `request` is a valid `sched_param` during the call; 0 means the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &request) == 0 }
}

/// Gives a thread that never sleeps real-time priority in nine turns of ten.
///
/// The kernel limits real-time threads to a share of each second, 95 % by default (sched_rt_runtime_us). It suspends a thread
/// that exceeds the share for the rest of the second, even if the CPU is idle: for 50 ms no frame would leave. The turn
/// without priority avoids that, and lets other threads bound to this CPU run.
///
/// A thread that shares its CPU with another generator gets no real-time priority: each would run for 100 ms
/// (sched_rr_timeslice_ms) while the other waits.
pub struct PriorityTurns {
    turn_started: Instant,
    number: u32,
    mode: TurnMode,
}

#[derive(Debug, PartialEq)]
enum TurnMode {
    RealTime(RealTimeRank),
    SharedCpu,
    RealTimeNotPermitted,
}

impl PriorityTurns {
    /// Begins the first turn of the calling thread, with real-time priority.
    pub fn new(rank: RealTimeRank, shares_cpu_with_other_generator: bool) -> Self {
        // SAFETY: this call has no pointers; 0 means the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, HIGHEST_PRIORITY_NICE) };
        let mode = if shares_cpu_with_other_generator {
            TurnMode::SharedCpu
        } else if set_realtime_priority(rank) {
            TurnMode::RealTime(rank)
        } else {
            TurnMode::RealTimeNotPermitted
        };
        Self {
            turn_started: Instant::now(),
            number: 0,
            mode,
        }
    }

    /// Begins the next turn if it is due. Call this many times per turn.
    pub fn advance(&mut self, now: Instant) {
        let length = match self.mode {
            TurnMode::RealTime(_) => REAL_TIME_TURN_DURATION,
            TurnMode::SharedCpu => SHARED_CPU_TURN_DURATION,
            TurnMode::RealTimeNotPermitted => return,
        };
        if now.saturating_duration_since(self.turn_started) < length {
            return;
        }
        self.turn_started = now;
        self.number = (self.number + 1) % TURNS_PER_ROUND;
        match (&self.mode, self.number) {
            (TurnMode::RealTime(rank), 0) => {
                set_realtime_priority(*rank);
            }
            (TurnMode::RealTime(_), last) if last == TURNS_PER_ROUND - 1 => {
                run_at_normal_priority()
            }
            (TurnMode::SharedCpu, _) => std::thread::yield_now(),
            _ => {}
        }
    }
}

fn run_at_normal_priority() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is a valid `sched_param` during the call; 0 means the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &parameters) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: this call has no pointers; 0 means the calling thread.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn one_turn_of_ten_is_without_real_time_priority() {
        let mut turns = PriorityTurns::new(RealTimeRank::Generator, false);
        if turns.mode == TurnMode::RealTimeNotPermitted {
            assert_eq!(
                policy(),
                libc::SCHED_OTHER,
                "no turn has real-time priority if it is not permitted"
            );
            return;
        }
        let started = turns.turn_started;
        let has_real_time_priority = |turn: u32, turns: &mut PriorityTurns| {
            turns.advance(started + REAL_TIME_TURN_DURATION * turn);
            policy() == libc::SCHED_RR
        };
        let policies: Vec<bool> = (0..20)
            .map(|turn| has_real_time_priority(turn, &mut turns))
            .collect();
        let one_round = [true, true, true, true, true, true, true, true, true, false];
        assert_eq!(policies, [one_round, one_round].concat());
    }

    #[test]
    fn a_thread_that_shares_its_cpu_has_no_real_time_priority() {
        let mut turns = PriorityTurns::new(RealTimeRank::Generator, true);
        let started = turns.turn_started;
        for turn in 0..20 {
            turns.advance(started + SHARED_CPU_TURN_DURATION * turn);
            assert_eq!(policy(), libc::SCHED_OTHER);
        }
    }
}
