//! The counters of one test on this host: intervals, and totals without the omitted time.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::results::StreamResult;
use crate::streams::TestStream;
use crate::udp::DatagramTotals;
use vnetbench_counters::tcp_info::{TcpMeter, TcpReading};
use vnetbench_streams::Role;

/// Maximum number of stream samples kept for JSON; later intervals appear only in the text output.
pub const MAX_JSON_SAMPLES: usize = 200_000;

/// The counters of one stream in one interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamSample {
    /// Bytes sent or received.
    pub bytes: u64,
    /// TCP state of a sending stream.
    pub tcp: Option<TcpSample>,
    /// Datagram counters of a UDP stream.
    pub datagrams: DatagramTotals,
}

/// TCP state of a sending stream in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TcpSample {
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Smoothed round-trip time.
    pub rtt_us: u32,
    /// Variation of the round-trip time.
    pub rttvar_us: u32,
}

/// One interval of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Start, since the start of the test or the end of the omitted time.
    pub start_s: f64,
    /// End, on the same clock.
    pub end_s: f64,
    /// Whether the results omit this interval.
    pub is_omitted: bool,
    /// One sample for each stream, in order.
    pub samples: Vec<StreamSample>,
}

/// Extreme values of a sending TCP stream over the whole test.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TcpExtremes {
    /// Largest congestion window.
    pub max_cwnd_bytes: u64,
    /// Largest smoothed round-trip time.
    pub max_rtt_us: u32,
    /// Smallest smoothed round-trip time.
    pub min_rtt_us: u32,
    rtt_sum_us: u64,
    sample_count: u64,
}

impl TcpExtremes {
    /// Returns the mean of the sampled round-trip times.
    pub fn mean_rtt_us(&self) -> u64 {
        self.rtt_sum_us.checked_div(self.sample_count).unwrap_or(0)
    }

    fn add(&mut self, sample: TcpSample) {
        self.max_cwnd_bytes = self.max_cwnd_bytes.max(sample.cwnd_bytes);
        self.max_rtt_us = self.max_rtt_us.max(sample.rtt_us);
        self.min_rtt_us = match self.sample_count {
            0 => sample.rtt_us,
            _ => self.min_rtt_us.min(sample.rtt_us),
        };
        self.rtt_sum_us += u64::from(sample.rtt_us);
        self.sample_count += 1;
    }
}

/// The counters of one stream at one time.
#[derive(Debug, Clone, Copy, Default)]
struct CounterReading {
    bytes: u64,
    retransmits: u64,
    datagrams: DatagramTotals,
}

/// Reads the counters of a test's streams and keeps its intervals.
pub struct TestRecord {
    streams: Vec<Arc<TestStream>>,
    is_udp: bool,
    meters: Vec<TcpMeter>,
    /// Readings at the end of the omitted time; totals count from here.
    baseline: Vec<CounterReading>,
    last_readings: Vec<CounterReading>,
    last_closed_at: Instant,
    started: Instant,
    /// Extreme values of each stream.
    pub extremes: Vec<TcpExtremes>,
    /// The intervals kept for JSON.
    pub intervals: Vec<Interval>,
    /// Number of intervals beyond `MAX_JSON_SAMPLES`, which are not kept.
    pub dropped_intervals: u64,
}

impl TestRecord {
    /// Starts a record at the current time.
    pub fn new(streams: &[Arc<TestStream>], is_udp: bool) -> Self {
        let now = Instant::now();
        let mut record = Self {
            streams: streams.to_vec(),
            is_udp,
            meters: streams.iter().map(|_| TcpMeter::default()).collect(),
            baseline: vec![CounterReading::default(); streams.len()],
            last_readings: vec![CounterReading::default(); streams.len()],
            last_closed_at: now,
            started: now,
            extremes: vec![TcpExtremes::default(); streams.len()],
            intervals: Vec::new(),
            dropped_intervals: 0,
        };
        // A meter's totals count from its first reading.
        record.read_counters();
        record
    }

    fn read_counters(&mut self) -> Vec<(CounterReading, Option<TcpReading>)> {
        let meters = self.meters.iter_mut();
        self.streams
            .iter()
            .zip(meters)
            .map(|(stream, meter)| {
                let tcp = (!self.is_udp && stream.role == Role::Source)
                    .then(|| meter.read_or_keep_last(stream.socket.as_fd()));
                let reading = CounterReading {
                    bytes: stream.byte_count.bytes(),
                    retransmits: tcp.map_or(0, |tcp| tcp.retransmits),
                    datagrams: stream.datagrams.totals(),
                };
                (reading, tcp)
            })
            .collect()
    }

    /// Closes the current interval and returns it.
    pub fn close_interval(&mut self, now: Instant, is_omitted: bool) -> Interval {
        let readings = self.read_counters();
        let samples = readings
            .iter()
            .zip(&self.last_readings)
            .map(|((now, tcp), last)| StreamSample {
                bytes: now.bytes - last.bytes,
                tcp: tcp.map(|tcp| TcpSample {
                    retransmits: now.retransmits - last.retransmits,
                    cwnd_bytes: u64::from(tcp.cwnd) * u64::from(tcp.mss),
                    rtt_us: tcp.rtt_us,
                    rttvar_us: tcp.rttvar_us,
                }),
                datagrams: counts_since(now.datagrams, last.datagrams),
            });
        let interval = Interval {
            start_s: self.seconds_since_counting_start(self.last_closed_at),
            end_s: self.seconds_since_counting_start(now),
            is_omitted,
            samples: samples.collect(),
        };
        if !is_omitted {
            for (extremes, sample) in self.extremes.iter_mut().zip(&interval.samples) {
                if let Some(tcp) = sample.tcp {
                    extremes.add(tcp);
                }
            }
        }
        self.last_readings = readings.into_iter().map(|(reading, _)| reading).collect();
        self.last_closed_at = now;
        interval
    }

