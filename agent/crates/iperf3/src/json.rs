//! One test as a JSON document in the format of `iperf3 -J`: `start`, `intervals`, `end`.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};

use crate::limits::EndCondition;
use crate::parameters::{Direction, TestParameters};
use crate::record::{Interval, StreamSample};
use crate::report::{
    DirectionSum, FinalReport, StreamLabel, StreamReport, loss_percent, sum_results,
};
use crate::results::{CpuUsage, sanitize_text};
use crate::sockets::unmap_ipv4_address;
use crate::streams::LabelledStream;
use crate::text::{ReportLayout, sum_samples};

/// The document; the order of the fields is that of iperf3.
#[derive(Debug, Default, Serialize)]
pub struct JsonDocument {
    /// Title of the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The client's extra data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_data: Option<String>,
    /// Properties of the test.
    pub start: Value,
    /// The intervals.
    pub intervals: Vec<Value>,
    /// Number of intervals beyond the limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub intervals_left_out: u64,
    /// The final report.
    pub end: Value,
    /// The server's text output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_output_text: Option<String>,
    /// The server's JSON output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_output_json: Option<Value>,
    /// The reason why the test failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Properties of a test that are known before the load starts.
pub struct StartInfo<'a> {
    /// Whether this host is the client.
    pub is_client: bool,
    /// The parameters.
    pub parameters: &'a TestParameters,
    /// The test's cookie.
    pub cookie: &'a [u8],
    /// Address of the peer.
    pub peer: SocketAddr,
    /// Maximum segment size of the control connection.
    pub control_mss: u32,
    /// The streams with their labels.
    pub streams: &'a [LabelledStream<'a>],
}

/// Returns the version of this program.
pub fn vnetbench_version_text() -> String {
    format!("vnetbench {}", env!("CARGO_PKG_VERSION"))
}

/// Returns the section `start`.
pub fn start_section_json(start: &StartInfo<'_>) -> Value {
    let parameters = start.parameters;
    let connected: Vec<Value> = start
        .streams
        .iter()
        .filter_map(|LabelledStream { label, stream }| {
            let local = unmap_ipv4_address(stream.socket.local_addr().ok()?.as_socket()?);
            let remote = unmap_ipv4_address(stream.socket.peer_addr().ok()?.as_socket()?);
            Some(json!({
                "socket": label,
                "local_host": local.ip().to_string(), "local_port": local.port(),
                "remote_host": remote.ip().to_string(), "remote_port": remote.port(),
            }))
        })
        .collect();
    let socket = start.streams.first().map(|first| &first.stream.socket);
    let (seconds, bytes, blocks) = match parameters.end_condition {
        EndCondition::After(time) => (time.as_secs_f64(), 0, 0),
        EndCondition::Bytes(bytes) => (0.0, bytes, 0),
        EndCondition::Blocks(blocks) => (0.0, 0, blocks),
        EndCondition::Never => (0.0, 0, 0),
    };
    let peer = unmap_ipv4_address(start.peer);
    let cookie = start
        .cookie
        .split_last()
        .map_or(start.cookie, |(_, text)| text);
    json!({
        "connected": connected,
        "version": vnetbench_version_text(),
        "system_info": read_system_info(),
        "timestamp": timestamp_json(),
        if start.is_client { "connecting_to" } else { "accepted_connection" }:
            {"host": peer.ip().to_string(), "port": peer.port()},
        "cookie": sanitize_text(&String::from_utf8_lossy(cookie)),
        "tcp_mss_default": start.control_mss,
        "target_bitrate": parameters.rate_bps,
        "sock_bufsize": parameters.socket_buffer_bytes.unwrap_or(0),
        "sndbuf_actual": socket.and_then(|socket| socket.send_buffer_size().ok()),
        "rcvbuf_actual": socket.and_then(|socket| socket.recv_buffer_size().ok()),
        "test_start": {
            "protocol": if parameters.is_udp() { "UDP" } else { "TCP" },
            "num_streams": parameters.streams_per_direction,
            "blksize": parameters.block_bytes,
            "omit": parameters.omit.as_secs_f64(),
            "duration": seconds,
            "bytes": bytes,
            "blocks": blocks,
            "reverse": u8::from(parameters.direction == Direction::Reverse),
            "bidir": u8::from(parameters.direction == Direction::Bidirectional),
            "tos": parameters.tos,
            "target_bitrate": parameters.rate_bps,
        },
    })
}

