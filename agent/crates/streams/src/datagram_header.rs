//! The header of each datagram of `udp_stream`: 18 bytes, which fit the smallest Ethernet frame.

use crate::secret::Secret;

/// Length of the header: key of the stream (4 bytes), sequence number (8), time of sending (6), all big endian.
pub const HEADER_BYTES: usize = 18;
/// Maximum payload in an IPv4 packet of 65,535 bytes.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;
/// Sequence number of a small datagram that only probes the path.
pub const SMALL_PROBE_NUMBER: u64 = u64::MAX - 1;
/// Sequence number of a probe with the size of the load's datagrams.
pub const FULL_PROBE_NUMBER: u64 = u64::MAX;

/// Number of bits of the time of sending.
pub(crate) const SENT_TIME_BITS: u32 = 48;

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramHeader {
    /// Key of the stream.
    pub key: u32,
    /// Sequence number.
    pub number: u64,
    /// Time of sending: the lowest 48 bits of CLOCK_REALTIME in nanoseconds, which wrap after three days.
    ///
    /// The kernel's receive timestamps use the same clock.
    pub sent_nanos: u64,
}

impl DatagramHeader {
    /// Writes the header to the start of a datagram.
    pub fn write(self, datagram: &mut [u8]) {
        datagram[..4].copy_from_slice(&self.key.to_be_bytes());
        datagram[4..12].copy_from_slice(&self.number.to_be_bytes());
        datagram[12..HEADER_BYTES].copy_from_slice(&self.sent_nanos.to_be_bytes()[2..]);
    }

    /// Reads the header; returns `None` if the datagram is too short.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let bytes = datagram.first_chunk::<HEADER_BYTES>()?;
        let (key, rest) = bytes.split_first_chunk::<4>()?;
        let (number, sent) = rest.split_first_chunk::<8>()?;
        let mut nanos = [0; 8];
        nanos[2..].copy_from_slice(sent);
        Some(Self {
            key: u32::from_be_bytes(*key),
            number: u64::from_be_bytes(*number),
            sent_nanos: u64::from_be_bytes(nanos),
        })
    }

    /// Returns whether a datagram has the same header with a sequence number that is `number_increment` greater.
    pub fn is_followed_by(self, datagram: &[u8], number_increment: u64) -> bool {
        let number = self.number.checked_add(number_increment);
        let next = number.map(|number| Self { number, ..self });
        next.is_some() && Self::read(datagram) == next
    }

    /// Returns the transit time until `received_nanos`; negative if the receiver's clock is behind.
    pub fn transit_nanos(&self, received_nanos: u64) -> i64 {
        const UNUSED: u32 = u64::BITS - SENT_TIME_BITS;
        (received_nanos.wrapping_sub(self.sent_nanos) << UNUSED) as i64 >> UNUSED
    }
}

/// Returns the key that identifies the datagrams of a stream.
pub fn derive_stream_key(secret: &Secret, id: u32) -> u32 {
    let [a, b, c, d, ..] = *secret;
    u32::from_be_bytes([a, b, c, d]) ^ id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_a_round_trip() {
        let header = DatagramHeader {
            key: 0x0102_0304,
            number: 5 << 40,
            sent_nanos: (1 << SENT_TIME_BITS) - 2,
        };
        let mut datagram = [0; HEADER_BYTES];
        header.write(&mut datagram);
        assert_eq!(DatagramHeader::read(&datagram), Some(header));
        assert_eq!(datagram[..4], [1, 2, 3, 4]);
        assert_eq!(DatagramHeader::read(&datagram[1..]), None);
    }

    #[test]
    fn transit_is_right_across_the_wrap_and_for_a_clock_that_is_behind() {
        let sent = 0x1234_ffff_ffff_fff0_u64;
        let mut datagram = [0; HEADER_BYTES];
        DatagramHeader {
            key: 0,
            number: 0,
            sent_nanos: sent,
        }
        .write(&mut datagram);
        let header = DatagramHeader::read(&datagram).expect("the datagram has a header");
        assert_eq!(header.transit_nanos(sent + 1000), 1000);
        assert_eq!(header.transit_nanos(sent - 1000), -1000);
    }

    #[test]
    fn streams_of_a_trial_have_different_keys() {
        assert_ne!(
            derive_stream_key(&[7; 16], 0),
            derive_stream_key(&[7; 16], 1)
        );
    }
}