    /// Keeps an interval for JSON, unless there are too many.
    pub fn keep_interval_for_json(&mut self, interval: Interval) {
        if (self.intervals.len() + 1) * self.streams.len().max(1) <= MAX_JSON_SAMPLES {
            self.intervals.push(interval);
        } else {
            self.dropped_intervals += 1;
        }
    }

    /// Restarts totals and time at the end of the last closed interval.
    pub fn restart_at_last_closed_interval(&mut self) {
        self.baseline.clone_from(&self.last_readings);
        self.started = self.last_closed_at;
    }

    /// Returns the time since the start, or since the end of the omitted time.
    pub fn seconds_since_counting_start(&self, time: Instant) -> f64 {
        time.saturating_duration_since(self.started).as_secs_f64()
    }

    /// Returns whether bytes moved since the last interval closed.
    pub fn has_unreported_bytes(&self) -> bool {
        self.streams
            .iter()
            .zip(&self.last_readings)
            .any(|(stream, last)| stream.byte_count.bytes() != last.bytes)
    }

    /// Returns the time at which the last interval closed.
    pub fn last_closed_at(&self) -> Instant {
        self.last_closed_at
    }

    /// Returns the bytes of all streams, including the omitted time.
    pub fn total_bytes_with_omitted(&self) -> u64 {
        self.streams
            .iter()
            .map(|stream| stream.byte_count.bytes())
            .sum()
    }

    /// Returns the results that this host sends to its peer, up to the last closed interval and without omitted time.
    pub fn results_until_last_closed_interval(&self) -> Vec<StreamResult> {
        let duration_s = self.seconds_since_counting_start(self.last_closed_at);
        self.streams
            .iter()
            .zip(self.last_readings.iter().zip(&self.baseline))
            .map(|(stream, (last, base))| {
                let datagrams = counts_since(last.datagrams, base.datagrams);
                StreamResult {
                    id: stream.id,
                    bytes: last.bytes - base.bytes,
                    retransmits: (!self.is_udp && stream.role == Role::Source)
                        .then(|| last.retransmits - base.retransmits),
                    jitter_s: datagrams.jitter_s,
                    lost_datagrams: datagrams.lost.max(0) as u64,
                    datagrams: datagrams.datagrams,
                    omitted_datagrams: Some(base.datagrams.datagrams),
                    duration_s,
                }
            })
            .collect()
    }

    /// Returns the number of datagrams that arrived out of order, for each stream, as `results_until_last_closed_interval` counts.
    pub fn out_of_order_counts_of_last_interval(&self) -> Vec<u64> {
        self.last_readings
            .iter()
            .zip(&self.baseline)
            .map(|(last, base)| last.datagrams.out_of_order - base.datagrams.out_of_order)
            .collect()
    }

    fn receiving_streams(&self) -> impl Iterator<Item = &Arc<TestStream>> {
        self.streams
            .iter()
            .filter(|stream| stream.role == Role::Sink)
    }

    /// Returns the later of `time` and the last arrival of data.
    pub fn last_arrival_since(&self, time: Instant) -> Instant {
        self.receiving_streams()
            .map(|stream| stream.last_received_at())
            .fold(time, Instant::max)
    }

    /// Waits for the data in flight.
    ///
    /// Returns when every receiving stream is closed or has its `expected` bytes or datagrams (by stream id), when
    /// nothing has arrived for some time, or after a limit. What TCP has sent arrives, unless the stream is closed, so
    /// a known number of bytes is awaited for longer: on a busy machine the receiving thread may get no CPU for long.
    pub fn await_arrivals(&self, expected: &dyn Fn(u32) -> Option<u64>) {
        const POLL_INTERVAL: Duration = Duration::from_millis(1);
        let is_number_certain = !self.is_udp
            && self
                .receiving_streams()
                .all(|stream| expected(stream.id).is_some());
        let (idle_timeout, max_wait) = if is_number_certain {
            (Duration::from_secs(2), Duration::from_secs(10))
        } else {
            (Duration::from_millis(100), Duration::from_secs(1))
        };
        let started = Instant::now();
        loop {
            let is_complete = self.receiving_streams().all(|stream| {
                let arrived = if self.is_udp {
                    stream.datagrams.totals().datagrams
                } else {
                    stream.byte_count.bytes()
                };
                stream.is_closed.load(Ordering::Acquire)
                    || expected(stream.id).is_some_and(|all| arrived >= all)
            });
            let last = self.last_arrival_since(started);
            if is_complete || last.elapsed() >= idle_timeout || started.elapsed() >= max_wait {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Returns the increase of the counters; the jitter is the current value.
fn counts_since(now: DatagramTotals, before: DatagramTotals) -> DatagramTotals {
    DatagramTotals {
        datagrams: now.datagrams.saturating_sub(before.datagrams),
        lost: now.lost - before.lost,
        out_of_order: now.out_of_order - before.out_of_order,
        jitter_s: now.jitter_s,
    }
}
