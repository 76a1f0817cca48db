//! The text output, in iperf3's layout.

use crate::record::{Interval, StreamSample};
use crate::report::{
    DirectionSum, FinalReport, StreamLabel, StreamReport, loss_percent, sum_results,
};
use crate::results::StreamResult;
use crate::udp::DatagramTotals;
use crate::units::{RateFormat, format_bytes, format_rate};

/// Properties of a test that determine the layout of its output.
#[derive(Debug, Clone)]
pub struct ReportLayout {
    /// Whether the test uses UDP.
    pub is_udp: bool,
    /// Whether this host is the client.
    pub is_client: bool,
    /// Whether both hosts send.
    pub is_bidirectional: bool,
    /// Unit of rates.
    pub format: RateFormat,
    /// The streams, in order.
    pub streams: Vec<StreamLabel>,
}

/// The line between intervals and before the report.
pub const SEPARATOR: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -";

impl ReportLayout {
    fn has_sending_stream(&self) -> bool {
        self.streams.iter().any(|stream| stream.is_sender)
    }

    fn format_header(&self, columns: &str) -> String {
        let role = if self.is_bidirectional { "[Role]" } else { "" };
        format!("[ ID]{role} Interval           Transfer     Bitrate         {columns}")
            .trim_end()
            .into()
    }

    fn format_stream_tag(&self, id: &str, is_sender: bool) -> String {
        let role = match (self.is_bidirectional, is_sender, self.is_client) {
            (false, _, _) => "",
            (true, true, true) => "[TX-C]",
            (true, false, true) => "[RX-C]",
            (true, true, false) => "[TX-S]",
            (true, false, false) => "[RX-S]",
        };
        format!("[{id:>3}]{role}")
    }

    /// Returns the column headings of the intervals.
    pub fn interval_header(&self) -> String {
        self.format_header(
            match (
                self.is_udp,
                self.has_sending_stream(),
                self.is_bidirectional,
            ) {
                (false, true, _) => "Retr  Cwnd",
                (false, false, _) => "",
                (true, true, false) => "Total Datagrams",
                (true, _, _) => "Jitter    Lost/Total Datagrams",
            },
        )
    }

    /// Returns the column headings of the report.
    pub fn final_column_headings(&self) -> String {
        self.format_header(if self.is_udp {
            "Jitter    Lost/Total Datagrams"
        } else {
            "Retr"
        })
    }

    fn format_line(
        &self,
        tag: &str,
        start_and_end_s: (f64, f64),
        bytes: u64,
        columns: &str,
        note: &str,
    ) -> String {
        let (start, end) = start_and_end_s;
        let bits = format_rate(bytes, end - start, self.format);
        format!(
            "{tag} {start:>6.2}-{end:<6.2} sec  {:<11}  {bits:<15} {columns:<22} {note}",
            format_bytes(bytes)
        )
        .trim_end()
        .into()
    }

    /// Returns a line for each stream, and a sum for each direction with several streams.
    pub fn format_interval_lines(&self, interval: &Interval) -> Vec<String> {
        let times = (interval.start_s, interval.end_s);
        let note = if interval.is_omitted { "(omitted)" } else { "" };
        let all = || self.streams.iter().zip(&interval.samples);
        let mut lines: Vec<String> = all()
            .map(|(StreamLabel { label, is_sender }, sample)| {
                let tag = self.format_stream_tag(&label.to_string(), *is_sender);
                self.format_line(
                    &tag,
                    times,
                    sample.bytes,
                    &self.format_stream_columns(*is_sender, sample),
                    note,
                )
            })
            .collect();
        for direction in [true, false] {
            let samples: Vec<&StreamSample> = all()
                .filter(|(stream, _)| stream.is_sender == direction)
                .map(|(_, sample)| sample)
                .collect();
            if samples.len() > 1 {
                let sum = sum_samples(&samples);
                lines.push(self.format_line(
                    &self.format_stream_tag("SUM", direction),
                    times,
                    sum.bytes,
                    &self.format_sum_columns(direction, &sum),
                    note,
                ));
            }
        }
        lines
    }

