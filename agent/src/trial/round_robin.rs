//! Selects in turn what a sample reads, where reading all threads or sockets for each sample takes too much CPU time.

/// The number of threads, and of sockets in detail, that one sample reads.
pub const MAX_READ_PER_SAMPLE: usize = 16;

/// Chooses a few of many elements for each sample, in turn.
#[derive(Default)]
pub struct RoundRobinSelector {
    first: usize,
}

/// The elements that one sample reads.
#[derive(Clone, Copy)]
pub struct RoundRobinSelection {
    first: usize,
    count: usize,
    of: usize,
}

impl RoundRobinSelector {
    /// Returns the next `max` of `count` elements, and all if there are not more.
    pub fn next(&mut self, count: usize, max: usize) -> RoundRobinSelection {
        if count <= max {
            return RoundRobinSelection {
                first: 0,
                count,
                of: count,
            };
        }
        let first = self.first % count;
        self.first = first + max;
        RoundRobinSelection {
            first,
            count: max,
            of: count,
        }
    }
}

impl RoundRobinSelection {
    /// Returns whether it is this element's turn.
    pub fn includes(&self, index: usize) -> bool {
        index < self.of && (index + self.of - self.first) % self.of < self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(selector: &mut RoundRobinSelector, count: usize, max: usize) -> Vec<usize> {
        let selection = selector.next(count, max);
        (0..count + 2)
            .filter(|&index| selection.includes(index))
            .collect()
    }

    #[test]
    fn few_elements_are_read_each_time() {
        let mut selector = RoundRobinSelector::default();
        for _ in 0..3 {
            assert_eq!(chosen(&mut selector, 2, 2), [0, 1]);
        }
        assert!(chosen(&mut selector, 0, 2).is_empty());
    }

    #[test]
    fn many_elements_are_read_in_turn() {
        let mut selector = RoundRobinSelector::default();
        assert_eq!(chosen(&mut selector, 5, 2), [0, 1]);
        assert_eq!(chosen(&mut selector, 5, 2), [2, 3]);
        assert_eq!(chosen(&mut selector, 5, 2), [0, 4]);
        assert_eq!(chosen(&mut selector, 5, 2), [1, 2]);
        assert_eq!(chosen(&mut selector, 5, usize::MAX), [0, 1, 2, 3, 4]);
        assert_eq!(chosen(&mut selector, 5, 2), [3, 4]);
    }
}
