//! How many times one call runs the generator program, and how many runs are one batch.

use std::time::Duration;

/// Program runs of one batch: the kernel's default, fewer than a veth's ring holds.
pub(crate) const PROGRAM_RUNS_PER_UNPACED_BATCH: u32 = 64;
/// Smaller batches of paced frames cost more than they are worth (bench/README.md).
const MIN_PROGRAM_RUNS_PER_PACED_BATCH: u32 = 2;
/// A paced frame waits for the end of its batch, so a batch has no more runs than frames become due in this time.
const MAX_DUE_TIME_PER_BATCH: Duration = Duration::from_micros(4);
/// Duration of one call. After a stop, the remaining runs generate nothing and are much faster.
pub(crate) const TARGET_CALL_DURATION: Duration = Duration::from_millis(20);
/// Program runs of the first call.
pub(crate) const PROGRAM_RUNS_OF_FIRST_CALL: u32 = 1024;
/// Maximum program runs of one call.
pub(crate) const MAX_PROGRAM_RUNS_PER_CALL: u32 = 1 << 20;

/// Returns the program runs of a batch of paced frames that are due at this distance.
pub(crate) fn choose_paced_batch_runs(gap: Duration) -> u32 {
    let frames = MAX_DUE_TIME_PER_BATCH.as_nanos() / gap.as_nanos().max(1);
    (frames as u32).next_power_of_two().clamp(
        MIN_PROGRAM_RUNS_PER_PACED_BATCH,
        PROGRAM_RUNS_PER_UNPACED_BATCH,
    )
}

/// Returns how many runs fill the next call's duration, given the runs and the elapsed time of the last call.
pub(crate) fn choose_next_call_runs(
    last_runs: u32,
    last_elapsed: Duration,
    target: Duration,
) -> u32 {
    let rate = f64::from(last_runs) / last_elapsed.as_secs_f64().max(1e-9);
    let wanted = (rate * target.as_secs_f64()) as u32;
    wanted
        .clamp(1, last_runs.saturating_mul(2))
        .min(MAX_PROGRAM_RUNS_PER_CALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_fills_its_duration_and_at_most_doubles_its_runs() {
        assert_eq!(
            choose_next_call_runs(1000, TARGET_CALL_DURATION * 2, TARGET_CALL_DURATION),
            500
        );
        assert_eq!(
            choose_next_call_runs(1000, TARGET_CALL_DURATION / 10, TARGET_CALL_DURATION),
            2000
        );
        assert_eq!(
            choose_next_call_runs(1, Duration::from_secs(60), TARGET_CALL_DURATION),
            1
        );
        assert_eq!(
            choose_next_call_runs(
                MAX_PROGRAM_RUNS_PER_CALL,
                TARGET_CALL_DURATION / 10,
                TARGET_CALL_DURATION
            ),
            MAX_PROGRAM_RUNS_PER_CALL
        );
    }

    #[test]
    fn a_batch_is_shorter_at_a_lower_rate() {
        let batch =
            |per_s: u64| choose_paced_batch_runs(Duration::from_nanos(1_000_000_000 / per_s));
        assert_eq!([10_000, 1_000_000, 2_000_000].map(batch), [2, 4, 8]);
        assert_eq!(batch(100_000_000), PROGRAM_RUNS_PER_UNPACED_BATCH);
    }
}
