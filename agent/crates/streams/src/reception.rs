//! Finds lost, duplicate and reordered packets by their sequence numbers.

/// The place of a number in the bitmap.
struct BitPosition {
    /// Index of the word.
    word: usize,
    /// The bit in the word.
    mask: u64,
}

/// Tracks the sequence numbers of one stream, which start at 0.
#[derive(Debug)]
pub struct SequenceTracker {
    /// One bit for each of the last `window` numbers.
    bitmap: Box<[u64]>,
    window: u64,
    /// The highest number plus 1: NextExp of RFC 4737, section 3.3.
    next_number: u64,
    /// Packets received, without duplicates.
    pub unique: u64,
    /// Packets received more than once.
    pub duplicates: u64,
    /// Packets received after a later one.
    pub reordered: u64,
    /// Reordered packets older than the window, for which duplicates are not detected.
    pub before_window: u64,
}

impl SequenceTracker {
    /// Creates a tracker; `window` is the number of recent packets it remembers, a power of two and at least 64.
    pub fn new(window: u64) -> Self {
        Self {
            bitmap: vec![0; (window / 64) as usize].into(),
            window,
            next_number: 0,
            unique: 0,
            duplicates: 0,
            reordered: 0,
            before_window: 0,
        }
    }

    /// Records a packet.
    ///
    /// It is reordered if a higher number arrived before it (RFC 4737, section 3.3), and a duplicate if its own number
    /// arrived before. A packet older than the window counts as a first arrival.
    pub fn record(&mut self, number: u64) {
        if number >= self.next_number {
            for skipped in (self.next_number..number).rev().take(self.window as usize) {
                let BitPosition { word, mask } = self.bit_position(skipped);
                self.bitmap[word] &= !mask;
            }
            self.next_number = number.saturating_add(1);
        } else {
            let BitPosition { word, mask } = self.bit_position(number);
            let is_before = self.next_number - number > self.window;
            if !is_before && self.bitmap[word] & mask != 0 {
                self.duplicates += 1;
                return;
            }
            self.reordered += 1;
            if is_before {
                self.before_window += 1;
                self.unique += 1;
                return;
            }
        }
        let BitPosition { word, mask } = self.bit_position(number);
        self.bitmap[word] |= mask;
        self.unique += 1;
    }

    /// Returns the highest number received.
    pub fn highest_number(&self) -> Option<u64> {
        self.next_number.checked_sub(1)
    }

    /// Returns the bit of a number.
    fn bit_position(&self, number: u64) -> BitPosition {
        let at = number % self.window;
        BitPosition {
            word: (at / 64) as usize,
            mask: 1 << (at % 64),
        }
    }

    /// Returns the number of lost packets among those `sent`; if that is unknown, up to the highest number received.
    pub fn lost_packet_count(&self, sent: Option<u64>) -> i64 {
        let count = |packets| i64::try_from(packets).unwrap_or(i64::MAX);
        count(sent.unwrap_or(self.next_number)) - count(self.unique)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1 << 17;

    fn received(numbers: impl IntoIterator<Item = u64>) -> SequenceTracker {
        let mut tracker = SequenceTracker::new(WINDOW);
        for number in numbers {
            tracker.record(number);
        }
        tracker
    }

    fn counts(tracker: &SequenceTracker) -> [u64; 3] {
        [tracker.unique, tracker.duplicates, tracker.reordered]
    }

    #[test]
    fn a_gap_counts_as_loss_until_the_late_packet_arrives() {
        assert_eq!(received([0, 1, 4]).lost_packet_count(None), 2);
        let late = received([0, 1, 4, 2]);
        assert_eq!((late.lost_packet_count(None), late.reordered), (1, 1));
    }

    #[test]
    fn the_loss_of_impossible_numbers_saturates() {
        for number in [1 << 63, u64::MAX - 2] {
            assert_eq!(received([0, number]).lost_packet_count(None), i64::MAX - 2);
        }
        assert_eq!(
            received([0]).lost_packet_count(Some(u64::MAX)),
            i64::MAX - 1
        );
    }

    #[test]
    fn loss_at_the_end_follows_from_the_number_sent() {
        let cut_short = received(0..7);
        assert_eq!(
            (
                cut_short.lost_packet_count(None),
                cut_short.lost_packet_count(Some(10))
            ),
            (0, 3)
        );
    }

    #[test]
    fn a_second_copy_counts_only_as_a_duplicate() {
        assert_eq!(counts(&received([0, 1, 1, 0, 2])), [3, 2, 0]);
        assert_eq!(counts(&received([0, 3, 1, 1, 2])), [4, 1, 2]);
    }

    #[test]
    fn numbers_one_window_apart_are_distinct() {
        assert_eq!(counts(&received(0..3 * WINDOW)), [3 * WINDOW, 0, 0]);
        let late = (3 * WINDOW - 1) / 5 * 5 - 5;
        let with_gaps = received((0..3 * WINDOW).filter(|n| n % 5 != 0).chain([late, late]));
        assert_eq!(counts(&with_gaps)[1..], [1, 1]);
        assert_eq!(counts(&received([0, WINDOW + 5, 5]))[1..], [0, 1]);
    }

    #[test]
    fn a_jump_over_many_windows_clears_only_the_window() {
        let tracker = received((0..WINDOW).chain([1 << 60, (1 << 60) - 1]));
        assert_eq!(counts(&tracker), [WINDOW + 2, 0, 1]);
        assert_eq!(
            tracker.lost_packet_count(None),
            (1 << 60) + 1 - (WINDOW as i64 + 2)
        );
    }

    #[test]
    fn a_packet_older_than_the_window_counts_as_a_first_arrival() {
        let late = received([WINDOW + 9, 3, 10]);
        assert_eq!(counts(&late), [3, 0, 2]);
        assert_eq!(
            (late.before_window, late.highest_number()),
            (1, Some(WINDOW + 9))
        );
    }
}
