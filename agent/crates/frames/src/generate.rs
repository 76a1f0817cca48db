//! Generates frames with a BPF program that redirects them to the port, without a system call per frame.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aya::Ebpf;
use aya::maps::xdp::DevMap;
use rustix::thread::set_current_timer_slack;

use crate::call_size::{
    MAX_PROGRAM_RUNS_PER_CALL, PROGRAM_RUNS_OF_FIRST_CALL, PROGRAM_RUNS_PER_UNPACED_BATCH,
    TARGET_CALL_DURATION, choose_next_call_runs, choose_paced_batch_runs,
};
use crate::dispatcher::DispatcherSlot;
use crate::generator_state::{GENERATE, GeneratorState, LatenessHistogram, build_config};
use crate::parameters::{FCS_BYTES, FrameParameters, PacingMethod, RejectedFrameCounting};
use crate::port::Port;
use crate::template::FrameTemplate;
use vnetbench_bpf::{ProbeResult, Shared};
use vnetbench_streams::datagram_header::SMALL_PROBE_NUMBER;
use vnetbench_streams::frame_pacing::{BurstSizes, LatenessTotals, PacingOutcome};
use vnetbench_streams::frames::{
    FrameCounts, FrameEndpoint, FrameSourceDetails, FrameStreamDetails,
};
use vnetbench_streams::timing::{RequestRate, Schedule};
use vnetbench_streams::{Commands, StreamEnd};
use vnetbench_system::clock::monotonic_nanos;
use vnetbench_system::histogram;
use vnetbench_system::priority::{PriorityTurns, RealTimeRank, SHARED_CPU_TURN_DURATION};

/// Maximum sleep while no frame is due.
const MAX_IDLE_SLEEP: Duration = Duration::from_millis(20);
/// A thread spins for this time before a frame is due, because a sleep may end that late.
const SPIN_TIME_BEFORE_DUE: Duration = Duration::from_micros(100);
/// Bytes available for a live frame in its page (net/bpf/test_run.c), with pages of 4096 bytes.
const MAX_LIVE_FRAME_BYTES: usize = 3408;

/// The generator program of one stream, with its counters.
#[derive(Debug)]
pub struct XdpSource {
    object: Ebpf,
    _dispatcher_slot: DispatcherSlot,
    state: Shared<GeneratorState>,
    lateness: Shared<LatenessHistogram>,
    /// Initial contents of every page: a frame of the largest size.
    frame: Vec<u8>,
    /// Whether the stream mixes several frame sizes.
    has_several_sizes: bool,
    max_frames: Option<u64>,
    rejected_frames: RejectedFrameCounting,
    shares_cpu: bool,
    /// Schedule and method of a paced stream.
    pacing: Option<(Schedule, PacingMethod)>,
}

impl XdpSource {
    /// Loads the generator of source `index` of `source_count` and checks that the port accepts one of its frames.
    ///
    /// # Errors
    ///
    /// Returns the reason why no BPF program can generate these frames.
    pub fn load(
        port: &Port,
        parameters: &FrameParameters,
        stream_key: u32,
        index: usize,
        source_count: usize,
    ) -> ProbeResult<Self> {
        let template = FrameTemplate::new(parameters, port.mac, stream_key);
        let size_fields = template.interleave_sizes(&parameters.sizes);
        let largest = size_fields
            .iter()
            .map(|fields| fields.frame_bytes)
            .max()
            .unwrap_or_default()
            .into();
        if largest > MAX_LIVE_FRAME_BYTES {
            return Err(format!(
                "a frame of {} bytes is too large: a page holds {} bytes",
                largest + FCS_BYTES,
                MAX_LIVE_FRAME_BYTES + FCS_BYTES
            ));
        }
        let frame = template.build_frame(largest, 0, 0, 0);
        let config = build_config(parameters, &template, &size_fields, largest);
        let mut object = vnetbench_bpf::load_object(GENERATE, |loader| {
            loader.override_global("config", &config, true);
        })?;
        let map = object
            .map_mut("port")
            .ok_or("the BPF object has no map port")?;
        let mut map: DevMap<_> = map
            .try_into()
            .map_err(|error| vnetbench_bpf::join_first_error_lines(&error))?;
        map.set(0, port.index, None, 0)
            .map_err(|error| vnetbench_bpf::join_first_error_lines(&error))?;
        let dispatcher_slot = DispatcherSlot::attach_to_new_tap(vnetbench_bpf::load_xdp_program(
            &mut object,
            "generate",
        )?)?;
        vnetbench_bpf::attach_to_tracepoint(&mut object, "count_transmit", "xdp_devmap_xmit")?;
        let source = Self {
            state: Shared::mmap_bpf_array(&object, "generator_state")?,
            lateness: Shared::mmap_bpf_array(&object, "lateness")?,
            object,
            _dispatcher_slot: dispatcher_slot,
            frame,
            has_several_sizes: size_fields.len() > 1,
            max_frames: parameters.max_frames,
            rejected_frames: parameters.rejected_frames,
            shares_cpu: parameters.shares_cpus,
            pacing: parameters.frames_per_s.map(|per_s| {
                (
                    Schedule::new(RequestRate::staggered(per_s, index, source_count)),
                    parameters.pacing,
                )
            }),
        };
        source.send_probe_frame_and_reset(port)?;
        Ok(source)
    }