/// Returns the system's name, host, release, version and machine, as `uname -a` prints them.
fn read_system_info() -> String {
    let system = rustix::system::uname();
    [
        system.sysname(),
        system.nodename(),
        system.release(),
        system.version(),
        system.machine(),
    ]
    .map(|part| part.to_string_lossy().into_owned())
    .join(" ")
}

fn timestamp_json() -> Value {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    json!({"time": format_http_date(seconds), "timesecs": seconds})
}

/// Formats a time as in `Sat, 21 Nov 2026 08:51:59 GMT`.
///
/// Counts days in eras of 400 years that start in March, so that the leap day is the last day of a year.
fn format_http_date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb",
    ];
    let days = seconds / 86_400;
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era + u64::from(month >= 10);
    format!(
        "{}, {day:02} {} {year} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[month as usize],
        seconds / 3_600 % 24,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Returns one element of the section `intervals`.
pub fn interval_json(layout: &ReportLayout, interval: &Interval) -> Value {
    let seconds = interval.end_s - interval.start_s;
    let sample_json = |sample: &StreamSample, is_sender: bool| {
        let mut document = json!({
            "start": interval.start_s, "end": interval.end_s, "seconds": seconds,
            "bytes": sample.bytes, "bits_per_second": bits_per_second(sample.bytes, seconds),
            "omitted": interval.is_omitted, "sender": is_sender,
        });
        let datagrams = sample.datagrams;
        if layout.is_udp {
            document["packets"] = datagrams.datagrams.into();
        }
        if layout.is_udp && !is_sender {
            let lost = datagrams.lost.max(0) as u64;
            document["jitter_ms"] = (1e3 * datagrams.jitter_s).into();
            document["lost_packets"] = datagrams.lost.into();
            document["lost_percent"] = loss_percent(lost, datagrams.datagrams).into();
        }
        if let Some(tcp) = sample.tcp {
            document["retransmits"] = tcp.retransmits.into();
        }
        document
    };
    let streams = layout.streams.iter().zip(&interval.samples).map(
        |(StreamLabel { label, is_sender }, sample)| {
            let mut document = sample_json(sample, *is_sender);
            document["socket"] = (*label).into();
            if let Some(tcp) = sample.tcp {
                document["snd_cwnd"] = tcp.cwnd_bytes.into();
                document["rtt"] = tcp.rtt_us.into();
                document["rttvar"] = tcp.rttvar_us.into();
            }
            document
        },
    );
    let mut document = json!({"streams": streams.collect::<Vec<_>>()});
    for DirectionSuffix { is_sender, suffix } in direction_suffixes(layout) {
        let samples: Vec<&StreamSample> = layout
            .streams
            .iter()
            .zip(&interval.samples)
            .filter(|(stream, _)| stream.is_sender == is_sender)
            .map(|(_, sample)| sample)
            .collect();
        if !samples.is_empty() {
            document[format!("sum{suffix}")] = sample_json(&sum_samples(&samples), is_sender);
        }
    }
    document
}

/// A direction, and the suffix of the names of its sums.
struct DirectionSuffix {
    /// Whether this host sends.
    is_sender: bool,
    suffix: &'static str,
}

/// Returns the directions with the suffix of their sums; in a bidirectional test, the server's data is the reverse.
fn direction_suffixes(layout: &ReportLayout) -> [DirectionSuffix; 2] {
    let (first_sends, reverse_suffix) = if layout.is_bidirectional {
        (layout.is_client, "_bidir_reverse")
    } else {
        (true, "")
    };
    [(first_sends, ""), (!first_sends, reverse_suffix)]
        .map(|(is_sender, suffix)| DirectionSuffix { is_sender, suffix })
}

fn bits_per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    }
}

