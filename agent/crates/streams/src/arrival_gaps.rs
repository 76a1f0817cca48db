//! When datagrams arrived: the longest gaps between two arrivals, and the arrivals in each short interval.
//!
//! Times are those of the receiving kernel (SO_TIMESTAMPNS), so a late read by the sink makes no gap. The kernel uses
//! CLOCK_REALTIME; the report converts to CLOCK_MONOTONIC, which other programs of the machine can compare with theirs.
//! The memory is bounded: a fixed number of gaps, and of intervals whose width doubles when they are full.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;

use vnetbench_system::clock::{RealtimeOffset, read_realtime_offset};

/// Number of gaps that a stream reports, the longest ones.
pub const MAX_GAPS: usize = 64;
/// Maximum number of intervals with a count of arrivals.
const MAX_INTERVALS: usize = 8192;
/// Width of an interval at first.
const FIRST_INTERVAL_NANOS: u64 = 1_000_000;
/// Streams of one endpoint that can record arrivals; a report must fit into one message.
pub const MAX_RECORDING_STREAMS: usize = 16;

/// The time between two arrivals in succession.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ArrivalGap {
    /// Length of the gap. The first field, because gaps are ordered by it.
    pub length_ns: u64,
    /// Arrival of the datagram before the gap: CLOCK_MONOTONIC.
    pub started_monotonic_ns: u64,
    /// Sequence number of the datagram before the gap.
    pub number_before: u64,
    /// Sequence number of the datagram after the gap.
    pub number_after: u64,
    /// Time between the sending of these two datagrams, by the source's clock.
    ///
    /// If no number is missing and it equals the length, then the source paused and not the network.
    pub sent_apart_ns: u64,
}

/// The arrivals in consecutive intervals of equal width.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArrivalCounts {
    /// Begin of the first interval, the first arrival: CLOCK_MONOTONIC.
    pub started_monotonic_ns: u64,
    /// Width of an interval.
    pub interval_ns: u64,
    /// Datagrams in each interval, with duplicates.
    pub datagrams: Vec<u32>,
}

/// The arrivals of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArrivalReport {
    /// The longest gaps, longest first.
    pub gaps: Vec<ArrivalGap>,
    /// The arrivals over time.
    pub counts: ArrivalCounts,
    /// The last arrival: CLOCK_MONOTONIC.
    pub last_monotonic_ns: u64,
    /// Sequence number of the last arrival.
    pub last_number: u64,
    /// How far CLOCK_REALTIME was set during the recording; the error of the times.
    pub clock_step_ns: u64,
    /// How exactly the two clocks were compared.
    pub clock_error_ns: u64,
}

/// One arrival, in CLOCK_REALTIME.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Sequence number.
    pub number: u64,
    /// Time of sending, its lowest 48 bits.
    pub sent_nanos: u64,
    /// Time of reception by the kernel.
    pub received_nanos: u64,
}

/// Records the arrivals of one stream.
#[derive(Debug)]
pub struct ArrivalRecorder {
    offset: RealtimeOffset,
    /// The shortest of the kept gaps is on top.
    gaps: BinaryHeap<Reverse<ArrivalGap>>,
    first_nanos: u64,
    interval_nanos: u64,
    counts: Vec<u32>,
    last: Option<Arrival>,
}

impl Default for ArrivalRecorder {
    fn default() -> Self {
        Self::with_offset(read_realtime_offset())
    }
}

impl ArrivalRecorder {
    fn with_offset(offset: RealtimeOffset) -> Self {
        Self {
            offset,
            gaps: BinaryHeap::with_capacity(MAX_GAPS + 1),
            first_nanos: 0,
            interval_nanos: FIRST_INTERVAL_NANOS,
            counts: Vec::new(),
            last: None,
        }
    }

