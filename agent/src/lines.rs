//! Cuts an endless stream of bytes into lines, none of which can make the agent take more than a bounded memory.

use std::io::{self, BufRead, Read};

/// The longest line that is looked at (docs/protocol.md); a longer one is skipped to its end.
pub const MAX_LINE_BYTES: usize = 1 << 20;

#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Text(Vec<u8>),
    TooLong,
    End,
}

/// The next line without its end; a last line that lacks one is still a line.
pub fn next_line(input: &mut impl BufRead) -> io::Result<Line> {
    let mut line = Vec::new();
    let longest = MAX_LINE_BYTES as u64 + 1;
    if input.by_ref().take(longest).read_until(b'\n', &mut line)? == 0 {
        return Ok(Line::End);
    }
    if line.ends_with(b"\n") {
        line.pop();
    } else if line.len() > MAX_LINE_BYTES {
        input.skip_until(b'\n')?;
        return Ok(Line::TooLong);
    }
    Ok(Line::Text(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(mut input: &[u8]) -> Vec<Line> {
        let mut found = Vec::new();
        loop {
            match next_line(&mut input).expect("a slice can be read") {
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
        assert_eq!(lines_of(&[b'x'; MAX_LINE_BYTES + 1]), [Line::TooLong]);
    }

    #[test]
    fn a_line_of_just_the_limit_is_read() {
        let mut input = vec![b'x'; MAX_LINE_BYTES];
        input.push(b'\n');
        assert_eq!(lines_of(&input), [Line::Text(vec![b'x'; MAX_LINE_BYTES])]);
    }
}
