//! Cuts an endless stream of bytes into lines, none of which can make the agent take more than a bounded memory.

use std::io::{self, Read};

/// The longest line that is looked at (docs/protocol.md); a longer one is skipped to its end.
pub const MAX_LINE_BYTES: usize = 1 << 20;

#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Text(Vec<u8>),
    TooLong,
    End,
}

pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// Bytes of `buffer` before this hold no line end; they are not searched twice.
    searched: usize,
    skipping: bool,
    ended: bool,
}

impl<R: Read> Lines<R> {
    pub fn new(input: R) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            searched: 0,
            skipping: false,
            ended: false,
        }
    }

    pub fn next_line(&mut self) -> io::Result<Line> {
        loop {
            if let Some(at) = self.buffer[self.searched..]
                .iter()
                .position(|b| *b == b'\n')
            {
                let rest = self.buffer.split_off(self.searched + at + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                self.searched = 0;
                line.pop();
                let skipped = std::mem::take(&mut self.skipping);
                if skipped || line.len() > MAX_LINE_BYTES {
                    return Ok(Line::TooLong);
                }
                return Ok(Line::Text(line));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > MAX_LINE_BYTES {
                self.skipping = true;
                self.buffer.clear();
                self.searched = 0;
            }
            if self.ended {
                // A last line without its line end is still a line.
                if self.skipping || !self.buffer.is_empty() {
                    self.buffer.push(b'\n');
                    continue;
                }
                return Ok(Line::End);
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut chunk = [0; 64 << 10];
        match self.input.read(&mut chunk) {
            Ok(0) => self.ended = true,
            Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(input: &[u8]) -> Vec<Line> {
        let mut lines = Lines::new(input);
        let mut found = Vec::new();
        loop {
            match lines.next_line().expect("a slice can be read") {
                Line::End => return found,
                line => found.push(line),
            }
        }
    }

    #[test]
    fn lines_come_whole_and_in_order_the_last_even_without_its_end() {
        let text = |t: &str| Line::Text(t.as_bytes().to_vec());
        assert_eq!(lines_of(b"a\n\nbc"), [text("a"), text(""), text("bc")]);
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_and_the_next_one_read() {
        let mut input = vec![b'x'; 3 * MAX_LINE_BYTES];
        input.extend_from_slice(b"\nnext\n");
        assert_eq!(
            lines_of(&input),
            [Line::TooLong, Line::Text(b"next".to_vec())]
        );
    }

    #[test]
    fn a_line_of_just_the_limit_is_read() {
        let mut input = vec![b'x'; MAX_LINE_BYTES];
        input.push(b'\n');
        assert_eq!(lines_of(&input), [Line::Text(vec![b'x'; MAX_LINE_BYTES])]);
    }
}
