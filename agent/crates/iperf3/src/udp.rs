//! The datagrams of a UDP stream: their header, how a stream is opened by them, and what a receiver counts.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use vnetbench_streams::jitter::JitterEstimator;

/// What opens a UDP stream and what answers it, as seen on the wire; versions before 3.2 used the second pair.
const CONNECT_MESSAGES: [([u8; 4], [u8; 4]); 2] = [
    (*b"9876", *b"6789"),
    (123_456_789_u32.to_le_bytes(), 987_654_321_u32.to_le_bytes()),
];
pub const CONNECT_MESSAGE: [u8; 4] = CONNECT_MESSAGES[0].0;

/// What answers a greeting; `None` where it is none.
pub fn connect_reply(message: &[u8]) -> Option<[u8; 4]> {
    CONNECT_MESSAGES
        .iter()
        .find(|(known, _)| known == message)
        .map(|(_, reply)| *reply)
}

pub fn is_connect_reply(bytes: &[u8]) -> bool {
    CONNECT_MESSAGES.iter().any(|(_, reply)| reply == bytes)
}

/// Seconds, microseconds and the number of a datagram, all in network byte order; the number has 32 bits, or 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramHeader {
    pub sent_at: Duration,
    pub number: u64,
}

pub const HEADER_BYTES_32BIT: usize = 12;
pub const HEADER_BYTES_64BIT: usize = 16;

impl DatagramHeader {
    pub fn write(self, is_64bit: bool, datagram: &mut [u8]) {
        // Only differences of the time count, and those that wrap in 136 years.
        datagram[..4].copy_from_slice(&(self.sent_at.as_secs() as u32).to_be_bytes());
        datagram[4..8].copy_from_slice(&self.sent_at.subsec_micros().to_be_bytes());
        if is_64bit {
            datagram[8..HEADER_BYTES_64BIT].copy_from_slice(&self.number.to_be_bytes());
        } else {
            datagram[8..HEADER_BYTES_32BIT].copy_from_slice(&(self.number as u32).to_be_bytes());
        }
    }

    /// `None` where the datagram is too short to have one.
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

/// What one stream has counted; its own thread writes, the session reads.
#[derive(Debug, Default)]
pub struct DatagramCounters {
    /// Sent, or the highest number received.
    packets: AtomicU64,
    /// A datagram that comes late after all is taken off again.
    lost: AtomicI64,
    out_of_order: AtomicU64,
    jitter_ns: AtomicU64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DatagramTotals {
    pub datagrams: u64,
    pub lost: i64,
    pub out_of_order: u64,
    pub jitter_s: f64,
}

impl DatagramCounters {
    pub fn totals(&self) -> DatagramTotals {
        DatagramTotals {
            datagrams: self.packets.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            out_of_order: self.out_of_order.load(Ordering::Relaxed),
            jitter_s: self.jitter_ns.load(Ordering::Relaxed) as f64 / 1e9,
        }
    }

    /// Another one was sent; returns its number.
    pub fn record_sent(&self) -> u64 {
        self.packets.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The receiving thread's own state.
#[derive(Debug, Default)]
pub struct DatagramReceiver {
    highest: u64,
    lost: i64,
    out_of_order: u64,
    jitter: JitterEstimator,
}

impl DatagramReceiver {
    /// A datagram has come.
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
            .store(self.jitter.nanos() as u64, Ordering::Relaxed);
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
    fn a_header_is_read_as_it_was_written_narrow_and_wide() {
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
    fn a_gap_is_loss_until_the_late_datagram_comes() {
        assert_eq!(received(&[1, 2, 5]).lost, 2);
        let late = received(&[1, 2, 5, 3]);
        assert_eq!((late.datagrams, late.lost, late.out_of_order), (5, 1, 1));
    }

    #[test]
    fn a_number_from_nowhere_does_not_overflow_the_counts() {
        let wild = received(&[1, u64::MAX, 0, u64::MAX]);
        assert_eq!((wild.datagrams, wild.out_of_order), (u64::MAX, 2));
    }

    #[test]
    fn both_greetings_are_answered_and_nothing_else() {
        assert_eq!(connect_reply(b"9876"), Some(*b"6789"));
        assert_eq!(
            connect_reply(&[0x15, 0xcd, 0x5b, 0x07]),
            Some([0xb1, 0x68, 0xde, 0x3a])
        );
        assert_eq!(connect_reply(b"987"), None);
        assert!(is_connect_reply(b"6789"));
    }
}
