//! The sources at a port: frames made by a program in the kernel and redirected into the port, no system call a frame.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aya::Ebpf;
use aya::maps::xdp::DevMap;
use rustix::thread::set_current_timer_slack;

use crate::bpf_programs::{self, ProbeResult, Shared};
use crate::dispatcher::DispatcherSlot;
use crate::parameters::{FCS_BYTES, FrameParameters, PacingMethod, RefusedFrames};
use crate::plan::{GeneratorState, LatenessHistogram, build_config};
use crate::port::Port;
use crate::template::FrameTemplate;
use vnetbench_streams::datagram_header::SMALL_PROBE_NUMBER;
use vnetbench_streams::frame_pacing::{BurstSizes, PacingOutcome};
use vnetbench_streams::frames::{FrameCounts, FrameEndpoint, FrameOutcome, SourceOutcome};
use vnetbench_streams::timing::{RequestRate, Schedule};
use vnetbench_streams::{Command, Commands, StreamEnd};
use vnetbench_system::clock::monotonic_nanos;
use vnetbench_system::histogram;
use vnetbench_system::priority::{Rank, SHARED_TURN, Turns};

/// Runs of one batch: the kernel's own number, fewer than a veth's ring holds.
const BATCH: u32 = 64;
/// A paced frame waits for the end of its batch, so it has no more runs than frames may become due within so long: fewer
/// cost more than they are worth (bench/README.md).
const MIN_BATCH: u32 = 2;
const BATCH_TIME: Duration = Duration::from_micros(4);
/// How long a call keeps its thread. What it runs for after it was told to stop makes nothing, and takes much less.
const CALL_DURATION: Duration = Duration::from_millis(20);
const FIRST_RUNS: u32 = 1024;
const MAX_RUNS: u32 = 1 << 20;
/// How long a thread sleeps at most while nothing is due, and how long before it stays awake: a sleep may end that late.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
const SPIN_BEFORE_DUE: Duration = Duration::from_micros(100);
/// What the page of a live frame has left for it (net/bpf/test_run.c), on machines with pages of 4096 bytes.
const MAX_LIVE_FRAME_BYTES: usize = 3408;

/// One stream's program, and what it has done.
#[derive(Debug)]
pub struct XdpSource {
    object: Ebpf,
    _dispatcher_slot: DispatcherSlot,
    progress: Shared<GeneratorState>,
    late: Shared<LatenessHistogram>,
    /// What every page begins as: the largest of the sizes.
    frame: Vec<u8>,
    /// Whether there are several.
    has_sizes: bool,
    max_frames: Option<u64>,
    refused_frames: RefusedFrames,
    shares_cpu: bool,
    /// Of one that has a rate.
    paced: Option<(Schedule, PacingMethod)>,
}

impl XdpSource {
    /// Number `place` of so many at the port, once one of its frames has shown that the port takes them.
    pub fn load(
        port: &Port,
        parameters: &FrameParameters,
        key: u32,
        place: usize,
        sources: usize,
    ) -> ProbeResult<Self> {
        let template = FrameTemplate::new(parameters, port.mac, key);
        let shapes = template.interleave_sizes(&parameters.sizes);
        let largest = shapes
            .iter()
            .map(|shape| shape.bytes)
            .max()
            .unwrap_or_default()
            .into();
        if largest > MAX_LIVE_FRAME_BYTES {
            return Err(format!(
                "a frame of {} bytes is larger than a page holds, {}",
                largest + FCS_BYTES,
                MAX_LIVE_FRAME_BYTES + FCS_BYTES
            ));
        }
        let frame = template.frame(largest, 0, 0, 0);
        let plan = build_config(parameters, &template, &shapes, largest);
        let mut object = bpf_programs::load_object(bpf_programs::GENERATE, |loader| {
            loader.override_global("plan", &plan, true);
        })?;
        let map = object.map_mut("port").ok_or("there is no map port")?;
        let mut map: DevMap<_> = map
            .try_into()
            .map_err(|error| bpf_programs::error_chain(&error))?;
        map.set(0, port.index, None, 0)
            .map_err(|error| bpf_programs::error_chain(&error))?;
        let in_dispatcher =
            DispatcherSlot::reserve(bpf_programs::load_xdp_program(&mut object, "generate")?)?;
        bpf_programs::attach_to_tracepoint(&mut object, "handed_over", "xdp_devmap_xmit")?;
        let source = Self {
            progress: Shared::map(&object, "progress")?,
            late: Shared::map(&object, "late")?,
            object,
            _dispatcher_slot: in_dispatcher,
            frame,
            has_sizes: shapes.len() > 1,
            max_frames: parameters.max_frames,
            refused_frames: parameters.refused_frames,
            shares_cpu: parameters.shares_cpus,
            paced: parameters.frames_per_s.map(|per_s| {
                (
                    Schedule::new(RequestRate::staggered(per_s, place, sources)),
                    parameters.pacing,
                )
            }),
        };
        source.check_port(port)?;
        Ok(source)
    }

