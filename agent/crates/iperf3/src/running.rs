//! The load of one test from its first byte to its last, the same on both sides: intervals, what is omitted, the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::control_connection::Control;
use crate::cpu_time::CpuTime;
use crate::json;
use crate::limits::{Ending, MAX_SECONDS};
use crate::parameters::{Direction, Parameters};
use crate::printer::Printer;
use crate::record::Record;
use crate::report::Final;
use crate::results::Results;
use crate::session_options::Manner;
use crate::sockets::congestion_of;
use crate::states::{Failure, Reason};
use crate::streams::{Flow, Load, Shared};
use crate::text::{Layout, RULE};
use vnetbench_streams::Role;
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::waiting::WaitOutcome;

/// How often it is looked whether anything moves at all.
const LOOK: Duration = Duration::from_secs(1);
/// A stream that breaks may be a peer's that has ended its test: so long its control connection has to say so.
const GRACE: Duration = Duration::from_secs(1);
/// How much longer than it said itself a client's test may take.
const OVERTIME: Duration = Duration::from_secs(30);
/// An interval that is shorter than this share of a whole one is not worth a line, unless it has data.
const SHORTEST_SHARE: f64 = 0.1;

pub struct Running {
    pub load: Load,
    pub record: Record,
    pub layout: Layout,
    asked: Parameters,
    manner: Manner,
    began: Instant,
    /// Of the thread that conducts the test.
    cpu_before: CpuTime,
    is_client: bool,
}

impl Running {
    /// `shown`: what the streams are called, in their order.
    pub fn prepare(
        flows: Vec<Arc<Flow>>,
        shown: &[u32],
        asked: &Parameters,
        manner: &Manner,
        is_client: bool,
        cpus: &CpuList,
    ) -> Result<Self, Failure> {
        let layout = Layout {
            is_udp: asked.is_udp(),
            is_client,
            both_ways: asked.direction == Direction::Both,
            format: manner.format,
            streams: shown
                .iter()
                .copied()
                .zip(flows.iter().map(|flow| flow.role == Role::Source))
                .collect(),
        };
        let failed = |error| {
            Failure::refused(
                Reason::CreateStream,
                format!("the streams cannot be started: {error}"),
            )
        };
        let shared = Shared::new(asked, is_client).map_err(failed)?;
        let load = Load::start(flows, shared, cpus).map_err(failed)?;
        Ok(Self {
            record: Record::begin(&load.flows, asked.is_udp()),
            load,
            layout,
            asked: asked.clone(),
            manner: manner.clone(),
            began: Instant::now(),
            cpu_before: CpuTime::of_thread(),
            is_client,
        })
    }

    /// Drives the load until its own end, or until `heard` says that the peer has ended it.
    pub fn run(
        &mut self,
        control: &Control,
        printer: &mut Printer,
        heard: &mut dyn FnMut(&[u8]) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        printer.line(&self.layout.interval_head());
        self.record = Record::begin(&self.load.flows, self.asked.is_udp());
        self.began = Instant::now();
        self.cpu_before = CpuTime::of_thread();
        self.load.go();
        let mut due = self.due();
        let mut progress = Progress {
            moved: 0,
            at: self.began,
        };
        loop {
            let bell = due.grace.is_none().then_some(&self.load.shared.bell);
            let waited = control.wait(bell, due.next(Instant::now()))?;
            let now = Instant::now();
            if waited == WaitOutcome::Ready && heard(&control.read()?)? {
                return Ok(());
            }
            if waited == WaitOutcome::Rung {
                if self.load.failure().is_none() {
                    return Ok(());
                }
                due.grace = Some(now + GRACE);
            }
            if self.do_due(&mut due, now, printer)? {
                return Ok(());
            }
            self.check_progress(&mut progress, now)?;
            if now >= due.latest {
                return Err(Failure::refused(
                    Reason::Idle,
                    format!(
                        "{} did not end the test when its time was over",
                        control.peer
                    ),
                ));
            }
        }
    }

