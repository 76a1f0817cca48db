//! The streams of a trial and the threads that drive them: begun part by part, ended together, asked what they came to.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::Socket;

use super::ready::{Ready, ReadyPort};
use super::report::PacingError;
use vnetbench_counters::load_thread::LoadThread;
use vnetbench_frames::{ChosenBackends, PortCounts, PortObserver};
use vnetbench_streams::datagrams::{DatagramFlow, GapDeviation};
use vnetbench_streams::threads::StartedThread;
use vnetbench_streams::{Command, Commands, OnEnd, Stream, StreamEnd};
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::error::{Error, Kind, Result};
use vnetbench_traffic::{Load, LoadPart, Workload, effective_options, sockets};

#[derive(Default)]
pub struct Streams {
    pub all: Vec<Arc<Stream>>,
    parts: Vec<RunningPart>,
    threads: Vec<StartedThread>,
    pub foreign: u64,
    /// By which ways a side's frames are made and counted.
    backends: Option<ChosenBackends>,
    port_observer: Option<PortObserver>,
}

/// Streams that begin at the same time.
struct RunningPart {
    name: Option<&'static str>,
    streams: Range<usize>,
    orders: Arc<Commands>,
    starts_after: Duration,
    /// How long after the start it was told to begin.
    started_after: Option<Duration>,
}

impl Streams {
    /// Makes the streams of a load of its sockets, which stand in the load's order, and starts their threads.
    /// `flows` are what they send datagrams on, in that order too; none where they do not.
    pub fn set_up(
        &mut self,
        load: &Load,
        sockets: Vec<Socket>,
        mut flows: impl Iterator<Item = DatagramFlow>,
        on_end: &OnEnd,
    ) -> Result<()> {
        for (place, ((id, role), socket)) in load.roles.iter().zip(sockets).enumerate() {
            let part = load.part_of(place);
            sockets::set_changeable(&socket, &part.options)?;
            let timing = part.timing(*role, place);
            let stream = Stream::new(*id, *role, part.name, socket, timing, flows.next());
            self.all.push(Arc::new(stream));
        }
        self.start(load, on_end)
    }

    /// Makes the streams of a load of frames, and starts their threads.
    pub fn open_port(&mut self, load: &Load, on_end: &OnEnd) -> Result<()> {
        let [
            LoadPart {
                work: Workload::Frames(request),
                ..
            },
        ] = &load.parts[..]
        else {
            unreachable!("only frames are at a port");
        };
        let opened = vnetbench_frames::open(&load.roles, &load.secret, request)?;
        self.backends = Some(opened.backends);
        self.port_observer = Some(opened.observer);
        for ((id, role), (socket, frames)) in load.roles.iter().zip(opened.streams) {
            let stream = Stream::new(*id, *role, None, socket, None, None);
            self.all.push(Arc::new(Stream {
                frames: Some(frames),
                ..stream
            }));
        }
        self.start(load, on_end)
    }

    fn start(&mut self, load: &Load, on_end: &OnEnd) -> Result<()> {
        for part in &load.parts {
            let orders = Arc::default();
            let started = part.start(&self.all[part.streams.clone()], &orders, on_end);
            self.parts.push(RunningPart {
                name: part.name,
                streams: part.streams.clone(),
                orders,
                starts_after: part.starts_after,
                started_after: None,
            });
            match started {
                Ok(threads) => self.threads.extend(threads),
                Err(error) => {
                    self.end();
                    let is_at_limit = error.raw_os_error() == Some(libc::EAGAIN);
                    let refused = Error::system("start the streams' threads", error);
                    return Err(if is_at_limit {
                        refused.with_kind(Kind::Threads)
                    } else {
                        refused
                    });
                }
            }
        }
        Ok(())
    }

    /// Sets the start that all that is sent at set times is due after.
    pub fn begin_pacing(&self, start: Instant) {
        for pacing in self.all.iter().filter_map(|stream| stream.pacing()) {
            pacing.schedule.begin(start);
        }
        for frames in self.all.iter().filter_map(|stream| stream.frames.as_ref()) {
            frames.begin(start);
        }
        if let Some(watch) = &self.port_observer {
            watch.begin();
        }
    }