/// Returns the section `end`.
pub fn end_section_json(layout: &ReportLayout, report: &FinalReport) -> Value {
    let streams: Vec<Value> = report
        .streams
        .iter()
        .map(|stream| end_stream_json(layout, stream))
        .collect();
    let remote = report.remote_cpu.unwrap_or_default();
    let CpuUsage {
        total,
        user,
        system,
    } = report.local_cpu;
    let mut document = json!({
        "streams": streams,
        "cpu_utilization_percent": {
            "host_total": total, "host_user": user, "host_system": system,
            "remote_total": remote.total, "remote_user": remote.user, "remote_system": remote.system,
        },
    });
    for DirectionSuffix { is_sender, suffix } in direction_suffixes(layout) {
        let Some(streams) = report.direction_streams(is_sender) else {
            continue;
        };
        let sent = sum_results(streams.iter().map(|stream| stream.sender.as_ref()));
        let received = sum_results(streams.iter().map(|stream| stream.receiver.as_ref()));
        if layout.is_udp {
            let both = combine_udp_sums(sent.as_ref(), received.as_ref());
            document[format!("sum{suffix}")] = sum_json(layout, &both, is_sender);
        }
        let endpoint_sums = [("sum_sent", sent), ("sum_received", received)];
        for (name_prefix, sum) in endpoint_sums {
            document[format!("{name_prefix}{suffix}")] =
                sum_json(layout, &sum.unwrap_or_default(), is_sender);
        }
    }
    if !layout.is_udp {
        let (sender, receiver) = if layout.streams.iter().any(|stream| stream.is_sender) {
            (
                &report.local_congestion_control,
                &report.remote_congestion_control,
            )
        } else {
            (
                &report.remote_congestion_control,
                &report.local_congestion_control,
            )
        };
        document["sender_tcp_congestion"] = json!(sender);
        document["receiver_tcp_congestion"] = json!(receiver);
    }
    document
}

/// Returns the sum of a UDP direction: the sender knows the datagrams sent, the receiver those lost.
fn combine_udp_sums(sent: Option<&DirectionSum>, received: Option<&DirectionSum>) -> DirectionSum {
    let (bytes, datagrams) = sent
        .or(received)
        .map_or((0, 0), |sum| (sum.bytes, sum.datagrams));
    DirectionSum {
        bytes,
        datagrams,
        ..received.or(sent).cloned().unwrap_or_default()
    }
}

fn sum_json(layout: &ReportLayout, sum: &DirectionSum, is_sender: bool) -> Value {
    let mut document = json!({
        "start": 0, "end": sum.duration_s, "seconds": sum.duration_s,
        "bytes": sum.bytes, "bits_per_second": bits_per_second(sum.bytes, sum.duration_s), "sender": is_sender,
    });
    if layout.is_udp {
        document["jitter_ms"] = (1e3 * sum.jitter_s).into();
        document["lost_packets"] = sum.lost_datagrams.into();
        document["packets"] = sum.datagrams.into();
        document["lost_percent"] = loss_percent(sum.lost_datagrams, sum.datagrams).into();
    } else if let Some(retransmits) = sum.retransmits {
        document["retransmits"] = retransmits.into();
    }
    document
}

fn end_stream_json(layout: &ReportLayout, stream: &StreamReport) -> Value {
    let endpoint_json = |result| {
        let sum = sum_results(std::iter::once(result)).unwrap_or_default();
        let mut document = sum_json(layout, &sum, stream.is_sender);
        document["socket"] = stream.label.into();
        document
    };
    let mut sender = endpoint_json(stream.sender.as_ref());
    let receiver = endpoint_json(stream.receiver.as_ref());
    if layout.is_udp {
        let mut udp = endpoint_json(stream.receiver.as_ref().or(stream.sender.as_ref()));
        for name in ["bytes", "bits_per_second", "packets"] {
            if stream.sender.is_some() {
                udp[name] = sender[name].take();
            }
        }
        udp["out_of_order"] = stream.out_of_order.into();
        return json!({"udp": udp});
    }
    if stream.is_sender {
        sender["max_snd_cwnd"] = stream.extremes.max_cwnd_bytes.into();
        sender["max_rtt"] = stream.extremes.max_rtt_us.into();
        sender["min_rtt"] = stream.extremes.min_rtt_us.into();
        sender["mean_rtt"] = stream.extremes.mean_rtt_us().into();
    }
    json!({"sender": sender, "receiver": receiver})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_matches_the_calendar() {
        assert_eq!(format_http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(
            format_http_date(951_782_399),
            "Mon, 28 Feb 2000 23:59:59 GMT"
        );
        assert_eq!(
            format_http_date(951_782_400),
            "Tue, 29 Feb 2000 00:00:00 GMT"
        );
        assert_eq!(
            format_http_date(1_795_251_119),
            "Sat, 21 Nov 2026 08:51:59 GMT"
        );
    }
}