    fn format_stream_columns(&self, is_sender: bool, sample: &StreamSample) -> String {
        match sample.tcp {
            Some(tcp) => format!(
                "{:>4}  {:>12}",
                tcp.retransmits,
                format_bytes(tcp.cwnd_bytes)
            ),
            None => self.format_sum_columns(is_sender, sample),
        }
    }

    fn format_sum_columns(&self, is_sender: bool, sample: &StreamSample) -> String {
        let datagrams = sample.datagrams;
        match (self.is_udp, is_sender) {
            (false, true) => format!("{:>4}", sample.tcp.map_or(0, |tcp| tcp.retransmits)),
            (false, false) => String::new(),
            (true, true) => format!("{}", datagrams.datagrams),
            (true, false) => format_loss(
                datagrams.jitter_s,
                datagrams.lost.max(0) as u64,
                datagrams.datagrams,
            ),
        }
    }

    /// Returns the lines of the report; a host without counts has no line.
    pub fn format_final_lines(&self, report: &FinalReport) -> Vec<String> {
        let mut lines: Vec<String> = report
            .streams
            .iter()
            .flat_map(|stream| self.format_final_stream_lines(stream))
            .collect();
        for is_sender in [true, false] {
            let Some(streams) = report
                .direction_streams(is_sender)
                .filter(|streams| streams.len() > 1)
            else {
                continue;
            };
            let sums = [
                (
                    "sender",
                    sum_results(streams.iter().map(|stream| stream.sender.as_ref())),
                ),
                (
                    "receiver",
                    sum_results(streams.iter().map(|stream| stream.receiver.as_ref())),
                ),
            ];
            for (endpoint_role, sum) in sums {
                lines.extend(sum.map(|sum| {
                    self.format_final_line(
                        &self.format_stream_tag("SUM", is_sender),
                        &sum,
                        endpoint_role,
                    )
                }));
            }
        }
        lines
    }

    fn format_final_stream_lines(&self, stream: &StreamReport) -> impl Iterator<Item = String> {
        let tag = self.format_stream_tag(&stream.label.to_string(), stream.is_sender);
        let line = |result: &Option<StreamResult>, endpoint_role| {
            let sum = sum_results(std::iter::once(result.as_ref()))?;
            Some(self.format_final_line(&tag, &sum, endpoint_role))
        };
        [
            line(&stream.sender, "sender"),
            line(&stream.receiver, "receiver"),
        ]
        .into_iter()
        .flatten()
    }

    fn format_final_line(&self, tag: &str, sum: &DirectionSum, endpoint_role: &str) -> String {
        let columns = if self.is_udp {
            format_loss(sum.jitter_s, sum.lost_datagrams, sum.datagrams)
        } else {
            sum.retransmits
                .map(|retransmits| format!("{retransmits:>4}"))
                .unwrap_or_default()
        };
        self.format_line(
            tag,
            (0.0, sum.duration_s),
            sum.bytes,
            &columns,
            endpoint_role,
        )
    }
}

fn format_loss(jitter_s: f64, lost: u64, packets: u64) -> String {
    format!(
        "{:.3} ms  {lost}/{packets} ({:.2}%)",
        1e3 * jitter_s,
        loss_percent(lost, packets)
    )
}

/// Returns the sum of the samples; the jitter is their mean.
pub fn sum_samples(samples: &[&StreamSample]) -> StreamSample {
    let mut sum = StreamSample::default();
    for sample in samples {
        sum.bytes += sample.bytes;
        if let Some(tcp) = sample.tcp {
            sum.tcp.get_or_insert_default().retransmits += tcp.retransmits;
        }
        sum.datagrams = DatagramTotals {
            datagrams: sum
                .datagrams
                .datagrams
                .saturating_add(sample.datagrams.datagrams),
            lost: sum.datagrams.lost.saturating_add(sample.datagrams.lost),
            out_of_order: sum.datagrams.out_of_order + sample.datagrams.out_of_order,
            jitter_s: sum.datagrams.jitter_s + sample.datagrams.jitter_s / samples.len() as f64,
        };
    }
    sum
}
