//! The workload `udp_stream`: datagrams with sequence numbers and timestamps in one direction, with or without a rate.
//!
//! The stream's connection carries the handshake (`udp_handshake`) and the number sent. A thread drives each stream.

use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags, Shutdown, shutdown};
use rustix::thread::set_current_timer_slack;

use crate::flow_options::{FlowOptions, PacingWait};
use crate::receive::COALESCING_DELAY;
use crate::udp_calls::{ReceiveBatch, ReceivedMessage, SendBatch};
use vnetbench_streams::arrival_gaps::{Arrival, ArrivalRecorder};
use vnetbench_streams::datagram_header::{DatagramHeader, SMALL_PROBE_NUMBER};
use vnetbench_streams::datagrams::{DatagramCounts, DatagramFlow, PacingDeviation};
use vnetbench_streams::jitter::JitterEstimator;
use vnetbench_streams::reception::SequenceTracker;
use vnetbench_streams::threads::{self, StartedThread, ThreadPlan};
use vnetbench_streams::timing::Pacing;
use vnetbench_streams::{Command, Commands, EndGuard, OnEnd, Role, Stream, StreamEnd};
use vnetbench_system::clock::realtime_nanos;

/// Time limit of blocking calls, after which the thread checks its command.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// A sink stops waiting for missing datagrams after this time without any, once it knows the number sent.
const DRAIN_QUIET_TIME: Duration = Duration::from_millis(250);
/// Number of recent sequence numbers for which a sink detects duplicates.
const SEQUENCE_WINDOW_DATAGRAMS: u64 = 1 << 17;
/// Range of messages per call in which the sink delays the next call, so that it receives more at once.
///
/// Below it, the flow is slow. Above it, a delay could overflow the socket's buffer.
const MESSAGE_COUNTS_DELAYING_NEXT_CALL: Range<usize> = 2..32;
/// A spinning source stops sleeping this long before a datagram is due, because a sleep can end that late.
const SPIN_TIME_BEFORE_DUE: Duration = Duration::from_micros(100);

/// Starts the threads, which wait for `Command::Go`. Each stream calls `on_end` once, at its end.
///
/// # Errors
///
/// The system refuses a thread, its CPUs or a socket option.
pub(crate) fn start(
    streams: &[Arc<Stream>],
    options: FlowOptions,
    threads: &ThreadPlan,
    commands: &Arc<Commands>,
    on_end: &OnEnd,
) -> io::Result<Vec<StartedThread>> {
    threads::start_threads(streams, threads, commands, |thread_streams| {
        let stream = &thread_streams[0];
        let socket = &datagram_flow(stream).socket;
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
        socket.set_write_timeout(Some(STOP_CHECK_INTERVAL))?;
        stream.socket.set_nonblocking(false)?;
        stream.socket.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
        let guard = EndGuard::new(stream, on_end);
        Ok(move |commands: &Commands| {
            let stream = &*guard.stream;
            let end = match stream.role {
                Role::Source => run_source(stream, options, commands),
                Role::Sink => run_sink(stream, options, commands),
            };
            stream.record_end(match end {
                Ok(end) => end,
                Err(_) if commands.current() == Command::EndAll => StreamEnd::Cut,
                Err(error) => StreamEnd::Broken(error),
            });
        })
    })
}

/// Returns the flow of a datagram stream.
fn datagram_flow(stream: &Stream) -> &DatagramFlow {
    stream
        .datagrams
        .as_ref()
        .expect("every datagram stream has a flow")
}

/// Returns whether a later call can succeed.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS)
    )
}