    /// Has one frame leave that no sink counts, and forgets it.
    fn check_port(&self, port: &Port) -> ProbeResult<()> {
        let progress = &self.progress;
        progress
            .first_number
            .store(SMALL_PROBE_NUMBER, Ordering::Relaxed);
        self.run_program(1, 1)
            .map_err(|error| format!("the kernel runs no program on live frames: {error}"))?;
        if progress.sent.load(Ordering::Relaxed) == 0 {
            let why = match port.driver.as_str() {
                "veth" => {
                    ": the other end of this veth has neither an XDP program nor GRO (ethtool -K ... gro on)"
                }
                _ => "",
            };
            return Err(format!(
                "{} takes no frames that are redirected{why}",
                port.name
            ));
        }
        progress.reset();
        for bucket in &self.late.0 {
            bucket.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn program(&self) -> BorrowedFd<'_> {
        let program = self.object.program("generate").expect("there is one");
        program.fd().expect("it is loaded").as_fd()
    }

    fn run_program(&self, runs: u32, batch: u32) -> io::Result<()> {
        match bpf_programs::run_live(self.program(), &self.frame, runs, batch) {
            // The order that is in force is looked at next.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other,
        }
    }

    /// How many are still to be made.
    fn remaining_frames(&self) -> u64 {
        let made = self.progress.made.load(Ordering::Relaxed);
        self.max_frames
            .map_or(u64::MAX, |most| most.saturating_sub(made))
    }

    /// Runs the program all the time. It answers what is not due with XDP_DROP, and the page is used again.
    fn run_unpaced(&self, orders: &Commands, batch: u32, turns: &mut Turns) -> io::Result<()> {
        let mut runs = FIRST_RUNS;
        let call = if self.shares_cpu {
            SHARED_TURN
        } else {
            CALL_DURATION
        };
        while orders.current() == Command::Go && self.remaining_frames() > 0 {
            let exact = if self.paced.is_none() {
                self.remaining_frames()
            } else {
                u64::MAX
            };
            let began = Instant::now();
            turns.advance(began);
            let run = u64::from(runs).min(exact) as u32;
            self.run_program(run, batch)?;
            runs = next_call_runs(run, began.elapsed(), call);
        }
        Ok(())
    }

    /// Sleeps until a frame is due, and then has all made that are.
    fn run_paced(
        &self,
        schedule: &Schedule,
        orders: &Commands,
        turns: &mut Turns,
    ) -> io::Result<()> {
        // Else the kernel may wake this thread 50 µs late, to save itself some work.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        while orders.current() == Command::Go && self.remaining_frames() > 0 {
            let made = self.progress.made.load(Ordering::Relaxed);
            let now = Instant::now();
            turns.advance(now);
            let due = schedule
                .count_due_until(now)
                .saturating_sub(made)
                .min(self.remaining_frames());
            if due > 0 {
                self.run_program(due.min(MAX_RUNS.into()) as u32, BATCH)?;
                continue;
            }
            let left = schedule.due_at(made).saturating_duration_since(now);
            if left > SPIN_BEFORE_DUE {
                std::thread::sleep((left - SPIN_BEFORE_DUE).min(STOP_CHECK_INTERVAL));
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    fn pacing_outcome(
        &self,
        schedule: &Schedule,
        pacing: PacingMethod,
        load_ended: Instant,
    ) -> PacingOutcome {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let progress = &self.progress;
        let due = schedule
            .count_due_until(load_ended)
            .min(self.max_frames.unwrap_or(u64::MAX));
        let late = histogram::HistogramCounts::from_buckets(std::array::from_fn(|i| {
            load(&self.late.0[i])
        }));
        let classes = progress.bursts.iter().map(load).collect();
        let (last, max) = (load(&progress.burst), load(&progress.burst_max));
        PacingOutcome::new(
            pacing_name(pacing),
            due,
            due.saturating_sub(load(&progress.made)),
            &late.since(&histogram::HistogramCounts::empty()),
            (load(&progress.late_sum), load(&progress.late_max)),
            BurstSizes::from_classes(load(&progress.made), classes, last, max),
        )
    }
}

impl FrameEndpoint for XdpSource {
    fn begin(&self, at: Instant) {
        if let Some((schedule, _)) = &self.paced {
            schedule.begin(at);
            // The program's clock is this one.
            let ahead = schedule.due_at(0).saturating_duration_since(Instant::now());
            let due = monotonic_nanos() + ahead.as_nanos() as u64;
            self.progress.due.store(due, Ordering::Relaxed);
        }
    }

    fn run(&self, orders: &Commands) -> io::Result<StreamEnd> {
        // Where it is refused, other work makes frames late, which is told.
        let turns = &mut Turns::new(Rank::Generator, self.shares_cpu);
        match &self.paced {
            None => self.run_unpaced(orders, BATCH, turns)?,
            Some((schedule, PacingMethod::Auto | PacingMethod::Program)) => {
                self.run_unpaced(orders, paced_batch_size(schedule.gap()), turns)?;
            }
            Some((schedule, PacingMethod::Batches)) => self.run_paced(schedule, orders, turns)?,
        }
        Ok(StreamEnd::Drained)
    }

    fn stop(&self) {
        self.progress.stop.store(1, Ordering::Relaxed);
    }

    fn counts(&self) -> FrameCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let made = load(&self.progress.made);
        let frames = match self.refused_frames {
            RefusedFrames::Unsent => load(&self.progress.sent),
            RefusedFrames::Lost => made,
        };
        let bytes = if self.has_sizes {
            // Which of them were refused is not known: all sizes alike.
            let made_bytes = load(&self.progress.made_bytes);
            (u128::from(made_bytes) * u128::from(frames) / u128::from(made.max(1))) as u64
        } else {
            frames * self.frame.len() as u64
        };
        FrameCounts {
            frames,
            bytes: bytes + frames * FCS_BYTES as u64,
        }
    }

    fn outcome(&self, load_ended: Instant) -> FrameOutcome {
        let made = self.progress.made.load(Ordering::Relaxed);
        let paced = self.paced.as_ref();
        FrameOutcome::Source(SourceOutcome {
            refused: made - self.progress.sent.load(Ordering::Relaxed),
            pacing: paced
                .map(|(schedule, pacing)| self.pacing_outcome(schedule, *pacing, load_ended)),
        })
    }
}

fn paced_batch_size(gap: Duration) -> u32 {
    let frames = BATCH_TIME.as_nanos() / gap.as_nanos().max(1);
    (frames as u32).next_power_of_two().clamp(MIN_BATCH, BATCH)
}

fn pacing_name(pacing: PacingMethod) -> &'static str {
    match pacing {
        PacingMethod::Auto | PacingMethod::Program => "program",
        PacingMethod::Batches => "batches",
    }
}

/// So many that the next call takes that time and no more, when the last one took so long for so many.
fn next_call_runs(runs: u32, took: Duration, call: Duration) -> u32 {
    let rate = f64::from(runs) / took.as_secs_f64().max(1e-9);
    let wanted = (rate * call.as_secs_f64()) as u32;
    wanted.clamp(1, runs.saturating_mul(2)).min(MAX_RUNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_as_many_runs_as_take_its_time_but_grows_step_by_step() {
        assert_eq!(next_call_runs(1000, CALL_DURATION * 2, CALL_DURATION), 500);
        assert_eq!(
            next_call_runs(1000, CALL_DURATION / 10, CALL_DURATION),
            2000
        );
        assert_eq!(next_call_runs(1, Duration::from_secs(60), CALL_DURATION), 1);
        assert_eq!(
            next_call_runs(MAX_RUNS, CALL_DURATION / 10, CALL_DURATION),
            MAX_RUNS
        );
    }

    #[test]
    fn batches_are_as_short_as_the_rate_allows() {
        let batch = |per_s: u64| paced_batch_size(Duration::from_nanos(1_000_000_000 / per_s));
        assert_eq!([10_000, 1_000_000, 2_000_000].map(batch), [2, 4, 8]);
        assert_eq!(batch(100_000_000), BATCH);
    }
}