    /// Records `count` datagrams with consecutive numbers that arrived together.
    pub fn record(&mut self, first: Arrival, count: u64) {
        match self.last {
            None => self.first_nanos = first.received_nanos,
            Some(last) => self.keep_gap_if_long(&last, &first),
        }
        self.count_at(first.received_nanos, count);
        self.last = Some(Arrival {
            number: first.number.saturating_add(count - 1),
            ..first
        });
    }

    fn keep_gap_if_long(&mut self, last: &Arrival, next: &Arrival) {
        // Negative only if the clock was set back.
        let length_ns = next.received_nanos.saturating_sub(last.received_nanos);
        let is_full = self.gaps.len() == MAX_GAPS;
        if is_full
            && self
                .gaps
                .peek()
                .is_some_and(|least| length_ns <= least.0.length_ns)
        {
            return;
        }
        if is_full {
            self.gaps.pop();
        }
        self.gaps.push(Reverse(ArrivalGap {
            length_ns,
            started_monotonic_ns: self.offset.to_monotonic(last.received_nanos),
            number_before: last.number,
            number_after: next.number,
            sent_apart_ns: nanos_between_send_times(last.sent_nanos, next.sent_nanos),
        }));
    }

    fn count_at(&mut self, received_nanos: u64, count: u64) {
        let since = received_nanos.saturating_sub(self.first_nanos);
        while since / self.interval_nanos >= MAX_INTERVALS as u64 {
            self.double_intervals();
        }
        let index = (since / self.interval_nanos) as usize;
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        let sum = u64::from(self.counts[index]) + count;
        self.counts[index] = u32::try_from(sum).unwrap_or(u32::MAX);
    }

    fn double_intervals(&mut self) {
        let sum = |pair: &[u32]| {
            pair.iter()
                .fold(0, |sum: u32, each| sum.saturating_add(*each))
        };
        self.counts = self.counts.chunks(2).map(sum).collect();
        self.interval_nanos = self.interval_nanos.saturating_mul(2);
    }

    /// Returns the report; `None` if nothing arrived.
    pub fn into_report(self) -> Option<ArrivalReport> {
        let end = read_realtime_offset();
        self.into_report_at(end)
    }

    fn into_report_at(self, end: RealtimeOffset) -> Option<ArrivalReport> {
        let last = self.last?;
        // An ascending order of `Reverse` is a descending order of lengths.
        let gaps = self.gaps.into_sorted_vec().into_iter();
        Some(ArrivalReport {
            gaps: gaps.map(|Reverse(gap)| gap).collect(),
            counts: ArrivalCounts {
                started_monotonic_ns: self.offset.to_monotonic(self.first_nanos),
                interval_ns: self.interval_nanos,
                datagrams: self.counts,
            },
            last_monotonic_ns: self.offset.to_monotonic(last.received_nanos),
            last_number: last.number,
            clock_step_ns: self.offset.nanos.abs_diff(end.nanos),
            clock_error_ns: self.offset.error_nanos.max(end.error_nanos),
        })
    }
}

