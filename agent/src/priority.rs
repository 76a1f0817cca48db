//! Threads that run as soon as they are due, whatever load there is.

/// Of two that are due, the later named runs.
#[derive(Clone, Copy)]
pub enum Rank {
    /// Makes frames all the time: its CPU is its own, but for a small share that the kernel keeps for others.
    Generator = 1,
    /// Takes in what comes to a port, whose ring is short; sleeps otherwise.
    Port,
    /// Sleeps nearly all the time, and a sample that comes late is of another interval.
    Sampler,
}

/// Has this thread run before all that have no rank. False where that is not permitted (CAP_SYS_NICE).
pub fn run_before_others(rank: Rank) -> bool {
    let asked = libc::sched_param {
        sched_priority: rank as libc::c_int,
    };
    // Generators on one CPU take turns (SCHED_RR): the first to run would else keep it to its end.
    // SAFETY: `asked` is a valid `sched_param` through the call; 0 means this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &asked) == 0 }
}
