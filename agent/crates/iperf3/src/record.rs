//! The record of one test on one side: its intervals, and its totals from the end of what is omitted on.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::results::StreamResult;
use crate::streams::Flow;
use crate::udp::DatagramCount;
use vnetbench_counters::tcp_info::{Meter, TcpReading};
use vnetbench_streams::Role;

/// The most samples of single streams that are kept for JSON; a long test of many streams tells the rest in text.
pub const MAX_SAMPLES_KEPT: usize = 200_000;

/// What one stream did in one interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    pub bytes: u64,
    pub tcp: Option<TcpSample>,
    pub datagrams: DatagramCount,
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
    pub omitted: bool,
    /// In the order of the streams.
    pub samples: Vec<Sample>,
}

/// What a sending TCP stream showed over the whole test.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Extremes {
    pub max_cwnd_bytes: u64,
    pub max_rtt_us: u32,
    pub min_rtt_us: u32,
    rtt_sum_us: u64,
    readings: u64,
}

impl Extremes {
    pub fn mean_rtt_us(&self) -> u64 {
        self.rtt_sum_us.checked_div(self.readings).unwrap_or(0)
    }

    fn add(&mut self, sample: TcpSample) {
        self.max_cwnd_bytes = self.max_cwnd_bytes.max(sample.cwnd_bytes);
        self.max_rtt_us = self.max_rtt_us.max(sample.rtt_us);
        self.min_rtt_us = match self.readings {
            0 => sample.rtt_us,
            _ => self.min_rtt_us.min(sample.rtt_us),
        };
        self.rtt_sum_us += u64::from(sample.rtt_us);
        self.readings += 1;
    }
}

/// The counters of one stream at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Reading {
    bytes: u64,
    retransmits: u64,
    datagrams: DatagramCount,
}

pub struct Record {
    flows: Vec<Arc<Flow>>,
    is_udp: bool,
    meters: Vec<Meter>,
    /// At the end of what is omitted.
    base: Vec<Reading>,
    last: Vec<Reading>,
    last_at: Instant,
    started: Instant,
    pub extremes: Vec<Extremes>,
    pub intervals: Vec<Interval>,
    /// Intervals that were not kept, since there are too many.
    pub left_out: u64,
}

impl Record {
    pub fn begin(flows: &[Arc<Flow>], is_udp: bool) -> Self {
        let now = Instant::now();
        let mut record = Self {
            flows: flows.to_vec(),
            is_udp,
            meters: flows.iter().map(|_| Meter::default()).collect(),
            base: vec![Reading::default(); flows.len()],
            last: vec![Reading::default(); flows.len()],
            last_at: now,
            started: now,
            extremes: vec![Extremes::default(); flows.len()],
            intervals: Vec::new(),
            left_out: 0,
        };
        // Totals of a meter count from its first reading.
        record.read();
        record
    }

    fn read(&mut self) -> Vec<(Reading, Option<TcpReading>)> {
        let meters = self.meters.iter_mut();
        self.flows
            .iter()
            .zip(meters)
            .map(|(flow, meter)| {
                let tcp = (!self.is_udp && flow.role == Role::Source)
                    .then(|| meter.read(flow.socket.as_fd()));
                let reading = Reading {
                    bytes: flow.tally.bytes(),
                    retransmits: tcp.map_or(0, |tcp| tcp.retransmits),
                    datagrams: flow.datagrams.count(),
                };
                (reading, tcp)
            })
            .collect()
    }

    /// Closes the interval that ends now.
    pub fn interval(&mut self, now: Instant, omitted: bool) -> Interval {
        let read = self.read();
        let samples = read
            .iter()
            .zip(&self.last)
            .map(|((now, tcp), last)| Sample {
                bytes: now.bytes - last.bytes,
                tcp: tcp.map(|tcp| TcpSample {
                    retransmits: now.retransmits - last.retransmits,
                    cwnd_bytes: u64::from(tcp.cwnd) * u64::from(tcp.mss),
                    rtt_us: tcp.rtt_us,
                    rttvar_us: tcp.rttvar_us,
                }),
                datagrams: between(now.datagrams, last.datagrams),
            });
        let interval = Interval {
            start_s: self.since_start(self.last_at),
            end_s: self.since_start(now),
            omitted,
            samples: samples.collect(),
        };
        if !omitted {
            for (extremes, sample) in self.extremes.iter_mut().zip(&interval.samples) {
                if let Some(tcp) = sample.tcp {
                    extremes.add(tcp);
                }
            }
        }
        self.last = read.into_iter().map(|(reading, _)| reading).collect();
        self.last_at = now;
        interval
    }

