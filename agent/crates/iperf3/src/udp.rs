//! Datagrams of a UDP stream: connect messages, header and counters.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use vnetbench_streams::jitter::JitterEstimator;

/// The messages that open a UDP stream, each with its reply, as observed on the wire.
///
/// Versions before 3.2 use the second pair.
const CONNECT_MESSAGES_AND_REPLIES: [([u8; 4], [u8; 4]); 2] = [
    (*b"9876", *b"6789"),
    (123_456_789_u32.to_le_bytes(), 987_654_321_u32.to_le_bytes()),
];
/// The message that a client sends to open a UDP stream.
pub const CONNECT_MESSAGE: [u8; 4] = CONNECT_MESSAGES_AND_REPLIES[0].0;

/// Returns the reply to a connect message; `None` for any other datagram.
pub fn find_connect_reply(message: &[u8]) -> Option<[u8; 4]> {
    CONNECT_MESSAGES_AND_REPLIES
        .iter()
        .find(|(known, _)| known == message)
        .map(|(_, reply)| *reply)
}

/// Returns whether the bytes are a reply to a connect message.
pub fn is_connect_reply(bytes: &[u8]) -> bool {
    CONNECT_MESSAGES_AND_REPLIES
        .iter()
        .any(|(_, reply)| reply == bytes)
}

/// The header of a datagram: seconds, microseconds and sequence number in network byte order.
///
/// The sequence number has 32 or 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramHeader {
    /// Time of sending.
    pub sent_at: Duration,
    /// Sequence number, from 1.
    pub number: u64,
}

/// Length of a header with a 32-bit sequence number.
pub const HEADER_BYTES_32BIT: usize = 12;
/// Length of a header with a 64-bit sequence number.
pub const HEADER_BYTES_64BIT: usize = 16;

impl DatagramHeader {
    /// Writes the header to the start of a datagram.
    pub fn write(self, is_64bit: bool, datagram: &mut [u8]) {
        // Receivers use only differences of times: the 32-bit seconds wrap after 136 years.
        datagram[..4].copy_from_slice(&(self.sent_at.as_secs() as u32).to_be_bytes());
        datagram[4..8].copy_from_slice(&self.sent_at.subsec_micros().to_be_bytes());
        if is_64bit {
            datagram[8..HEADER_BYTES_64BIT].copy_from_slice(&self.number.to_be_bytes());
        } else {
            datagram[8..HEADER_BYTES_32BIT].copy_from_slice(&(self.number as u32).to_be_bytes());
        }
    }

    /// Reads the header; returns `None` if the datagram is too short.
    pub fn read(is_64bit: bool, datagram: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let bytes = datagram.get(at..)?.first_chunk::<4>()?;
            Some(u32::from_be_bytes(*bytes))
        };
        let number = if is_64bit {
            u64::from(word(8)?) << 32 | u64::from(word(12)?)
        } else {
            u64::from(word(8)?)
        };
        let sent = Duration::from_secs(word(0)?.into()) + Duration::from_micros(word(4)?.into());
        Some(Self {
            sent_at: sent,
            number,
        })
    }
}

/// The counters of one stream: its thread writes them, the session reads them.
#[derive(Debug, Default)]
pub struct DatagramCounters {
    /// Datagrams sent, or the highest sequence number received.
    packets: AtomicU64,
    /// Lost datagrams; a late arrival decrements it.
    lost: AtomicI64,
    out_of_order: AtomicU64,
    jitter_ns: AtomicU64,
}

/// The values of the counters at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DatagramTotals {
    /// Datagrams sent, or the highest sequence number received.
    pub datagrams: u64,
    /// Lost datagrams; negative in an interval in which late datagrams arrive.
    pub lost: i64,
    /// Datagrams received out of order.
    pub out_of_order: u64,
    /// Jitter (RFC 3550).
    pub jitter_s: f64,
}

impl DatagramCounters {
    /// Returns the current values.
    pub fn totals(&self) -> DatagramTotals {
        DatagramTotals {
            datagrams: self.packets.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            out_of_order: self.out_of_order.load(Ordering::Relaxed),
            jitter_s: self.jitter_ns.load(Ordering::Relaxed) as f64 / 1e9,
        }
    }

    /// Counts a sent datagram and returns its sequence number.
    pub fn record_sent(&self) -> u64 {
        self.packets.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// State of the receiving thread.
#[derive(Debug, Default)]
pub struct DatagramReceiver {
    highest: u64,
    lost: i64,
    out_of_order: u64,
    jitter: JitterEstimator,
}

impl DatagramReceiver {
    /// Counts a received datagram.
    pub fn record(&mut self, header: DatagramHeader, now: Duration, counters: &DatagramCounters) {
        let advance = header.number.saturating_sub(self.highest);
        if advance > 0 {
            self.lost = self.lost.saturating_add_unsigned(advance - 1);
            self.highest = header.number;
        } else {
            self.out_of_order += 1;
            self.lost = (self.lost - 1).max(0);
        }
        self.jitter
            .record(now.as_nanos() as i64 - header.sent_at.as_nanos() as i64);
        counters.packets.store(self.highest, Ordering::Relaxed);
        counters.lost.store(self.lost, Ordering::Relaxed);
        counters
            .out_of_order
            .store(self.out_of_order, Ordering::Relaxed);
        counters
            .jitter_ns
            .store(self.jitter.jitter_nanos() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(numbers: &[u64]) -> DatagramTotals {
        let (mut reception, datagrams) = (DatagramReceiver::default(), DatagramCounters::default());
        for number in numbers {
            let header = DatagramHeader {
                sent_at: Duration::from_millis(*number),
                number: *number,
            };
            let now = Duration::from_millis(number.saturating_add(5));
            reception.record(header, now, &datagrams);
        }
        datagrams.totals()
    }

    #[test]
    fn a_header_survives_a_round_trip_with_32_and_64_bit_numbers() {
        let header = DatagramHeader {
            sent_at: Duration::new(15_018, 299_147_000),
            number: 5 << 33,
        };
        let mut datagram = [0; HEADER_BYTES_64BIT];
        header.write(true, &mut datagram);
        assert_eq!(DatagramHeader::read(true, &datagram), Some(header));
        assert_eq!(DatagramHeader::read(true, &datagram[..15]), None);
        header.write(false, &mut datagram);
        assert_eq!(datagram[..4], [0, 0, 0x3a, 0xaa]);
        assert_eq!(
            DatagramHeader::read(false, &datagram).map(|read| read.number),
            Some(0)
        );
    }

    #[test]
    fn a_gap_counts_as_loss_until_the_late_datagram_arrives() {
        assert_eq!(received(&[1, 2, 5]).lost, 2);
        let late = received(&[1, 2, 5, 3]);
        assert_eq!((late.datagrams, late.lost, late.out_of_order), (5, 1, 1));
    }

    #[test]
    fn an_extreme_sequence_number_does_not_overflow_the_counters() {
        let wild = received(&[1, u64::MAX, 0, u64::MAX]);
        assert_eq!((wild.datagrams, wild.out_of_order), (u64::MAX, 2));
    }

    #[test]
    fn only_the_two_connect_messages_have_a_reply() {
        assert_eq!(find_connect_reply(b"9876"), Some(*b"6789"));
        assert_eq!(
            find_connect_reply(&[0x15, 0xcd, 0x5b, 0x07]),
            Some([0xb1, 0x68, 0xde, 0x3a])
        );
        assert_eq!(find_connect_reply(b"987"), None);
        assert!(is_connect_reply(b"6789"));
    }
}