/// Runs a source: sends datagrams until the end of the load, and then their number.
fn run_source(stream: &Stream, options: FlowOptions, commands: &Commands) -> io::Result<StreamEnd> {
    let mut batch = SendBatch::new(options.datagram_bytes, options.uses_udp_gso);
    let sent = match &datagram_flow(stream).pacing {
        None => send_unpaced(stream, &mut batch, commands)?,
        Some(pacing) => send_paced(stream, &mut batch, pacing, options.pacing_wait, commands)?,
    };
    // The empty buffer of the connection takes all bytes.
    rustix::net::send(&stream.socket, &sent.to_be_bytes(), SendFlags::NOSIGNAL)?;
    shutdown(&stream.socket, Shutdown::Write)?;
    let mut unexpected = [0; 64];
    loop {
        match rustix::net::recv(&stream.socket, &mut unexpected[..], RecvFlags::empty()) {
            _ if commands.current() == Command::EndAll => return Ok(StreamEnd::Cut),
            Ok((0, _)) => return Ok(StreamEnd::Drained),
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends up to `count` datagrams, numbered from `number`; returns how many the kernel accepted.
fn send_batch(
    stream: &Stream,
    batch: &mut SendBatch,
    number: u64,
    count: usize,
) -> io::Result<usize> {
    let datagrams = datagram_flow(stream);
    let first = DatagramHeader {
        key: datagrams.key,
        number,
        sent_nanos: realtime_nanos(),
    };
    let sent_count = match batch.send(datagrams.socket.as_fd(), first, count) {
        Ok(sent_count) => sent_count,
        Err(error) if is_transient(&error) => return Ok(0),
        Err(error) => return Err(error),
    };
    stream
        .counters
        .sent
        .add(sent_count * batch.datagram_bytes());
    datagrams.counters.set(DatagramCounts {
        datagrams: number + sent_count as u64,
        ..DatagramCounts::default()
    });
    Ok(sent_count)
}

/// Sends at full speed until the end of the load; returns the number sent.
fn send_unpaced(stream: &Stream, batch: &mut SendBatch, commands: &Commands) -> io::Result<u64> {
    let max_datagrams = batch.max_datagrams();
    let mut number = 0;
    while commands.current() == Command::Go {
        number += send_batch(stream, batch, number, max_datagrams)? as u64;
    }
    Ok(number)
}

/// Sends each datagram when it is due, and overdue ones in one call; returns the number sent.
fn send_paced(
    stream: &Stream,
    batch: &mut SendBatch,
    pacing: &Pacing,
    wait: PacingWait,
    commands: &Commands,
) -> io::Result<u64> {
    // Otherwise, the kernel may wake this thread up to 50 µs late, to combine wakeups.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let max_datagrams = batch.max_datagrams() as u64;
    let gap = pacing.schedule.gap();
    let mut pacing_deviation = PacingDeviation::default();
    let mut number = 0;
    while let Some(now) = wait_until_due_or_end(pacing.schedule.due_at(number), wait, commands) {
        let due_count = pacing
            .schedule
            .count_due_until(now)
            .saturating_sub(number)
            .clamp(1, max_datagrams);
        let sent_count = send_batch(stream, batch, number, due_count as usize)?;
        for sent_number in number..number + sent_count as u64 {
            let lateness = now.saturating_duration_since(pacing.schedule.due_at(sent_number));
            pacing.lateness.record(lateness);
        }
        if sent_count > 0 {
            pacing_deviation.record(now, sent_count, gap);
        }
        number += sent_count as u64;
    }
    // The only place that sets it, so it cannot fail.
    let _ = datagram_flow(stream).pacing_deviation.set(pacing_deviation);
    Ok(number)
}

/// Waits until `due` and returns the current time; returns `None` if the load ends first.
fn wait_until_due_or_end(due: Instant, wait: PacingWait, commands: &Commands) -> Option<Instant> {
    let spin_time = match wait {
        PacingWait::Spin => SPIN_TIME_BEFORE_DUE,
        PacingWait::Sleep => Duration::ZERO,
    };
    while commands.current() == Command::Go {
        let now = Instant::now();
        let remaining = due.saturating_duration_since(now);
        if remaining.is_zero() {
            return Some(now);
        }
        if remaining > spin_time {
            std::thread::sleep((remaining - spin_time).min(STOP_CHECK_INTERVAL));
        } else {
            std::hint::spin_loop();
        }
    }
    None
}

/// The counters of a sink.
struct SinkCounters<'a> {
    datagrams: &'a DatagramFlow,
    datagram_bytes: usize,
    sequence: SequenceTracker,
    jitter: JitterEstimator,
    foreign: u64,
    arrivals: Option<ArrivalRecorder>,
}

impl SinkCounters<'_> {
    /// Counts the datagrams of one message; returns the bytes of those that belong to the stream.
    fn record_and_count_own_bytes(&mut self, message: &ReceivedMessage<'_>) -> usize {
        let received_at_nanos = message.received_at_nanos.unwrap_or_else(realtime_nanos);
        let mut bytes = 0;
        for run in message.runs() {
            let header = run.first.filter(|header| header.key == self.datagrams.key);
            match header {
                // A probe of the handshake that arrived late.
                Some(header) if header.number >= SMALL_PROBE_NUMBER => {}
                Some(header) if run.length == self.datagram_bytes => {
                    bytes += run.length * run.datagrams as usize;
                    for number in header.number..=header.number + (run.datagrams - 1) {
                        self.sequence.record(number);
                    }
                    if let Some(arrivals) = &mut self.arrivals {
                        let first = Arrival {
                            number: header.number,
                            sent_nanos: header.sent_nanos,
                            received_nanos: received_at_nanos,
                        };
                        arrivals.record(first, run.datagrams);
                    }
                    let transit = header.transit_nanos(received_at_nanos);
                    self.jitter.record(transit);
                    self.jitter
                        .record_packets_with_last_transit(run.datagrams - 1);
                    if let (Some(delay), Ok(nanos)) = (&self.datagrams.delay, transit.try_into()) {
                        delay.record_many(Duration::from_nanos(nanos), run.datagrams);
                    }
                }
                _ => self.foreign += run.datagrams,
            }
        }
        bytes
    }

    /// Publishes the counters; `sent` is the number of datagrams that the source sent, if known.
    fn publish(&self, sent: Option<u64>) {
        self.datagrams.counters.set(DatagramCounts {
            datagrams: self.sequence.unique + self.sequence.duplicates,
            lost: self.sequence.lost_packet_count(sent),
            duplicates: self.sequence.duplicates,
            reordered: self.sequence.reordered,
            foreign: self.foreign,
            jitter_nanos: self.jitter.jitter_nanos() as u64,
        });
    }
}

/// Runs a sink: receives the datagrams, and then publishes when they arrived if that is recorded.
fn run_sink(stream: &Stream, options: FlowOptions, commands: &Commands) -> io::Result<StreamEnd> {
    let datagrams = datagram_flow(stream);
    let mut batch = ReceiveBatch::new(options.uses_udp_gro);
    let mut counters = SinkCounters {
        datagrams,
        datagram_bytes: options.datagram_bytes,
        sequence: SequenceTracker::new(SEQUENCE_WINDOW_DATAGRAMS),
        jitter: JitterEstimator::default(),
        foreign: 0,
        arrivals: options.records_arrivals.then(ArrivalRecorder::default),
    };
    let end = receive_until_end(stream, &mut batch, &mut counters, commands);
    if let Some(report) = counters.arrivals.and_then(ArrivalRecorder::into_report) {
        // The only place that sets it, so it cannot fail.
        let _ = stream.arrivals.set(report);
    }
    end
}

/// Receives until all sent datagrams have arrived, or no more arrive.
fn receive_until_end(
    stream: &Stream,
    batch: &mut ReceiveBatch,
    counters: &mut SinkCounters<'_>,
    commands: &Commands,
) -> io::Result<StreamEnd> {
    let socket = datagram_flow(stream).socket.as_fd();
    let mut source_total = SentCountReader::default();
    let mut last_received_at = Instant::now();
    loop {
        let has_received = match batch.receive(socket) {
            Ok(messages) => {
                let count = messages.len();
                let bytes = messages
                    .map(|message| counters.record_and_count_own_bytes(&message))
                    .sum();
                stream.counters.received.add(bytes);
                if MESSAGE_COUNTS_DELAYING_NEXT_CALL.contains(&count) {
                    std::thread::sleep(COALESCING_DELAY);
                }
                true
            }
            Err(error) if is_transient(&error) => false,
            Err(error) => return Err(error),
        };
        // Published before the stream can end, because its bytes include these datagrams already.
        counters.publish(source_total.sent);
        let command = commands.current();
        if command == Command::EndAll {
            return Ok(StreamEnd::Cut);
        }
        if source_total.sent.is_none() && (command == Command::EndSources || !has_received) {
            source_total.receive(stream)?;
            counters.publish(source_total.sent);
        }
        if has_received {
            last_received_at = Instant::now();
        }
        if let Some(sent) = source_total.sent
            && (counters.sequence.unique >= sent || last_received_at.elapsed() > DRAIN_QUIET_TIME)
        {
            // Fails only if the source is gone, which then does not wait for it.
            let _ = shutdown(&stream.socket, Shutdown::Write);
            return Ok(StreamEnd::Drained);
        }
    }
}

/// Reads the number of datagrams that the source sent.
#[derive(Default)]
struct SentCountReader {
    bytes: [u8; 8],
    count: usize,
    /// The number, when all its bytes are read.
    sent: Option<u64>,
}

impl SentCountReader {
    /// Reads available bytes from the stream's connection.
    fn receive(&mut self, stream: &Stream) -> io::Result<()> {
        let rest = &mut self.bytes[self.count..];
        match rustix::net::recv(&stream.socket, rest, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((count, _)) => self.count += count,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if self.count == self.bytes.len() {
            self.sent = Some(u64::from_be_bytes(self.bytes));
        }
        Ok(())
    }
}