    /// Sends one probe frame, which no sink counts, and resets the counters.
    fn send_probe_frame_and_reset(&self, port: &Port) -> ProbeResult<()> {
        let state = &self.state;
        state
            .first_number
            .store(SMALL_PROBE_NUMBER, Ordering::Relaxed);
        self.run_program(1, 1)
            .map_err(|error| format!("the kernel cannot run programs on live frames: {error}"))?;
        if state.sent.load(Ordering::Relaxed) == 0 {
            let hint = match port.driver.as_str() {
                "veth" => {
                    ", because the other end of this veth has neither an XDP program nor GRO. Turn on GRO (ethtool -K ... gro on)"
                }
                _ => "",
            };
            return Err(format!(
                "{} does not accept redirected frames{hint}",
                port.name
            ));
        }
        state.reset();
        for bucket in &self.lateness.0 {
            bucket.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn program(&self) -> BorrowedFd<'_> {
        let program = self
            .object
            .program("generate")
            .expect("the BPF object has the program generate");
        program
            .fd()
            .expect("the BPF program generate is loaded")
            .as_fd()
    }

    fn run_program(&self, runs: u32, batch: u32) -> io::Result<()> {
        match vnetbench_bpf::run_on_live_frames(self.program(), &self.frame, runs, batch) {
            // The caller checks the current command next.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other,
        }
    }

    /// Returns the number of frames left to generate.
    fn remaining_frames(&self) -> u64 {
        let generated = self.state.generated.load(Ordering::Relaxed);
        self.max_frames
            .map_or(u64::MAX, |max_frames| max_frames.saturating_sub(generated))
    }

    /// Runs the program continuously. The program drops a frame that is not due, and the kernel reuses its page.
    fn run_without_sleeping(
        &self,
        commands: &Commands,
        batch_runs: u32,
        turns: &mut PriorityTurns,
    ) -> io::Result<()> {
        let mut runs = PROGRAM_RUNS_OF_FIRST_CALL;
        let target = if self.shares_cpu {
            SHARED_CPU_TURN_DURATION
        } else {
            TARGET_CALL_DURATION
        };
        while self.remaining_frames() > 0 {
            let started = Instant::now();
            if !commands.may_send(started) {
                break;
            }
            let max_runs = if self.pacing.is_none() {
                self.remaining_frames()
            } else {
                u64::MAX
            };
            turns.advance(started);
            let run = u64::from(runs).min(max_runs) as u32;
            self.run_program(run, batch_runs)?;
            runs = choose_next_call_runs(run, started.elapsed(), target);
        }
        Ok(())
    }

    /// Sleeps until frames are due, then generates them in one call.
    fn run_in_batches(
        &self,
        schedule: &Schedule,
        commands: &Commands,
        turns: &mut PriorityTurns,
    ) -> io::Result<()> {
        // With the default timer slack, the kernel may wake this thread 50 µs late.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        while self.remaining_frames() > 0 {
            let now = Instant::now();
            if !commands.may_send(now) {
                break;
            }
            let generated = self.state.generated.load(Ordering::Relaxed);
            turns.advance(now);
            let due = schedule
                .count_due_until(now)
                .saturating_sub(generated)
                .min(self.remaining_frames());
            if due > 0 {
                self.run_program(
                    due.min(MAX_PROGRAM_RUNS_PER_CALL.into()) as u32,
                    PROGRAM_RUNS_PER_UNPACED_BATCH,
                )?;
                continue;
            }
            let time_left = schedule.due_at(generated).saturating_duration_since(now);
            if time_left > SPIN_TIME_BEFORE_DUE {
                std::thread::sleep((time_left - SPIN_TIME_BEFORE_DUE).min(MAX_IDLE_SLEEP));
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    fn pacing_outcome(
        &self,
        schedule: &Schedule,
        method: PacingMethod,
        load_ended: Instant,
    ) -> PacingOutcome {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let state = &self.state;
        let due = schedule
            .count_due_until(load_ended)
            .min(self.max_frames.unwrap_or(u64::MAX));
        let lateness = histogram::HistogramCounts::from_buckets(std::array::from_fn(|i| {
            load(&self.lateness.0[i])
        }));
        let classes = state.bursts.iter().map(load).collect();
        let (last, max) = (load(&state.burst), load(&state.burst_max));
        PacingOutcome::new(
            pacing_method_name(method),
            due,
            due.saturating_sub(load(&state.generated)),
            &lateness.since(&histogram::HistogramCounts::empty()),
            LatenessTotals {
                sum_nanos: load(&state.lateness_sum_nanos),
                max_nanos: load(&state.lateness_max_nanos),
            },
            BurstSizes::from_counts_by_power_of_two(load(&state.generated), classes, last, max),
        )
    }
}

impl FrameEndpoint for XdpSource {
    fn set_source_start(&self, at: Instant) {
        if let Some((schedule, _)) = &self.pacing {
            schedule.set_start_once(at);
            // The program's clock is CLOCK_MONOTONIC too.
            let ahead = schedule.due_at(0).saturating_duration_since(Instant::now());
            let due = monotonic_nanos() + ahead.as_nanos() as u64;
            self.state.due_nanos.store(due, Ordering::Relaxed);
        }
    }

    fn run(&self, commands: &Commands) -> io::Result<StreamEnd> {
        // Without this priority other work delays frames; the lateness is reported.
        let turns = &mut PriorityTurns::new(RealTimeRank::Generator, self.shares_cpu);
        match &self.pacing {
            None => self.run_without_sleeping(commands, PROGRAM_RUNS_PER_UNPACED_BATCH, turns)?,
            Some((schedule, PacingMethod::Auto | PacingMethod::Program)) => {
                let runs = choose_paced_batch_runs(schedule.gap());
                self.run_without_sleeping(commands, runs, turns)?;
            }
            Some((schedule, PacingMethod::Batches)) => {
                self.run_in_batches(schedule, commands, turns)?
            }
        }
        Ok(StreamEnd::Drained)
    }

    fn stop_source(&self) {
        self.state.stop.store(1, Ordering::Relaxed);
    }

    fn counts(&self) -> FrameCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let generated = load(&self.state.generated);
        let frames = match self.rejected_frames {
            RejectedFrameCounting::Unsent => load(&self.state.sent),
            RejectedFrameCounting::Lost => generated,
        };
        let bytes = if self.has_several_sizes {
            // The sizes of rejected frames are unknown: assume that all sizes are rejected alike.
            let made_bytes = load(&self.state.generated_bytes);
            (u128::from(made_bytes) * u128::from(frames) / u128::from(generated.max(1))) as u64
        } else {
            frames * self.frame.len() as u64
        };
        FrameCounts {
            frames,
            bytes: bytes + frames * FCS_BYTES as u64,
        }
    }

    fn details(&self, load_ended: Instant) -> FrameStreamDetails {
        let generated = self.state.generated.load(Ordering::Relaxed);
        let paced = self.pacing.as_ref();
        FrameStreamDetails::Source(FrameSourceDetails {
            rejected: generated - self.state.sent.load(Ordering::Relaxed),
            pacing: paced
                .map(|(schedule, pacing)| self.pacing_outcome(schedule, *pacing, load_ended)),
        })
    }
}

fn pacing_method_name(pacing: PacingMethod) -> &'static str {
    match pacing {
        PacingMethod::Auto | PacingMethod::Program => "program",
        PacingMethod::Batches => "batches",
    }
}