/// Returns the time between two times of sending; 0 if the second is earlier.
fn nanos_between_send_times(before: u64, after: u64) -> u64 {
    const UNUSED: u32 = u64::BITS - crate::datagram_header::SENT_TIME_BITS;
    let signed = (after.wrapping_sub(before) << UNUSED) as i64 >> UNUSED;
    u64::try_from(signed).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSET: RealtimeOffset = RealtimeOffset {
        nanos: 1_000_000_000_000,
        error_nanos: 40,
    };
    const SPACING: u64 = 100_000;

    fn arrival(number: u64, late_nanos: u64) -> Arrival {
        let sent_nanos = 2_000_000_000_000 + number * SPACING;
        Arrival {
            number,
            sent_nanos,
            received_nanos: sent_nanos + late_nanos,
        }
    }

    fn report(arrivals: impl IntoIterator<Item = Arrival>) -> ArrivalReport {
        let mut recorder = ArrivalRecorder::with_offset(OFFSET);
        for each in arrivals {
            recorder.record(each, 1);
        }
        let report = recorder.into_report_at(OFFSET);
        report.expect("datagrams arrived")
    }

    #[test]
    fn lost_numbers_and_the_length_of_their_gap_agree() {
        let arrived = (0..1000).filter(|number| !(300..500).contains(number));
        let report = report(arrived.map(|number| arrival(number, 7)));
        let gap = report.gaps[0];
        assert_eq!((gap.number_before, gap.number_after), (299, 500));
        assert_eq!(gap.length_ns, 201 * SPACING);
        assert_eq!(gap.sent_apart_ns, gap.length_ns);
        assert_eq!(gap.started_monotonic_ns, 1_000_000_000_007 + 299 * SPACING);
        assert_eq!(report.last_number, 999);
        assert_eq!(report.clock_step_ns, 0);
    }

    #[test]
    fn a_gap_of_held_datagrams_has_no_missing_number_and_short_sending_times() {
        let held = (50..100).map(|number| arrival(number, (100 - number) * SPACING));
        let gap = report((0..50).map(|number| arrival(number, 0)).chain(held)).gaps[0];
        assert_eq!((gap.number_before, gap.number_after), (49, 50));
        assert_eq!((gap.length_ns, gap.sent_apart_ns), (51 * SPACING, SPACING));
    }

    #[test]
    fn only_the_longest_gaps_are_kept_longest_first() {
        // Gap number n is n nanoseconds longer than the spacing.
        let late = |number: u64| (0..number).sum::<u64>();
        let report = report((0..1000).map(|number| arrival(number, late(number))));
        let lengths: Vec<_> = report.gaps.iter().map(|gap| gap.length_ns).collect();
        let longest = (1000 - 1 - MAX_GAPS as u64..1000 - 1).rev();
        assert_eq!(lengths, longest.map(|n| SPACING + n).collect::<Vec<_>>());
    }

    #[test]
    fn intervals_count_all_arrivals_however_long_they_last() {
        for numbers in [1000, 100_000, 1_000_000] {
            let report = report((0..numbers).map(|number| arrival(number, 0)));
            let counts = report.counts;
            assert!(counts.datagrams.len() <= MAX_INTERVALS);
            let sum: u64 = counts.datagrams.iter().map(|each| u64::from(*each)).sum();
            assert_eq!(sum, numbers);
            let per_interval = counts.interval_ns / SPACING;
            let (_, full) = counts.datagrams.split_last().expect("intervals");
            assert!(full.iter().all(|each| u64::from(*each) == per_interval));
        }
    }

    #[test]
    fn a_clock_that_is_set_makes_no_endless_gap_and_is_reported() {
        let mut recorder = ArrivalRecorder::with_offset(OFFSET);
        recorder.record(arrival(1, 0), 1);
        recorder.record(
            Arrival {
                received_nanos: 5,
                ..arrival(2, 0)
            },
            1,
        );
        let set_back = RealtimeOffset {
            nanos: OFFSET.nanos - 12,
            error_nanos: 90,
        };
        let report = recorder.into_report_at(set_back).expect("arrivals");
        assert_eq!(report.gaps[0].length_ns, 0);
        assert_eq!((report.clock_step_ns, report.clock_error_ns), (12, 90));
        assert_eq!(ArrivalRecorder::default().into_report(), None);
    }

    #[test]
    fn datagrams_that_arrive_together_are_one_arrival() {
        let mut recorder = ArrivalRecorder::with_offset(OFFSET);
        recorder.record(arrival(0, 0), 10);
        recorder.record(arrival(20, 0), 1);
        let report = recorder.into_report_at(OFFSET).expect("arrivals");
        assert_eq!(report.gaps.len(), 1);
        assert_eq!(report.gaps[0].number_before, 9);
        assert_eq!(report.counts.datagrams, [10, 0, 1]);
    }
}
