//! Prints the lines of one test to standard output and records them for `--get-server-output`.

use std::io::Write;

/// Maximum size of the recorded output.
const MAX_TRANSCRIPT_BYTES: usize = 4 << 20;

/// Prints the lines of one test.
#[derive(Debug)]
pub struct Printer {
    /// Printed before every line on standard output; not part of the transcript.
    pub prefix: String,
    /// Whether nothing goes to standard output.
    pub is_silent: bool,
    /// The recorded output; `None` if the client does not request it.
    pub transcript: Option<String>,
}

impl Printer {
    /// Prints one line.
    pub fn print_line(&mut self, line: &str) {
        if !self.is_silent {
            write_stdout(&format!("{}{line}\n", self.prefix));
        }
        if let Some(kept) = &mut self.transcript
            && kept.len() + line.len() < MAX_TRANSCRIPT_BYTES
        {
            kept.push_str(line);
            kept.push('\n');
        }
    }

    /// Prints several lines.
    pub fn print_lines(&mut self, lines: &[String]) {
        for line in lines {
            self.print_line(line);
        }
    }
}

/// Writes the text in one piece and flushes it: several tests print at the same time.
pub fn write_stdout(text: &str) {
    let mut output = std::io::stdout().lock();
    // The reader has closed the pipe: the test continues without output.
    let _ = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
}
