//! The sources at a port: frames made by a program in the kernel and redirected into the port, no system call a frame.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aya::Ebpf;
use aya::maps::xdp::DevMap;
use rustix::thread::set_current_timer_slack;

use crate::bpf_programs::{self, Able, Shared};
use crate::dispatcher::Place;
use crate::parameters::{Asked, FCS_BYTES, Pacing, Refused};
use crate::plan::{Late, Progress, plan};
use crate::port::Port;
use crate::template::Template;
use vnetbench_streams::datagram_header::SMALL_PROBE;
use vnetbench_streams::frame_pacing::{Bursts, Kept};
use vnetbench_streams::frames::{Counts, Frames, Outcome, Sent};
use vnetbench_streams::timing::{Pace, Schedule};
use vnetbench_streams::{End, Order, Orders};
use vnetbench_system::clock::monotonic_nanos;
use vnetbench_system::histogram;
use vnetbench_system::priority::{Rank, SHARED_TURN, Turns};

/// Runs of one batch: the kernel's own number, fewer than a veth's ring holds.
const BATCH: u32 = 64;
/// A paced frame waits for the end of its batch, so it has no more runs than frames may become due within so long: fewer
/// cost more than they are worth (bench/README.md).
const LEAST_BATCH: u32 = 2;
const BATCH_TIME: Duration = Duration::from_micros(4);
/// How long a call keeps its thread. What it runs for after it was told to stop makes nothing, and takes much less.
const CALL: Duration = Duration::from_millis(20);
const FIRST_RUNS: u32 = 1024;
const MOST_RUNS: u32 = 1 << 20;
/// How long a thread sleeps at most while nothing is due, and how long before it stays awake: a sleep may end that late.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const AWAKE: Duration = Duration::from_micros(100);
/// What the page of a live frame has left for it (net/bpf/test_run.c), on machines with pages of 4096 bytes.
const MOST_LIVE_BYTES: usize = 3408;

/// One stream's program, and what it has done.
#[derive(Debug)]
pub struct Source {
    object: Ebpf,
    _in_dispatcher: Place,
    progress: Shared<Progress>,
    late: Shared<Late>,
    /// What every page begins as: the largest of the sizes.
    frame: Vec<u8>,
    /// Whether there are several.
    has_sizes: bool,
    most: Option<u64>,
    refused: Refused,
    shares_cpu: bool,
    /// Of one that has a rate.
    paced: Option<(Schedule, Pacing)>,
}

impl Source {
    /// Number `place` of so many at the port, once one of its frames has shown that the port takes them.
    pub fn load(port: &Port, asked: &Asked, key: u32, place: usize, sources: usize) -> Able<Self> {
        let template = Template::new(asked, port.mac, key);
        let shapes = template.interleaved(&asked.sizes);
        let largest = shapes
            .iter()
            .map(|shape| shape.bytes)
            .max()
            .unwrap_or_default()
            .into();
        if largest > MOST_LIVE_BYTES {
            return Err(format!(
                "a frame of {} bytes is larger than a page holds, {}",
                largest + FCS_BYTES,
                MOST_LIVE_BYTES + FCS_BYTES
            ));
        }
        let frame = template.frame(largest, 0, 0, 0);
        let plan = plan(asked, &template, &shapes, largest);
        let mut object = bpf_programs::load(bpf_programs::GENERATE, |loader| {
            loader.override_global("plan", &plan, true);
        })?;
        let map = object.map_mut("port").ok_or("there is no map port")?;
        let mut map: DevMap<_> = map.try_into().map_err(|error| bpf_programs::why(&error))?;
        map.set(0, port.index, None, 0)
            .map_err(|error| bpf_programs::why(&error))?;
        let in_dispatcher = Place::of(bpf_programs::xdp(&mut object, "generate")?)?;
        bpf_programs::attach_to_tracepoint(&mut object, "handed_over", "xdp_devmap_xmit")?;
        let source = Self {
            progress: Shared::of(&object, "progress")?,
            late: Shared::of(&object, "late")?,
            object,
            _in_dispatcher: in_dispatcher,
            frame,
            has_sizes: shapes.len() > 1,
            most: asked.most,
            refused: asked.refused,
            shares_cpu: asked.shares_cpus,
            paced: asked.per_s.map(|per_s| {
                (
                    Schedule::new(Pace::spread(per_s, place, sources)),
                    asked.pacing,
                )
            }),
        };
        source.try_port(port)?;
        Ok(source)
    }

