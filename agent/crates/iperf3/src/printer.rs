//! Where the lines of one test go: to standard output as they come, and into what a client can ask for.

use std::io::Write;

/// The most that is kept for `--get-server-output`.
const MAX_TRANSCRIPT_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub struct Printer {
    /// Before every line on standard output, not in what is kept.
    pub prefix: String,
    pub is_silent: bool,
    pub transcript: Option<String>,
}

impl Printer {
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

    pub fn print_lines(&mut self, lines: &[String]) {
        for line in lines {
            self.print_line(line);
        }
    }
}

/// In one piece, and at once: several tests print at the same time.
pub fn write_stdout(text: &str) {
    let mut output = std::io::stdout().lock();
    // A reader that has left needs no more lines; the test goes on.
    let _ = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
}