    /// What is due from its beginning on.
    fn due(&self) -> Due {
        let time = match self.asked.ending {
            Ending::After(time) => time,
            _ => Duration::from_secs_f64(MAX_SECONDS),
        };
        let omitted_until = self.began + self.asked.omit;
        let end = omitted_until + time;
        let ends_by_time = self.is_client && matches!(self.asked.ending, Ending::After(_));
        Due {
            end: ends_by_time.then_some(end),
            latest: end + OVERTIME,
            omitted_until: (!self.asked.omit.is_zero()).then_some(omitted_until),
            tick: self.manner.interval.map(|interval| self.began + interval),
            grace: None,
        }
    }

    /// Does what is due by now; returns whether that is to end the test.
    fn do_due(
        &mut self,
        due: &mut Due,
        now: Instant,
        printer: &mut Printer,
    ) -> Result<bool, Failure> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        if is_due(due.grace) {
            return Err(self.stream_failure());
        }
        if is_due(due.omitted_until) {
            self.close_interval(now, true, printer);
            self.record.omit_until_here();
            self.load.shared.quota_counts_from_now();
            due.omitted_until = None;
            due.tick = self.manner.interval.map(|interval| now + interval);
        }
        if is_due(due.end) {
            return Ok(true);
        }
        if is_due(due.tick) {
            self.close_interval(now, due.omitted_until.is_some(), printer);
            // A tick that came too late to be of use is left out.
            due.tick = due.tick.zip(self.manner.interval).map(|(tick, interval)| {
                let next = tick + interval;
                if next > now { next } else { now + interval }
            });
        }
        Ok(false)
    }

    fn check_progress(&self, progress: &mut Progress, now: Instant) -> Result<(), Failure> {
        let moved = self.record.moved();
        if moved != progress.moved {
            *progress = Progress { moved, at: now };
        } else if now - progress.at >= self.manner.patience {
            return Err(Failure::refused(
                Reason::Idle,
                format!(
                    "nothing has moved for {:.1} s",
                    self.manner.patience.as_secs_f64()
                ),
            ));
        }
        Ok(())
    }

    fn stream_failure(&self) -> Failure {
        self.load.failure().map_or_else(
            || Failure::broken("a stream broke"),
            |(flow, error)| {
                let (reason, did) = match flow.role {
                    Role::Source => (Reason::StreamWrite, "be written to"),
                    Role::Sink => (Reason::StreamRead, "be read from"),
                };
                let hint = match error.raw_os_error() {
                    Some(libc::EMSGSIZE) => {
                        "; the datagram is larger than the path's MTU allows: ask for less with -l"
                    }
                    _ => "",
                };
                Failure::Refused {
                    reason,
                    errno: error.raw_os_error().unwrap_or(0),
                    words: format!("stream {} could not {did}: {error}{hint}", flow.id),
                }
            },
        )
    }

    fn close_interval(&mut self, now: Instant, omitted: bool, printer: &mut Printer) {
        let interval = self.record.interval(now, omitted);
        let first = self.record.intervals.is_empty() && self.record.left_out == 0;
        if !first && self.layout.streams.len() > 1 {
            printer.line(RULE);
        }
        printer.lines(&self.layout.interval(&interval));
        self.record.keep(interval);
    }

    /// Closes the last interval; nothing is counted any more.
    pub fn finish(&mut self, end: Instant, printer: &mut Printer) {
        let since = end
            .saturating_duration_since(self.record.last_at())
            .as_secs_f64();
        let whole = self
            .manner
            .interval
            .map_or(f64::INFINITY, |interval| interval.as_secs_f64());
        let none_yet = self.record.since_start(self.record.last_at()) == 0.0;
        if none_yet || self.record.is_behind() || since > SHORTEST_SHARE * whole {
            self.close_interval(end.max(self.record.last_at()), false, printer);
        }
    }

    /// What this side has counted; to be called once, by the thread that conducts the test.
    pub fn own_results(&self) -> Results {
        self.load.shared.cpu.add_this_thread(self.cpu_before);
        Results {
            cpu: self.load.shared.cpu.share_of(self.began.elapsed()),
            congestion: (!self.asked.is_udp())
                .then(|| {
                    self.load
                        .flows
                        .first()
                        .and_then(|flow| congestion_of(&flow.socket))
                })
                .flatten(),
            streams: self.record.totals(),
            server_text: None,
            server_json: None,
        }
    }

    /// The number by which the other side knows what this side's retransmits are worth.
    pub fn retransmits_known(&self) -> i32 {
        match (
            self.asked.is_udp(),
            self.layout.streams.iter().any(|(_, sends)| *sends),
        ) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => -1,
        }
    }

    pub fn final_report(&self, own: &Results, peer: Option<&Results>) -> Final {
        let roles: Vec<(u32, Role)> = self
            .layout
            .streams
            .iter()
            .zip(&self.load.flows)
            .map(|((shown, _), flow)| (*shown, flow.role))
            .collect();
        Final::new(
            &roles,
            own,
            peer,
            &self.record.extremes,
            &self.record.out_of_order(),
        )
    }

    pub fn print_final(&self, done: &Final, printer: &mut Printer) {
        printer.line(RULE);
        printer.line(&self.layout.final_head());
        printer.lines(&self.layout.final_lines(done));
    }

    pub fn intervals_json(&self) -> Vec<serde_json::Value> {
        self.record
            .intervals
            .iter()
            .map(|interval| json::interval(&self.layout, interval))
            .collect()
    }

    /// What the peer says that it has sent on a stream, in what `Record::drain` counts; known only where nothing is
    /// omitted, since each side omits by its own clock.
    pub fn expected_of(&self, peer: &Results, id: u32) -> Option<u64> {
        let stream = peer.stream(id).filter(|_| self.asked.omit.is_zero())?;
        Some(if self.asked.is_udp() {
            stream.packets
        } else {
            stream.bytes
        })
    }
}

