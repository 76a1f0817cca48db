//! Whose turn it is to be read, where reading all threads or sockets for each sample takes too much CPU time.

/// The number of threads, and of sockets in detail, that one sample reads.
pub const MAX_READ_PER_SAMPLE: usize = 16;

/// Chooses a few of many elements for each sample, in turn.
#[derive(Default)]
pub struct Turns {
    first: usize,
}

/// The elements whose turn it is.
#[derive(Clone, Copy)]
pub struct Turn {
    first: usize,
    count: usize,
    of: usize,
}

impl Turns {
    /// Returns the next `max` of `count` elements, and all if there are not more.
    pub fn next(&mut self, count: usize, max: usize) -> Turn {
        if count <= max {
            return Turn {
                first: 0,
                count,
                of: count,
            };
        }
        let first = self.first % count;
        self.first = first + max;
        Turn {
            first,
            count: max,
            of: count,
        }
    }
}

impl Turn {
    /// Returns whether it is this element's turn.
    pub fn includes(&self, index: usize) -> bool {
        index < self.of && (index + self.of - self.first) % self.of < self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(turns: &mut Turns, count: usize, max: usize) -> Vec<usize> {
        let turn = turns.next(count, max);
        (0..count + 2)
            .filter(|&index| turn.includes(index))
            .collect()
    }

    #[test]
    fn few_elements_are_read_each_time() {
        let mut turns = Turns::default();
        for _ in 0..3 {
            assert_eq!(chosen(&mut turns, 2, 2), [0, 1]);
        }
        assert!(chosen(&mut turns, 0, 2).is_empty());
    }

    #[test]
    fn many_elements_are_read_in_turn() {
        let mut turns = Turns::default();
        assert_eq!(chosen(&mut turns, 5, 2), [0, 1]);
        assert_eq!(chosen(&mut turns, 5, 2), [2, 3]);
        assert_eq!(chosen(&mut turns, 5, 2), [0, 4]);
        assert_eq!(chosen(&mut turns, 5, 2), [1, 2]);
        assert_eq!(chosen(&mut turns, 5, usize::MAX), [0, 1, 2, 3, 4]);
        assert_eq!(chosen(&mut turns, 5, 2), [3, 4]);
    }
}
