//! The streams of a trial and the threads that drive them: starts them part by part, ends them, and reports their state.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::Socket;

use super::fault::{Fault, FaultKind};
use super::ready::{Ready, ReadyPort};
use super::report::PacingLateness;
use vnetbench_counters::load_thread::LoadThread;
use vnetbench_frames::{ChosenBackends, OtherFrameCounts, OtherFrameObserver};
use vnetbench_streams::datagrams::{DatagramFlow, PacingDeviation};
use vnetbench_streams::threads::StartedThread;
use vnetbench_streams::{Command, Commands, OnEnd, Stream, StreamEnd, StreamRole};
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::error::{ErrorKind, RequestError, Result};
use vnetbench_traffic::{Load, LoadPart, Workload, effective_options, sockets};

/// The streams of a trial.
#[derive(Default)]
pub struct Streams {
    /// All streams, in the load's order.
    pub all: Vec<Arc<Stream>>,
    parts: Vec<RunningPart>,
    threads: Vec<StartedThread>,
    /// Connections from other programs.
    pub foreign_connections: u64,
    /// The backends of a `frames` endpoint.
    backends: Option<ChosenBackends>,
    port_observer: Option<OtherFrameObserver>,
}

/// Streams that start at the same time.
struct RunningPart {
    name: Option<&'static str>,
    streams: Range<usize>,
    commands: Arc<Commands>,
    starts_after: Duration,
    /// The actual delay of its start; `None` until it starts.
    started_after: Option<Duration>,
}

impl Streams {
    /// Creates the streams of a load from its sockets and starts their threads.
    ///
    /// `sockets` and `flows` have the load's order; `flows` is empty unless the load sends datagrams.
    pub fn create_and_start_socket_streams(
        &mut self,
        load: &Load,
        sockets: Vec<Socket>,
        mut flows: impl Iterator<Item = DatagramFlow>,
        on_end: &OnEnd,
    ) -> Result<()> {
        for (index, (StreamRole { id, role }, socket)) in load.roles.iter().zip(sockets).enumerate()
        {
            let part = load.find_part(index);
            sockets::set_connected_options(&socket, &part.connected_options)?;
            let timing = part.create_request_timing(*role, index);
            let stream = Stream::new(*id, *role, part.name, socket, timing, flows.next());
            self.all.push(Arc::new(stream));
        }
        self.start_threads(load, on_end)
    }

    /// Creates the streams of a `frames` load and starts their threads.
    pub fn create_and_start_frame_streams(&mut self, load: &Load, on_end: &OnEnd) -> Result<()> {
        let [
            LoadPart {
                workload: Workload::Frames(request),
                ..
            },
        ] = &load.parts[..]
        else {
            unreachable!("only the workload frames uses a port");
        };
        let opened = vnetbench_frames::open_frame_workload(&load.roles, &load.secret, request)?;
        self.backends = Some(opened.backends);
        self.port_observer = Some(opened.observer);
        for (StreamRole { id, role }, opened) in load.roles.iter().zip(opened.streams) {
            let stream = Stream::new(*id, *role, None, opened.socket, None, None);
            self.all.push(Arc::new(Stream {
                frames: Some(opened.endpoint),
                ..stream
            }));
        }
        self.start_threads(load, on_end)
    }

    fn start_threads(&mut self, load: &Load, on_end: &OnEnd) -> Result<()> {
        for part in &load.parts {
            let commands = Arc::default();
            let started = part.start(&self.all[part.streams.clone()], &commands, on_end);
            self.parts.push(RunningPart {
                name: part.name,
                streams: part.streams.clone(),
                commands,
                starts_after: part.starts_after,
                started_after: None,
            });
            match started {
                Ok(threads) => self.threads.extend(threads),
                Err(error) => {
                    self.end_all();
                    let is_at_limit = error.raw_os_error() == Some(libc::EAGAIN);
                    let error = RequestError::system("start the streams' threads", error);
                    return Err(if is_at_limit {
                        error.with_kind_if_none(ErrorKind::Threads)
                    } else {
                        error
                    });
                }
            }
        }
        Ok(())
    }

    /// Sets the end of the load, and the start time of all schedules: requests, datagrams and frames at a fixed rate.
    pub fn start_schedules_and_port_observation(&self, start: Instant, load_end: Instant) {
        for part in &self.parts {
            part.commands.set_load_end(load_end);
        }
        for pacing in self.all.iter().filter_map(|stream| stream.pacing()) {
            pacing.schedule.set_start_once(start);
        }
        for frames in self.all.iter().filter_map(|stream| stream.frames.as_ref()) {
            frames.set_source_start(start);
        }
        if let Some(observer) = &self.port_observer {
            observer.take_baseline_once();
        }
    }

    /// Starts every part that is due at `now`.
    pub fn start_due_parts(&mut self, start: Instant, now: Instant) {
        for part in &mut self.parts {
            if part.started_after.is_none() && now >= start + part.starts_after {
                part.started_after = Some(start.elapsed());
                part.commands.issue(Command::Go);
            }
        }
    }

