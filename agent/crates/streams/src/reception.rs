//! What became of numbered packets on their way, told from the numbers that arrive: lost, double, out of order.

/// The receiver's account of one stream; the sender counts from 0.
#[derive(Debug)]
pub struct SequenceTracker {
    /// A bit for each of the last numbers.
    bitmap: Box<[u64]>,
    /// So many they are.
    window: u64,
    /// One more than the highest number yet: NextExp of RFC 4737, section 3.3.
    next_number: u64,
    /// Packets that came for the first time.
    pub unique: u64,
    pub duplicates: u64,
    pub reordered: u64,
    /// Of these, those further back than it is known which have come.
    pub before_window: u64,
}

impl SequenceTracker {
    /// `window`: so many numbers back it is known which have come; a power of two, 64 or more.
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

    /// A packet of that number has come. It is reordered where a higher number came before it (RFC 4737, section 3.3),
    /// and a duplicate where it has come itself; one that is further back than the window is taken to come for the first
    /// time.
    pub fn record(&mut self, number: u64) {
        if number >= self.next_number {
            for skipped in (self.next_number..number).rev().take(self.window as usize) {
                let (word, bit) = self.bit_position(skipped);
                self.bitmap[word] &= !bit;
            }
            self.next_number = number.saturating_add(1);
        } else {
            let (word, bit) = self.bit_position(number);
            let is_before = self.next_number - number > self.window;
            if !is_before && self.bitmap[word] & bit != 0 {
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
        let (word, bit) = self.bit_position(number);
        self.bitmap[word] |= bit;
        self.unique += 1;
    }

    /// The highest number yet.
    pub fn highest_number(&self) -> Option<u64> {
        self.next_number.checked_sub(1)
    }

    fn bit_position(&self, number: u64) -> (usize, u64) {
        let at = number % self.window;
        ((at / 64) as usize, 1 << (at % 64))
    }

    /// How many have not come, of those that were sent; before that number is known, of those up to the highest that has
    /// come.
    pub fn lost(&self, sent: Option<u64>) -> i64 {
        let count = |packets| i64::try_from(packets).unwrap_or(i64::MAX);
        count(sent.unwrap_or(self.next_number)) - count(self.unique)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1 << 17;

    fn received(numbers: impl IntoIterator<Item = u64>) -> SequenceTracker {
        let mut reception = SequenceTracker::new(WINDOW);
        for number in numbers {
            reception.record(number);
        }
        reception
    }

    fn counts(of: &SequenceTracker) -> [u64; 3] {
        [of.unique, of.duplicates, of.reordered]
    }

    #[test]
    fn a_gap_is_loss_until_the_late_packet_comes() {
        assert_eq!(received([0, 1, 4]).lost(None), 2);
        let late = received([0, 1, 4, 2]);
        assert_eq!((late.lost(None), late.reordered), (1, 1));
    }

    #[test]
    fn numbers_that_no_sender_reaches_are_counted_as_far_as_a_count_goes() {
        for number in [1 << 63, u64::MAX - 2] {
            assert_eq!(received([0, number]).lost(None), i64::MAX - 2);
        }
        assert_eq!(received([0]).lost(Some(u64::MAX)), i64::MAX - 1);
    }

    #[test]
    fn what_never_came_at_the_end_is_known_from_what_was_sent() {
        let cut_short = received(0..7);
        assert_eq!((cut_short.lost(None), cut_short.lost(Some(10))), (0, 3));
    }

    #[test]
    fn a_second_copy_is_a_duplicate_and_neither_loss_nor_reordering() {
        assert_eq!(counts(&received([0, 1, 1, 0, 2])), [3, 2, 0]);
        assert_eq!(counts(&received([0, 3, 1, 1, 2])), [4, 1, 2]);
    }

    #[test]
    fn numbers_a_window_apart_are_told_from_each_other() {
        assert_eq!(counts(&received(0..3 * WINDOW)), [3 * WINDOW, 0, 0]);
        let late = (3 * WINDOW - 1) / 5 * 5 - 5;
        let holey = received((0..3 * WINDOW).filter(|n| n % 5 != 0).chain([late, late]));
        assert_eq!(counts(&holey)[1..], [1, 1]);
        assert_eq!(counts(&received([0, WINDOW + 5, 5]))[1..], [0, 1]);
    }

    #[test]
    fn a_leap_over_many_windows_clears_the_window_and_no_more() {
        let leapt = received((0..WINDOW).chain([1 << 60, (1 << 60) - 1]));
        assert_eq!(counts(&leapt), [WINDOW + 2, 0, 1]);
        assert_eq!(leapt.lost(None), (1 << 60) + 1 - (WINDOW as i64 + 2));
    }

    #[test]
    fn what_comes_from_behind_the_window_is_taken_to_come_for_the_first_time() {
        let late = received([WINDOW + 9, 3, 10]);
        assert_eq!(counts(&late), [3, 0, 2]);
        assert_eq!(
            (late.before_window, late.highest_number()),
            (1, Some(WINDOW + 9))
        );
    }
}