    /// Has one frame leave that no sink counts, and forgets it.
    fn try_port(&self, port: &Port) -> Able<()> {
        let progress = &self.progress;
        progress.first_number.store(SMALL_PROBE, Ordering::Relaxed);
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
        progress.forget();
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
    fn left(&self) -> u64 {
        let made = self.progress.made.load(Ordering::Relaxed);
        self.most.map_or(u64::MAX, |most| most.saturating_sub(made))
    }

    /// Runs the program all the time. It answers what is not due with XDP_DROP, and the page is used again.
    fn run_on(&self, orders: &Orders, batch: u32, turns: &mut Turns) -> io::Result<()> {
        let mut runs = FIRST_RUNS;
        let call = if self.shares_cpu { SHARED_TURN } else { CALL };
        while orders.current() == Order::Go && self.left() > 0 {
            let exact = if self.paced.is_none() {
                self.left()
            } else {
                u64::MAX
            };
            let began = Instant::now();
            turns.go_on(began);
            let run = u64::from(runs).min(exact) as u32;
            self.run_program(run, batch)?;
            runs = runs_of_a_call(run, began.elapsed(), call);
        }
        Ok(())
    }

    /// Sleeps until a frame is due, and then has all made that are.
    fn run_when_due(
        &self,
        schedule: &Schedule,
        orders: &Orders,
        turns: &mut Turns,
    ) -> io::Result<()> {
        // Else the kernel may wake this thread 50 µs late, to save itself some work.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        while orders.current() == Order::Go && self.left() > 0 {
            let made = self.progress.made.load(Ordering::Relaxed);
            let now = Instant::now();
            turns.go_on(now);
            let due = schedule
                .due_until(now)
                .saturating_sub(made)
                .min(self.left());
            if due > 0 {
                self.run_program(due.min(MOST_RUNS.into()) as u32, BATCH)?;
                continue;
            }
            let left = schedule.due(made).saturating_duration_since(now);
            if left > AWAKE {
                std::thread::sleep((left - AWAKE).min(LOOK_EVERY));
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    fn kept(&self, schedule: &Schedule, pacing: Pacing, load_ended: Instant) -> Kept {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let progress = &self.progress;
        let due = schedule
            .due_until(load_ended)
            .min(self.most.unwrap_or(u64::MAX));
        let late = histogram::Counts::of_buckets(std::array::from_fn(|i| load(&self.late.0[i])));
        let classes = progress.bursts.iter().map(load).collect();
        let (last, max) = (load(&progress.burst), load(&progress.burst_max));
        Kept::of(
            way(pacing),
            due,
            due.saturating_sub(load(&progress.made)),
            &late.since(&histogram::Counts::none()),
            (load(&progress.late_sum), load(&progress.late_max)),
            Bursts::of(load(&progress.made), classes, last, max),
        )
    }
}

impl Frames for Source {
    fn begin(&self, at: Instant) {
        if let Some((schedule, _)) = &self.paced {
            schedule.begin(at);
            // The program's clock is this one.
            let ahead = schedule.due(0).saturating_duration_since(Instant::now());
            let due = monotonic_nanos() + ahead.as_nanos() as u64;
            self.progress.due.store(due, Ordering::Relaxed);
        }
    }

    fn run(&self, orders: &Orders) -> io::Result<End> {
        // Where it is refused, other work makes frames late, which is told.
        let turns = &mut Turns::of(Rank::Generator, self.shares_cpu);
        match &self.paced {
            None => self.run_on(orders, BATCH, turns)?,
            Some((schedule, Pacing::Auto | Pacing::Program)) => {
                self.run_on(orders, paced_batch(schedule.gap()), turns)?;
            }
            Some((schedule, Pacing::Batches)) => self.run_when_due(schedule, orders, turns)?,
        }
        Ok(End::Drained)
    }

    fn stop(&self) {
        self.progress.stop.store(1, Ordering::Relaxed);
    }

    fn counts(&self) -> Counts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let made = load(&self.progress.made);
        let frames = match self.refused {
            Refused::Unsent => load(&self.progress.sent),
            Refused::Lost => made,
        };
        let bytes = if self.has_sizes {
            // Which of them were refused is not known: all sizes alike.
            let made_bytes = load(&self.progress.made_bytes);
            (u128::from(made_bytes) * u128::from(frames) / u128::from(made.max(1))) as u64
        } else {
            frames * self.frame.len() as u64
        };
        Counts {
            frames,
            bytes: bytes + frames * FCS_BYTES as u64,
        }
    }

    fn outcome(&self, load_ended: Instant) -> Outcome {
        let made = self.progress.made.load(Ordering::Relaxed);
        let paced = self.paced.as_ref();
        Outcome::Source(Sent {
            refused: made - self.progress.sent.load(Ordering::Relaxed),
            pacing: paced.map(|(schedule, pacing)| self.kept(schedule, *pacing, load_ended)),
        })
    }
}

fn paced_batch(gap: Duration) -> u32 {
    let frames = BATCH_TIME.as_nanos() / gap.as_nanos().max(1);
    (frames as u32)
        .next_power_of_two()
        .clamp(LEAST_BATCH, BATCH)
}

fn way(pacing: Pacing) -> &'static str {
    match pacing {
        Pacing::Auto | Pacing::Program => "program",
        Pacing::Batches => "batches",
    }
}

/// So many that the next call takes that time and no more, when the last one took so long for so many.
fn runs_of_a_call(runs: u32, took: Duration, call: Duration) -> u32 {
    let rate = f64::from(runs) / took.as_secs_f64().max(1e-9);
    let wanted = (rate * call.as_secs_f64()) as u32;
    wanted.clamp(1, runs.saturating_mul(2)).min(MOST_RUNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_as_many_runs_as_take_its_time_but_grows_step_by_step() {
        assert_eq!(runs_of_a_call(1000, CALL * 2, CALL), 500);
        assert_eq!(runs_of_a_call(1000, CALL / 10, CALL), 2000);
        assert_eq!(runs_of_a_call(1, Duration::from_secs(60), CALL), 1);
        assert_eq!(runs_of_a_call(MOST_RUNS, CALL / 10, CALL), MOST_RUNS);
    }

    #[test]
    fn batches_are_as_short_as_the_rate_allows() {
        let batch = |per_s: u64| paced_batch(Duration::from_nanos(1_000_000_000 / per_s));
        assert_eq!([10_000, 1_000_000, 2_000_000].map(batch), [2, 4, 8]);
        assert_eq!(batch(100_000_000), BATCH);
    }
}
