//! What stands at the head of each datagram of `udp_stream`: 18 bytes, no more than the smallest Ethernet frame carries.

use rustix::time::{ClockId, clock_gettime};

use crate::secret::Secret;

/// The stream's key (4 bytes), the datagram's number (8), and the time at which it was sent (6), all big endian.
pub const HEADER_BYTES: usize = 18;
/// What fits an IPv4 packet of 65535 bytes.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;
/// The numbers of datagrams that only prove the path: small ones, and such as the load will have.
pub const SMALL_PROBE_NUMBER: u64 = u64::MAX - 1;
pub const PROBE_NUMBER: u64 = u64::MAX;

const SENT_BITS: u32 = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramHeader {
    pub key: u32,
    pub number: u64,
    /// Nanoseconds of CLOCK_REALTIME, which is the clock of the kernel's receive stamps; its lowest 48 bits, which come
    /// again after three days.
    pub sent_nanos: u64,
}

impl DatagramHeader {
    pub fn write(self, datagram: &mut [u8]) {
        datagram[..4].copy_from_slice(&self.key.to_be_bytes());
        datagram[4..12].copy_from_slice(&self.number.to_be_bytes());
        datagram[12..HEADER_BYTES].copy_from_slice(&self.sent_nanos.to_be_bytes()[2..]);
    }

    /// `None` where the datagram is too short to have one.
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

    /// Whether a datagram has this head but for the number, which is so much higher.
    pub fn is_followed_by(self, datagram: &[u8], higher: u64) -> bool {
        let number = self.number.checked_add(higher);
        let next = number.map(|number| Self { number, ..self });
        next.is_some() && Self::read(datagram) == next
    }

    /// How long it was under way when it came at that time of the receiver's clock; negative where that clock is behind.
    pub fn transit_nanos(&self, received_nanos: u64) -> i64 {
        const UNUSED: u32 = u64::BITS - SENT_BITS;
        (received_nanos.wrapping_sub(self.sent_nanos) << UNUSED) as i64 >> UNUSED
    }
}

/// What tells one stream's datagrams from others'.
pub fn stream_key(secret: &Secret, id: u32) -> u32 {
    let [a, b, c, d, ..] = *secret;
    u32::from_be_bytes([a, b, c, d]) ^ id
}

/// CLOCK_REALTIME in nanoseconds.
pub fn now_nanos() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let head = DatagramHeader {
            key: 0x0102_0304,
            number: 5 << 40,
            sent_nanos: (1 << SENT_BITS) - 2,
        };
        let mut datagram = [0; HEADER_BYTES];
        head.write(&mut datagram);
        assert_eq!(DatagramHeader::read(&datagram), Some(head));
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
        let head = DatagramHeader::read(&datagram).expect("a head");
        assert_eq!(head.transit_nanos(sent + 1000), 1000);
        assert_eq!(head.transit_nanos(sent - 1000), -1000);
    }

    #[test]
    fn two_streams_of_a_trial_have_two_keys() {
        assert_ne!(stream_key(&[7; 16], 0), stream_key(&[7; 16], 1));
    }
}
