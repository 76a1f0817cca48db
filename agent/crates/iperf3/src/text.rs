//! The lines that people read, as iperf3 lays them out.

use crate::record::{Interval, Sample};
use crate::report::{Counted, Final, Sum, lost_percent, sum_of};
use crate::results::StreamResult;
use crate::udp::DatagramCount;
use crate::units::{Format, amount, rate};

/// What all lines of a test have in common.
#[derive(Debug, Clone)]
pub struct Layout {
    pub is_udp: bool,
    pub is_client: bool,
    pub both_ways: bool,
    pub format: Format,
    /// What each stream is called, and whether this side sends on it.
    pub streams: Vec<(u32, bool)>,
}

pub const RULE: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -";

impl Layout {
    fn any_sends(&self) -> bool {
        self.streams.iter().any(|(_, sends)| *sends)
    }

    fn head(&self, further: &str) -> String {
        let role = if self.both_ways { "[Role]" } else { "" };
        format!("[ ID]{role} Interval           Transfer     Bitrate         {further}")
            .trim_end()
            .into()
    }

    fn tag(&self, id: &str, sends: bool) -> String {
        let role = match (self.both_ways, sends, self.is_client) {
            (false, _, _) => "",
            (true, true, true) => "[TX-C]",
            (true, false, true) => "[RX-C]",
            (true, true, false) => "[TX-S]",
            (true, false, false) => "[RX-S]",
        };
        format!("[{id:>3}]{role}")
    }

    pub fn interval_head(&self) -> String {
        self.head(match (self.is_udp, self.any_sends(), self.both_ways) {
            (false, true, _) => "Retr  Cwnd",
            (false, false, _) => "",
            (true, true, false) => "Total Datagrams",
            (true, _, _) => "Jitter    Lost/Total Datagrams",
        })
    }

    pub fn final_head(&self) -> String {
        self.head(if self.is_udp {
            "Jitter    Lost/Total Datagrams"
        } else {
            "Retr"
        })
    }

    fn line(&self, tag: &str, times: (f64, f64), bytes: u64, further: &str, note: &str) -> String {
        let (start, end) = times;
        let bits = rate(bytes, end - start, self.format);
        format!(
            "{tag} {start:>6.2}-{end:<6.2} sec  {:<11}  {bits:<15} {further:<22} {note}",
            amount(bytes)
        )
        .trim_end()
        .into()
    }

    /// A line for each stream, and a sum for each direction that has several.
    pub fn interval(&self, interval: &Interval) -> Vec<String> {
        let times = (interval.start_s, interval.end_s);
        let note = if interval.omitted { "(omitted)" } else { "" };
        let all = || self.streams.iter().zip(&interval.samples);
        let mut lines: Vec<String> = all()
            .map(|((shown, sends), sample)| {
                let tag = self.tag(&shown.to_string(), *sends);
                self.line(
                    &tag,
                    times,
                    sample.bytes,
                    &self.detail(*sends, sample),
                    note,
                )
            })
            .collect();
        for direction in [true, false] {
            let samples: Vec<&Sample> = all()
                .filter(|((_, sends), _)| *sends == direction)
                .map(|(_, sample)| sample)
                .collect();
            if samples.len() > 1 {
                let sum = sum_of_samples(&samples);
                lines.push(self.line(
                    &self.tag("SUM", direction),
                    times,
                    sum.bytes,
                    &self.sum_detail(direction, &sum),
                    note,
                ));
            }
        }
        lines
    }

    fn detail(&self, sends: bool, sample: &Sample) -> String {
        match sample.tcp {
            Some(tcp) => format!("{:>4}  {:>12}", tcp.retransmits, amount(tcp.cwnd_bytes)),
            None => self.sum_detail(sends, sample),
        }
    }

    fn sum_detail(&self, sends: bool, sample: &Sample) -> String {
        let datagrams = sample.datagrams;
        match (self.is_udp, sends) {
            (false, true) => format!("{:>4}", sample.tcp.map_or(0, |tcp| tcp.retransmits)),
            (false, false) => String::new(),
            (true, true) => format!("{}", datagrams.packets),
            (true, false) => loss(
                datagrams.jitter_s,
                datagrams.lost.max(0) as u64,
                datagrams.packets,
            ),
        }
    }

    /// What both sides have counted; a side that told nothing has no line.
    pub fn final_lines(&self, done: &Final) -> Vec<String> {
        let mut lines: Vec<String> = done
            .streams
            .iter()
            .flat_map(|stream| self.final_stream(stream))
            .collect();
        for sends in [true, false] {
            let Some(streams) = done.direction(sends).filter(|streams| streams.len() > 1) else {
                continue;
            };
            let sums = [
                (
                    "sender",
                    sum_of(streams.iter().map(|stream| stream.sender.as_ref())),
                ),
                (
                    "receiver",
                    sum_of(streams.iter().map(|stream| stream.receiver.as_ref())),
                ),
            ];
            for (who, sum) in sums {
                lines.extend(sum.map(|sum| self.final_line(&self.tag("SUM", sends), &sum, who)));
            }
        }
        lines
    }

    fn final_stream(&self, stream: &Counted) -> impl Iterator<Item = String> {
        let tag = self.tag(&stream.shown.to_string(), stream.sends);
        let line = |result: &Option<StreamResult>, who| {
            let sum = sum_of(std::iter::once(result.as_ref()))?;
            Some(self.final_line(&tag, &sum, who))
        };
        [
            line(&stream.sender, "sender"),
            line(&stream.receiver, "receiver"),
        ]
        .into_iter()
        .flatten()
    }

    fn final_line(&self, tag: &str, sum: &Sum, who: &str) -> String {
        let further = if self.is_udp {
            loss(sum.jitter_s, sum.lost, sum.packets)
        } else {
            sum.retransmits
                .map(|retransmits| format!("{retransmits:>4}"))
                .unwrap_or_default()
        };
        self.line(tag, (0.0, sum.seconds), sum.bytes, &further, who)
    }
}

fn loss(jitter_s: f64, lost: u64, packets: u64) -> String {
    format!(
        "{:.3} ms  {lost}/{packets} ({:.2}%)",
        1e3 * jitter_s,
        lost_percent(lost, packets)
    )
}

/// Jitter is the mean over the streams.
pub fn sum_of_samples(samples: &[&Sample]) -> Sample {
    let mut sum = Sample::default();
    for sample in samples {
        sum.bytes += sample.bytes;
        if let Some(tcp) = sample.tcp {
            sum.tcp.get_or_insert_default().retransmits += tcp.retransmits;
        }
        sum.datagrams = DatagramCount {
            packets: sum
                .datagrams
                .packets
                .saturating_add(sample.datagrams.packets),
            lost: sum.datagrams.lost.saturating_add(sample.datagrams.lost),
            out_of_order: sum.datagrams.out_of_order + sample.datagrams.out_of_order,
            jitter_s: sum.datagrams.jitter_s + sample.datagrams.jitter_s / samples.len() as f64,
        };
    }
    sum
}
