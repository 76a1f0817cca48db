//! The record of one test on one side: its intervals, and its totals from the end of what is omitted on.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::results::StreamResult;
use crate::streams::TestStream;
use crate::udp::DatagramTotals;
use vnetbench_counters::tcp_info::{Meter, TcpReading};
use vnetbench_streams::Role;

/// The most samples of single streams that are kept for JSON; a long test of many streams tells the rest in text.
pub const MAX_SAMPLES: usize = 200_000;

/// What one stream did in one interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamSample {
    pub bytes: u64,
    pub tcp: Option<TcpSample>,
    pub datagrams: DatagramTotals,
}

/// A sending TCP stream.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TcpSample {
    pub retransmits: u64,
    pub cwnd_bytes: u64,
    pub rtt_us: u32,
    pub rttvar_us: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    pub start_s: f64,
    pub end_s: f64,
    pub is_omitted: bool,
    /// In the order of the streams.
    pub samples: Vec<StreamSample>,
}

/// What a sending TCP stream showed over the whole test.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TcpExtremes {
    pub max_cwnd_bytes: u64,
    pub max_rtt_us: u32,
    pub min_rtt_us: u32,
    rtt_sum_us: u64,
    sample_count: u64,
}

impl TcpExtremes {
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

/// The counters of one stream at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct CounterReading {
    bytes: u64,
    retransmits: u64,
    datagrams: DatagramTotals,
}

pub struct TestRecord {
    streams: Vec<Arc<TestStream>>,
    is_udp: bool,
    meters: Vec<Meter>,
    /// At the end of what is omitted.
    baseline: Vec<CounterReading>,
    last_readings: Vec<CounterReading>,
    last_at: Instant,
    started: Instant,
    pub extremes: Vec<TcpExtremes>,
    pub intervals: Vec<Interval>,
    /// Intervals that were not kept, since there are too many.
    pub dropped_intervals: u64,
}

impl TestRecord {
    pub fn new(streams: &[Arc<TestStream>], is_udp: bool) -> Self {
        let now = Instant::now();
        let mut record = Self {
            streams: streams.to_vec(),
            is_udp,
            meters: streams.iter().map(|_| Meter::default()).collect(),
            baseline: vec![CounterReading::default(); streams.len()],
            last_readings: vec![CounterReading::default(); streams.len()],
            last_at: now,
            started: now,
            extremes: vec![TcpExtremes::default(); streams.len()],
            intervals: Vec::new(),
            dropped_intervals: 0,
        };
        // Totals of a meter count from its first reading.
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
                    .then(|| meter.read(stream.socket.as_fd()));
                let reading = CounterReading {
                    bytes: stream.byte_count.bytes(),
                    retransmits: tcp.map_or(0, |tcp| tcp.retransmits),
                    datagrams: stream.datagrams.totals(),
                };
                (reading, tcp)
            })
            .collect()
    }

    /// Closes the interval that ends now.
    pub fn close_interval(&mut self, now: Instant, omitted: bool) -> Interval {
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
            start_s: self.seconds_since_start(self.last_at),
            end_s: self.seconds_since_start(now),
            is_omitted: omitted,
            samples: samples.collect(),
        };
        if !omitted {
            for (extremes, sample) in self.extremes.iter_mut().zip(&interval.samples) {
                if let Some(tcp) = sample.tcp {
                    extremes.add(tcp);
                }
            }
        }
        self.last_readings = readings.into_iter().map(|(reading, _)| reading).collect();
        self.last_at = now;
        interval
    }

    pub fn push_interval(&mut self, interval: Interval) {
        if (self.intervals.len() + 1) * self.streams.len().max(1) <= MAX_SAMPLES {
            self.intervals.push(interval);
        } else {
            self.dropped_intervals += 1;
        }
    }

    /// Totals count from here, where an interval has just been closed, and time begins anew.
    pub fn reset_baseline(&mut self) {
        self.baseline.clone_from(&self.last_readings);
        self.started = self.last_at;
    }

    pub fn seconds_since_start(&self, time: Instant) -> f64 {
        time.saturating_duration_since(self.started).as_secs_f64()
    }

    /// Whether anything has been counted since the last interval was closed.
    pub fn has_unreported_bytes(&self) -> bool {
        self.streams
            .iter()
            .zip(&self.last_readings)
            .any(|(stream, last)| stream.byte_count.bytes() != last.bytes)
    }

    pub fn last_at(&self) -> Instant {
        self.last_at
    }

    /// Bytes of all streams so far, whatever is omitted.
    pub fn total_bytes(&self) -> u64 {
        self.streams
            .iter()
            .map(|stream| stream.byte_count.bytes())
            .sum()
    }

    /// What this side tells the other, up to the last interval that was closed.
    pub fn stream_results(&self) -> Vec<StreamResult> {
        let seconds = self.seconds_since_start(self.last_at);
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
                    duration_s: seconds,
                }
            })
            .collect()
    }

    /// Datagrams that came out of order, of each stream.
    pub fn out_of_order(&self) -> Vec<u64> {
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

    /// When data came last, or the moment, whichever is later.
    pub fn last_received_at(&self, time: Instant) -> Instant {
        self.receiving_streams()
            .map(|stream| stream.last_received_at())
            .fold(time, Instant::max)
    }

    /// Lets what is on its way arrive: until every receiving stream has `expected` (by its id, bytes or datagrams), is
    /// closed, or nothing has come for `IDLE`, and `LONGEST` at most.
    pub fn await_arrivals(&self, expected: &dyn Fn(u32) -> Option<u64>) {
        const IDLE: Duration = Duration::from_millis(100);
        const LONGEST: Duration = Duration::from_secs(1);
        const STEP: Duration = Duration::from_millis(1);
        let began = Instant::now();
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
            let last = self.last_received_at(began);
            if is_complete || last.elapsed() >= IDLE || began.elapsed() >= LONGEST {
                return;
            }
            std::thread::sleep(STEP);
        }
    }
}

fn counts_since(now: DatagramTotals, before: DatagramTotals) -> DatagramTotals {
    DatagramTotals {
        datagrams: now.datagrams.saturating_sub(before.datagrams),
        lost: now.lost - before.lost,
        out_of_order: now.out_of_order - before.out_of_order,
        jitter_s: now.jitter_s,
    }
}