    /// Has every part begin whose time had come at `now`.
    pub fn begin(&mut self, start: Instant, now: Instant) {
        for part in &mut self.parts {
            if part.started_after.is_none() && now >= start + part.starts_after {
                part.started_after = Some(start.elapsed());
                part.orders.issue(Command::Go);
            }
        }
    }

    /// How long after the start the next part begins; `None` where all have begun.
    pub fn next_start_after(&self) -> Option<Duration> {
        let to_come = self.parts.iter().filter(|p| p.started_after.is_none());
        to_come.map(|part| part.starts_after).min()
    }

    /// How long after the start a part of that name began.
    pub fn started_after(&self, name: &str) -> Option<Duration> {
        let part = self.parts.iter().find(|part| part.name == Some(name))?;
        part.started_after
    }

    pub fn issue(&self, order: Command) {
        for part in &self.parts {
            part.orders.issue(order);
        }
        if order >= Command::EndSources {
            for frames in self.all.iter().filter_map(|stream| stream.frames.as_ref()) {
                frames.stop();
            }
        }
    }

    pub fn enforce(&self) {
        for part in &self.parts {
            part.orders.enforce(&self.all[part.streams.clone()]);
        }
    }

    /// Ends what still runs; returns when no thread is left.
    pub fn end(&mut self) {
        self.issue(Command::EndAll);
        self.enforce();
        for thread in self.threads.drain(..) {
            // A thread of ours that panicked has reported its streams as broken.
            let _ = thread.handle.join();
        }
    }

    pub fn ready(&self) -> Ready {
        let cpus = |thread: &StartedThread| {
            CpuList::of_thread_handle(&thread.handle)
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

    /// What its threads are counted by.
    pub fn load_threads(&self) -> Vec<Arc<LoadThread>> {
        let at_port = self.port_observer.as_ref().and_then(PortObserver::thread);
        let counted = self.threads.iter().map(|thread| &thread.load_thread);
        counted.chain(at_port).cloned().collect()
    }

    /// What else came to the port of a side of frames.
    pub fn port_counts(&self) -> Option<PortCounts> {
        self.port_observer.as_ref().map(PortObserver::counts)
    }

    pub fn have_ended(&self) -> bool {
        self.all.iter().all(|stream| stream.end.get().is_some())
    }

    pub fn have_drained(&self) -> bool {
        let drained = |stream: &Arc<Stream>| matches!(stream.end.get(), Some(StreamEnd::Drained));
        self.all.iter().all(drained)
    }

    /// What broke first.
    pub fn fault(&self) -> Option<String> {
        let broken = self.all.iter().filter_map(|stream| match stream.end.get() {
            Some(StreamEnd::Broken(error)) => Some((stream, error)),
            _ => None,
        });
        let (stream, error) = broken.min_by_key(|(stream, _)| stream.failed_at.get())?;
        let part = stream
            .part
            .map_or(String::new(), |part| format!(" of the {part}"));
        Some(format!("stream {}{part} broke: {error}", stream.id))
    }

    /// How many requests made until then have no answer now; `None` where none are made.
    pub fn unanswered(&self, then: Instant) -> Option<u64> {
        let mut timings = self.all.iter().filter_map(|s| s.timing.as_ref()).peekable();
        timings.peek()?;
        Some(timings.map(|timing| timing.unanswered(then)).sum())
    }

    /// How well what was sent at set times kept them.
    pub fn pacing(&self, ended: Instant) -> Option<PacingError> {
        let pacings = || self.all.iter().filter_map(|s| s.pacing());
        let late: Vec<_> = pacings().map(|pacing| &pacing.late).collect();
        let due = pacings()
            .map(|pacing| pacing.schedule.count_due_until(ended))
            .sum();
        let flows = self.all.iter().filter_map(|s| s.datagrams.as_ref());
        let gaps = flows.filter_map(|datagrams| datagrams.gaps.get());
        let gaps = gaps.fold(GapDeviation::default(), |sum, each| sum.merge(each));
        (!late.is_empty()).then(|| PacingError::new(due, &late, &gaps))
    }
}
