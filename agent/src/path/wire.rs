//! What a probe and its two answers look like: a mark, whose it is, which it is, and then nothing but length.
//!
//! Probe: `VNBP`, 16 bytes that only this prober knows, the attempt (u32, big endian), zeroes up to the packet's size.
//! Answers: `VNBL` (as long as the probe) and `VNBS` (short; the last four bytes are the errno that the long one met, or
//! 0), each with the probe's 16 bytes and attempt.

pub const PROBE: &[u8; 4] = b"VNBP";
pub const LONG_ANSWER: &[u8; 4] = b"VNBL";
pub const SHORT_ANSWER: &[u8; 4] = b"VNBS";
pub const HEADER_BYTES: usize = 24;
pub const SHORT_ANSWER_BYTES: usize = HEADER_BYTES + 4;

/// Whose probe it is, and its attempt: what both answers repeat.
pub type Token = [u8; 20];

pub fn write_header(into: &mut [u8], mark: &[u8; 4], token: &Token) {
    into[..4].copy_from_slice(mark);
    into[4..HEADER_BYTES].copy_from_slice(token);
}

/// The mark and the token, where the datagram is long enough to have them.
pub fn read_header(datagram: &[u8]) -> Option<(&[u8; 4], &Token)> {
    let (mark, rest) = datagram.split_first_chunk()?;
    let (token, _) = rest.split_first_chunk()?;
    Some((mark, token))
}