/// What a test that runs is waiting for.
struct Due {
    /// This side ends it; `None` where the other side or the load does.
    end: Option<Instant>,
    /// This side gives it up.
    latest: Instant,
    /// `None` where nothing is omitted, or nothing any more.
    omitted_until: Option<Instant>,
    /// An interval is over.
    tick: Option<Instant>,
    /// A stream has broken, and until then the peer may say why.
    grace: Option<Instant>,
}

impl Due {
    /// When there is something to do next, and be it to look whether anything moves.
    fn next(&self, now: Instant) -> Instant {
        [self.end, self.tick, self.grace, self.omitted_until]
            .into_iter()
            .flatten()
            .fold(self.latest.min(now + LOOK), Instant::min)
    }
}

struct Progress {
    moved: u64,
    at: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_begin_anew_behind_what_is_omitted_and_late_ticks_are_left_out() {
        let s = Duration::from_secs_f64;
        let asked = Parameters {
            omit: s(1.5),
            ..Parameters::default()
        };
        let manner = Manner {
            interval: Some(s(1.0)),
            format: crate::units::Format::default(),
            json: false,
            patience: s(1.0),
        };
        let cpus = CpuList::default();
        let mut running = Running::prepare(vec![], &[], &asked, &manner, true, &cpus).unwrap();
        let mut printer = Printer {
            prefix: String::new(),
            silent: true,
            kept: None,
        };
        let mut due = running.due();
        let looks = [0.4, 1.0, 1.5, 2.5, 3.7, 6.2, 11.5].map(|at| {
            let now = running.began + s(at);
            let ends = running.do_due(&mut due, now, &mut printer).unwrap();
            (ends, (due.next(now) - running.began).as_secs_f64())
        });
        let until = [1.0, 1.5, 2.5, 3.5, 4.5, 7.2];
        assert_eq!(looks[..6], until.map(|next| (false, next)));
        assert!(looks[6].0);
        let ends = |omitted| -> Vec<f64> {
            let kept = running.record.intervals.iter();
            let kept = kept.filter(|kept| kept.omitted == omitted);
            kept.map(|kept| (kept.end_s * 10.0).round()).collect()
        };
        assert_eq!(ends(true), [10.0, 15.0]);
        assert_eq!(ends(false), [10.0, 22.0, 47.0]);
    }
}
