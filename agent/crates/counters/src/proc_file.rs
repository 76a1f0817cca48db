//! Files that the kernel makes as they are read (/proc, debugfs), read again and again from their start.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What one line of numbers takes at most.
const SHORT_BYTES: usize = 1024;

pub struct ProcFile {
    file: File,
    buffer: Vec<u8>,
}

impl ProcFile {
    pub fn open(path: &str) -> Option<Self> {
        Some(Self::from_file(File::open(path).ok()?))
    }

    pub fn from_file(file: File) -> Self {
        Self {
            file,
            buffer: vec![0; 16 << 10],
        }
    }

    /// The whole text as it stands now, with `?` for what is no text; empty where it cannot be read.
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
        // An interface's name may hold any bytes, and must not cost the lines of all others.
        let mut at = 0;
        while let Err(error) = std::str::from_utf8(&self.buffer[at..length]) {
            at += error.valid_up_to();
            self.buffer[at] = b'?';
        }
        std::str::from_utf8(&self.buffer[..length]).unwrap_or("")
    }
}

/// What is read of a file that has one short line, by a single call and without a buffer of its own.
pub fn read_short<T>(file: &File, find: impl FnOnce(&[u8]) -> Option<T>) -> io::Result<T> {
    let mut bytes = [0; SHORT_BYTES];
    let length = file.read_at(&mut bytes, 0)?;
    find(&bytes[..length]).ok_or(io::ErrorKind::InvalidData.into())
}

/// The number that such a file begins with.
pub fn first_number(file: &File) -> io::Result<u64> {
    numbers(file).map(|[first]| first)
}

/// The numbers that such a file begins with.
pub fn numbers<const COUNT: usize>(file: &File) -> io::Result<[u64; COUNT]> {
    read_short(file, |line| {
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let mut found = [0; COUNT];
        for number in &mut found {
            *number = words.next()?.parse().ok()?;
        }
        Some(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_text_costs_no_other_line() {
        let name = format!("vnetbench-proc-file-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, b"lo: 1 2\n\xff\xc3: 3 4\neth0: 5 6\n").expect("a file");
        let mut file = ProcFile::from_file(File::open(&path).expect("it is there"));
        std::fs::remove_file(&path).expect("it is ours");
        assert_eq!(file.text(), "lo: 1 2\n??: 3 4\neth0: 5 6\n");
    }
}
