//! A file of /proc that is read again and again from its start.

use std::fs::File;
use std::os::unix::fs::FileExt;

pub struct ProcFile {
    file: File,
    buffer: Vec<u8>,
}

impl ProcFile {
    pub fn open(path: &str) -> Option<Self> {
        Some(Self {
            file: File::open(path).ok()?,
            buffer: vec![0; 16 << 10],
        })
    }

    /// The whole text as it stands now; empty where it cannot be read.
    pub fn text(&mut self) -> &str {
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                self.buffer.resize(length * 2, 0);
            }
            // The kernel makes these files a page or a record at a time: only an empty read is the end.
            match self.file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) | Err(_) => break,
                Ok(count) => length += count,
            }
        }
        std::str::from_utf8(&self.buffer[..length]).unwrap_or("")
    }
}
