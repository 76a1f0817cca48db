//! Threads that run as soon as they are due, whatever load there is.

use std::time::{Duration, Instant};

/// Of so many turns one is without rank, and so long is each.
const TURNS_PER_ROUND: u32 = 10;
const TURN: Duration = Duration::from_millis(20);
/// Threads of a kind that share a CPU change places so often.
pub const SHARED_TURN: Duration = Duration::from_millis(1);
const HIGHEST_NICE: libc::c_int = -20;

/// Of two that are due, the later named runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rank {
    /// Makes frames all the time.
    Generator = 1,
    /// Takes in what comes to a port, whose ring is short; sleeps otherwise.
    Port,
    /// Sleeps nearly all the time, and a sample that comes late is of another interval.
    Sampler,
}

/// Has this thread run before all that have no rank. False where that is not permitted (CAP_SYS_NICE).
pub fn raise_priority(rank: Rank) -> bool {
    let request = libc::sched_param {
        sched_priority: rank as libc::c_int,
    };
    // Generators on one CPU take turns (SCHED_RR): the first to run would else keep it to its end.
    // SAFETY: `asked` is a valid `sched_param` through the call; 0 means this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &request) == 0 }
}

/// Has a thread that never sleeps run before all that have no rank, but for one turn of ten.
///
/// The kernel leaves real-time threads only so much of each second, 95 % by default (sched_rt_runtime_us), and takes the CPU
/// for all the rest at once from one that wants more, even if nothing else wants to run: for 50 ms no frame would leave. What
/// is bound to this CPU and has no rank gets its turn too.
///
/// One that shares its CPU with another of its kind has no rank at all: of two that have, one would run for 100 ms
/// (sched_rr_timeslice_ms) while the other does not.
pub struct Turns {
    began: Instant,
    number: u32,
    kind: TurnMode,
}

#[derive(Debug, PartialEq)]
enum TurnMode {
    Ranked(Rank),
    Shared,
    Refused,
}

impl Turns {
    /// Begins with a turn that has the rank, of the thread that calls it.
    pub fn new(rank: Rank, shares_cpu: bool) -> Self {
        // SAFETY: a call without pointers; 0 means this thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, HIGHEST_NICE) };
        let kind = if shares_cpu {
            TurnMode::Shared
        } else if raise_priority(rank) {
            TurnMode::Ranked(rank)
        } else {
            TurnMode::Refused
        };
        Self {
            began: Instant::now(),
            number: 0,
            kind,
        }
    }

    /// Has the thread take its next turn, if it is time for that; to be called many times in each.
    pub fn advance(&mut self, now: Instant) {
        let length = match self.kind {
            TurnMode::Ranked(_) => TURN,
            TurnMode::Shared => SHARED_TURN,
            TurnMode::Refused => return,
        };
        if now.saturating_duration_since(self.began) < length {
            return;
        }
        self.began = now;
        self.number = (self.number + 1) % TURNS_PER_ROUND;
        match (&self.kind, self.number) {
            (TurnMode::Ranked(rank), 0) => {
                raise_priority(*rank);
            }
            (TurnMode::Ranked(_), last) if last == TURNS_PER_ROUND - 1 => run_at_normal_priority(),
            (TurnMode::Shared, _) => std::thread::yield_now(),
            _ => {}
        }
    }
}

fn run_at_normal_priority() {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: `none` is a valid `sched_param` through the call; 0 means this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &none) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: a call without pointers; 0 means this thread.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn one_turn_of_ten_is_without_rank() {
        let mut turns = Turns::new(Rank::Generator, false);
        if turns.kind == TurnMode::Refused {
            assert_eq!(
                policy(),
                libc::SCHED_OTHER,
                "and none has one where that is refused"
            );
            return;
        }
        let begin = turns.began;
        let with_rank = |turn: u32, turns: &mut Turns| {
            turns.advance(begin + TURN * turn);
            policy() == libc::SCHED_RR
        };
        let of_two_rounds: Vec<bool> = (0..20).map(|turn| with_rank(turn, &mut turns)).collect();
        let one_round = [true, true, true, true, true, true, true, true, true, false];
        assert_eq!(of_two_rounds, [one_round, one_round].concat());
    }

    #[test]
    fn who_shares_a_cpu_has_no_rank() {
        let mut turns = Turns::new(Rank::Generator, true);
        let began = turns.began;
        for turn in 0..20 {
            turns.advance(began + SHARED_TURN * turn);
            assert_eq!(policy(), libc::SCHED_OTHER);
        }
    }
}