    pub fn keep(&mut self, interval: Interval) {
        if (self.intervals.len() + 1) * self.flows.len().max(1) <= MAX_SAMPLES_KEPT {
            self.intervals.push(interval);
        } else {
            self.left_out += 1;
        }
    }

    /// Totals count from here, where an interval has just been closed, and time begins anew.
    pub fn omit_until_here(&mut self) {
        self.base.clone_from(&self.last);
        self.started = self.last_at;
    }

    pub fn since_start(&self, moment: Instant) -> f64 {
        moment.saturating_duration_since(self.started).as_secs_f64()
    }

    /// Whether anything has been counted since the last interval was closed.
    pub fn is_behind(&self) -> bool {
        self.flows
            .iter()
            .zip(&self.last)
            .any(|(flow, last)| flow.tally.bytes() != last.bytes)
    }

    pub fn last_at(&self) -> Instant {
        self.last_at
    }

    /// Bytes of all streams so far, whatever is omitted.
    pub fn moved(&self) -> u64 {
        self.flows.iter().map(|flow| flow.tally.bytes()).sum()
    }

    /// What this side tells the other, up to the last interval that was closed.
    pub fn totals(&self) -> Vec<StreamResult> {
        let seconds = self.since_start(self.last_at);
        self.flows
            .iter()
            .zip(self.last.iter().zip(&self.base))
            .map(|(flow, (last, base))| {
                let datagrams = between(last.datagrams, base.datagrams);
                StreamResult {
                    id: flow.id,
                    bytes: last.bytes - base.bytes,
                    retransmits: (!self.is_udp && flow.role == Role::Source)
                        .then(|| last.retransmits - base.retransmits),
                    jitter_s: datagrams.jitter_s,
                    errors: datagrams.lost.max(0) as u64,
                    packets: datagrams.packets,
                    omitted_packets: Some(base.datagrams.packets),
                    seconds,
                }
            })
            .collect()
    }

    /// Datagrams that came out of order, of each stream.
    pub fn out_of_order(&self) -> Vec<u64> {
        self.last
            .iter()
            .zip(&self.base)
            .map(|(last, base)| last.datagrams.out_of_order - base.datagrams.out_of_order)
            .collect()
    }

    fn receiving(&self) -> impl Iterator<Item = &Arc<Flow>> {
        self.flows.iter().filter(|flow| flow.role == Role::Sink)
    }

    /// When data came last, or the moment, whichever is later.
    pub fn received_last(&self, moment: Instant) -> Instant {
        self.receiving()
            .map(|flow| flow.received_at())
            .fold(moment, Instant::max)
    }

    /// Lets what is on its way arrive: until every receiving stream has `expected` (by its id, bytes or datagrams), is
    /// closed, or nothing has come for `IDLE`, and `LONGEST` at most.
    pub fn drain(&self, expected: &dyn Fn(u32) -> Option<u64>) {
        const IDLE: Duration = Duration::from_millis(100);
        const LONGEST: Duration = Duration::from_secs(1);
        const STEP: Duration = Duration::from_millis(1);
        let began = Instant::now();
        loop {
            let all_here = self.receiving().all(|flow| {
                let has = if self.is_udp {
                    flow.datagrams.count().packets
                } else {
                    flow.tally.bytes()
                };
                flow.at_end.load(Ordering::Acquire)
                    || expected(flow.id).is_some_and(|all| has >= all)
            });
            let last = self.received_last(began);
            if all_here || last.elapsed() >= IDLE || began.elapsed() >= LONGEST {
                return;
            }
            std::thread::sleep(STEP);
        }
    }
}

fn between(now: DatagramCount, before: DatagramCount) -> DatagramCount {
    DatagramCount {
        packets: now.packets.saturating_sub(before.packets),
        lost: now.lost - before.lost,
        out_of_order: now.out_of_order - before.out_of_order,
        jitter_s: now.jitter_s,
    }
}
