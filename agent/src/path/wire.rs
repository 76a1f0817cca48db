//! The wire format of a probe and its two answers: a magic number, a token, and padding.
//!
//! Probe: `VNBP`, 16 random bytes of the prober, the number of the attempt (u32, big endian), zeroes up to the size.
//! Answers: `VNBL` (as long as the probe) and `VNBS` (small). Both repeat the probe's 16 bytes and attempt. The last four
//! bytes of the small answer are the errno of sending the one of the probe's size, or 0.

/// The magic number of a probe.
pub const PROBE_MAGIC: &[u8; 4] = b"VNBP";
/// The magic number of the answer that is as long as the probe.
pub const FULL_SIZE_ANSWER_MAGIC: &[u8; 4] = b"VNBL";
/// The magic number of the small answer, which passes a path with a smaller MTU in this direction.
pub const SMALL_ANSWER_MAGIC: &[u8; 4] = b"VNBS";
/// The length of magic number and token.
pub const HEADER_BYTES: usize = 24;
/// The length of the small answer.
pub const SMALL_ANSWER_BYTES: usize = HEADER_BYTES + 4;

/// Identifies a prober and its attempt. Both answers repeat it.
pub type Token = [u8; 20];

/// Writes the header at the start of `datagram`.
pub fn write_header(datagram: &mut [u8], magic: &[u8; 4], token: &Token) {
    datagram[..4].copy_from_slice(magic);
    datagram[4..HEADER_BYTES].copy_from_slice(token);
}

/// Returns the magic number and the token, or `None` if the datagram is too short.
pub fn read_header(datagram: &[u8]) -> Option<(&[u8; 4], &Token)> {
    let (magic, rest) = datagram.split_first_chunk()?;
    let (token, _) = rest.split_first_chunk()?;
    Some((magic, token))
}
