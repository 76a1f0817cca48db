//! Files that the kernel generates on reading (/proc, debugfs), read repeatedly from the start.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Maximum size of a short file: one line of numbers.
const MAX_SHORT_FILE_BYTES: usize = 1024;

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

    /// Reads the whole text. Invalid UTF-8 becomes `?`; an unreadable file is empty.
    pub fn read_text(&mut self) -> &str {
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                self.buffer.resize(length * 2, 0);
            }
            // The kernel returns these files in pieces, so only an empty read marks the end.
            match self.file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) | Err(_) => break,
                Ok(count) => length += count,
            }
        }
        // An interface's name may hold any bytes. It must not make the other lines unreadable.
        let mut at = 0;
        while let Err(error) = std::str::from_utf8(&self.buffer[at..length]) {
            at += error.valid_up_to();
            self.buffer[at] = b'?';
        }
        std::str::from_utf8(&self.buffer[..length]).unwrap_or("")
    }
}

/// Reads a file of one short line in a single call, and parses it.
pub fn read_short_file<T>(file: &File, find: impl FnOnce(&[u8]) -> Option<T>) -> io::Result<T> {
    let mut bytes = [0; MAX_SHORT_FILE_BYTES];
    let length = file.read_at(&mut bytes, 0)?;
    find(&bytes[..length]).ok_or(io::ErrorKind::InvalidData.into())
}

/// Reads the first number of a short file.
pub fn read_first_number(file: &File) -> io::Result<u64> {
    read_numbers(file).map(|[first]| first)
}

/// Reads the first numbers of a short file.
pub fn read_numbers<const COUNT: usize>(file: &File) -> io::Result<[u64; COUNT]> {
    read_short_file(file, |line| {
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let mut parsed = [0; COUNT];
        for number in &mut parsed {
            *number = words.next()?.parse().ok()?;
        }
        Some(parsed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_invalid_utf8_leaves_other_lines_readable() {
        let name = format!("vnetbench-proc-file-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, b"lo: 1 2\n\xff\xc3: 3 4\neth0: 5 6\n").expect("a file");
        let mut file = ProcFile::from_file(File::open(&path).expect("the file exists"));
        std::fs::remove_file(&path).expect("the test can remove its files");
        assert_eq!(file.read_text(), "lo: 1 2\n??: 3 4\neth0: 5 6\n");
    }
}
