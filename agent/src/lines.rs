//! Splits an endless byte stream into lines with bounded memory.

use std::io::{self, BufRead, Read};

/// The maximum length of a line (docs/protocol.md). Longer lines are skipped.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line without its line feed.
    Text(Vec<u8>),
    /// A line over the limit, which was skipped.
    TooLong,
    /// The end of the input.
    End,
}

/// Reads the next line. The last line may lack its line feed.
pub fn read_line(input: &mut impl BufRead) -> io::Result<Line> {
    let mut line = Vec::new();
    let read_limit = MAX_LINE_BYTES as u64 + 1;
    if input
        .by_ref()
        .take(read_limit)
        .read_until(b'\n', &mut line)?
        == 0
    {
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

    fn read_lines(mut input: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        loop {
            match read_line(&mut input).expect("a slice can be read") {
                Line::End => return lines,
                line => lines.push(line),
            }
        }
    }

    #[test]
    fn the_last_line_may_lack_its_line_feed() {
        let text = |t: &str| Line::Text(t.as_bytes().to_vec());
        assert_eq!(read_lines(b"a\n\nbc"), [text("a"), text(""), text("bc")]);
    }

    #[test]
    fn a_line_over_the_limit_is_skipped() {
        let mut input = vec![b'x'; 3 * MAX_LINE_BYTES];
        input.extend_from_slice(b"\nnext\n");
        assert_eq!(
            read_lines(&input),
            [Line::TooLong, Line::Text(b"next".to_vec())]
        );
        assert_eq!(read_lines(&[b'x'; MAX_LINE_BYTES + 1]), [Line::TooLong]);
    }

    #[test]
    fn a_line_of_exactly_the_maximum_length_is_read() {
        let mut input = vec![b'x'; MAX_LINE_BYTES];
        input.push(b'\n');
        assert_eq!(read_lines(&input), [Line::Text(vec![b'x'; MAX_LINE_BYTES])]);
    }
}