    /// Returns when the next part starts, after the start of the trial; `None` once all have started.
    pub fn next_part_start(&self) -> Option<Duration> {
        let pending = self.parts.iter().filter(|p| p.started_after.is_none());
        pending.map(|part| part.starts_after).min()
    }

    /// Returns how long after the start the part of this name actually started.
    pub fn actual_part_start(&self, name: &str) -> Option<Duration> {
        let part = self.parts.iter().find(|part| part.name == Some(name))?;
        part.started_after
    }

    /// Gives all streams a command.
    pub fn issue_command(&self, command: Command) {
        for part in &self.parts {
            part.commands.issue(command);
        }
        if command >= Command::EndSources {
            for frames in self.all.iter().filter_map(|stream| stream.frames.as_ref()) {
                frames.stop_source();
            }
        }
    }

    /// Ends the streams whose threads have not carried out the last command.
    pub fn enforce_command(&self) {
        for part in &self.parts {
            part.commands.enforce_on(&self.all[part.streams.clone()]);
        }
    }

    /// Ends all streams and waits for their threads.
    pub fn end_all(&mut self) {
        self.issue_command(Command::EndAll);
        self.enforce_command();
        for thread in self.threads.drain(..) {
            // A thread that panicked has already marked its streams as broken.
            let _ = thread.handle.join();
        }
    }

    /// Returns the effective options of the sockets and the CPUs of the threads.
    pub fn describe_ready_state(&self) -> Ready {
        let cpus = |thread: &StartedThread| {
            CpuList::read_handle_affinity(&thread.handle)
                .map_or_else(|_| String::new(), |cpus| cpus.to_string())
        };
        Ready {
            streams: self
                .all
                .iter()
                .map(|stream| effective_options::read_effective_options(stream))
                .collect(),
            thread_cpus: self.threads.iter().map(cpus).collect(),
            frames: self
                .backends
                .clone()
                .map(|frames| ReadyPort { port: None, frames }),
        }
    }

    /// Returns the threads that carry the load, for counting their CPU time.
    pub fn load_threads(&self) -> Vec<Arc<LoadThread>> {
        let port_thread = self
            .port_observer
            .as_ref()
            .and_then(OtherFrameObserver::receiving_thread);
        let stream_threads = self.threads.iter().map(|thread| &thread.load_thread);
        stream_threads.chain(port_thread).cloned().collect()
    }

    /// Returns the counts of other frames at the port; `None` unless the load is `frames`.
    pub fn other_frame_counts(&self) -> Option<OtherFrameCounts> {
        self.port_observer
            .as_ref()
            .map(OtherFrameObserver::counts_since_baseline)
    }

    /// Returns whether all streams have ended.
    pub fn have_ended(&self) -> bool {
        self.all.iter().all(|stream| stream.end.get().is_some())
    }

    /// Returns whether all streams ended with all their data read.
    pub fn have_ended_with_data_read(&self) -> bool {
        let has_drained =
            |stream: &Arc<Stream>| matches!(stream.end.get(), Some(StreamEnd::Drained));
        self.all.iter().all(has_drained)
    }

    /// Returns the error of the stream that broke first.
    pub fn earliest_fault(&self) -> Option<Fault> {
        let broken = self.all.iter().filter_map(|stream| match stream.end.get() {
            Some(StreamEnd::Broken(error)) => Some((stream, error)),
            _ => None,
        });
        let (stream, error) = broken.min_by_key(|(stream, _)| stream.failed_at.get())?;
        let part = stream
            .part
            .map_or(String::new(), |part| format!(" of the {part}"));
        let message = format!("stream {}{part} broke: {error}", stream.id);
        Some(FaultKind::Stream.into_fault(message))
    }

    /// Returns how many requests due before `due_before` have no response yet; `None` for loads without requests.
    pub fn count_unanswered_due_requests(&self, due_before: Instant) -> Option<u64> {
        let mut timings = self.all.iter().filter_map(|s| s.timing.as_ref()).peekable();
        timings.peek()?;
        Some(
            timings
                .map(|timing| timing.count_unanswered(due_before))
                .sum(),
        )
    }

    /// Returns how late scheduled requests or datagrams were sent; `None` for loads without a schedule.
    pub fn pacing_error(&self, load_end: Instant) -> Option<PacingLateness> {
        let pacings = || self.all.iter().filter_map(|s| s.pacing());
        let lateness: Vec<_> = pacings().map(|pacing| &pacing.lateness).collect();
        let due = pacings()
            .map(|pacing| pacing.schedule.count_due_until(load_end))
            .sum();
        let flows = self.all.iter().filter_map(|s| s.datagrams.as_ref());
        let deviations = flows.filter_map(|datagrams| datagrams.pacing_deviation.get());
        let pacing_deviation =
            deviations.fold(PacingDeviation::default(), |sum, each| sum.merge(each));
        (!lateness.is_empty()).then(|| PacingLateness::new(due, &lateness, &pacing_deviation))
    }
}
