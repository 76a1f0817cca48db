//! `arrival_gaps` of `udp_stream`: gaps that a relay makes, with lengths known from its clock and from the numbers.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::datagram_relay::{DatagramAction, PROBES, Relay};
use crate::endpoints::{Pair, connecting, listening};

/// How long the relay drops everything.
const OUTAGE: Duration = Duration::from_millis(20);
/// Datagrams between the beginnings of two outages.
const DATAGRAMS_BETWEEN_OUTAGES: u64 = 1000;
const RATE_PER_S: u64 = 10_000;
const SPACING_NS: u64 = 1_000_000_000 / RATE_PER_S;
/// The resolution that docs/protocol.md states.
const RESOLUTION_NS: u64 = 200_000;

/// An outage, by the numbers and the clock of the relay.
#[derive(Debug, Clone, Copy)]
struct RelayOutage {
    last_before: (u64, Instant),
    first_dropped_at: Instant,
    first_after: Option<(u64, Instant)>,
}

/// Drops all datagrams for `OUTAGE`, again and again.
#[derive(Default)]
struct OutageMaker {
    outages: Arc<Mutex<Vec<RelayOutage>>>,
    last_passed: Option<(u64, Instant)>,
    next_outage_number: u64,
}

impl OutageMaker {
    fn choose_action(&mut self, number: u64) -> DatagramAction {
        if number >= PROBES {
            return DatagramAction::Pass;
        }
        let now = Instant::now();
        let mut outages = self.outages.lock().expect("no panic");
        if let Some(outage) = outages.last_mut()
            && outage.first_after.is_none()
        {
            if now - outage.first_dropped_at < OUTAGE {
                return DatagramAction::Drop;
            }
            outage.first_after = Some((number, now));
            self.next_outage_number = number + DATAGRAMS_BETWEEN_OUTAGES;
        } else if let Some(last_before) = self.last_passed
            && number >= self.next_outage_number
        {
            outages.push(RelayOutage {
                last_before,
                first_dropped_at: now,
                first_after: None,
            });
            return DatagramAction::Drop;
        }
        self.last_passed = Some((number, now));
        DatagramAction::Pass
    }
}

/// Runs a trial through a relay with outages. Returns the `trial.end` of source and sink, and the complete outages.
fn run_with_outages() -> (Value, Value, Vec<RelayOutage>) {
    let mut pair = Pair::start();
    let request = json!({"workload": "udp_stream", "rate_per_s": RATE_PER_S, "arrival_gaps": true});
    let listen = listening("t", &["sink"], &request);
    let port = pair.b.expect_result("trial.prepare", listen)["port"].take();
    let mut maker = OutageMaker {
        next_outage_number: DATAGRAMS_BETWEEN_OUTAGES,
        ..OutageMaker::default()
    };
    let outages = Arc::clone(&maker.outages);
    let relay = Relay::start(&port, move |number, _| maker.choose_action(number));
    let connect = connecting("t", &["source"], &relay.port, &request);
    pair.a.expect_result("trial.prepare", connect);
    pair.b.expect_result("trial.ready", json!({"trial": "t"}));
    let [(_, source), (_, sink)] = pair.run("t", 1.2);
    relay.finish();
    let outages = outages.lock().expect("no panic");
    let complete = outages.iter().filter(|each| each.first_after.is_some());
    (source, sink, complete.copied().collect())
}

/// Returns a whole number of an object.
fn read_count(object: &Value, name: &str) -> u64 {
    object[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {object}"))
}

#[test]
fn a_gap_of_known_length_is_measured_by_the_clock_and_by_the_numbers() {
    let (source, sink, outages) = run_with_outages();
    assert!(!outages.is_empty(), "{source}");
    let arrivals = &sink["streams"][0]["arrivals"];
    let gaps = arrivals["gaps"].as_array().expect("a list");
    let clock_error_ns =
        read_count(arrivals, "clock_step_ns") + read_count(arrivals, "clock_error_ns");
    let (mut clock_errors_ns, mut number_errors_ns) = (Vec::new(), Vec::new());
    for outage in &outages {
        let (number_after, after_at) = outage.first_after.expect("complete");
        let (number_before, before_at) = outage.last_before;
        let gap = gaps
            .iter()
            .find(|gap| read_count(gap, "number_before") == number_before)
            .unwrap_or_else(|| panic!("no gap after {number_before}: {arrivals}"));
        assert_eq!(read_count(gap, "number_after"), number_after, "{outage:?}");
        let length_ns = read_count(gap, "length_ns");
        let least = after_at - outage.first_dropped_at;
        assert!(least >= OUTAGE);
        // Whatever delays the relay, the last datagram arrived before the first drop.
        let least_ns = least.as_nanos() as u64;
        assert!(length_ns + clock_error_ns >= least_ns, "{gap} {outage:?}");
        clock_errors_ns.push(length_ns.abs_diff((after_at - before_at).as_nanos() as u64));
        let spacings_ns = (number_after - number_before) * SPACING_NS;
        number_errors_ns.push(length_ns.abs_diff(spacings_ns));
    }
    // A relay that waits for a CPU between its clock and its send is at fault, but not in every outage.
    let least_error_ns = clock_errors_ns.iter().min().expect("outages");
    assert!(*least_error_ns <= RESOLUTION_NS, "{clock_errors_ns:?}");
    // The spacing is that of the schedule. So the two measures differ by the delays of single datagrams.
    number_errors_ns.sort_unstable();
    let us = |value: &Value| value.as_f64().expect("microseconds");
    let latest_us = us(&source["instrument"]["pacing"]["lateness_max_us"]);
    let slowest_us = us(&sink["delay"]["max_us"]);
    let half = number_errors_ns[number_errors_ns.len() / 2] as f64 / 1e3;
    assert!(half <= latest_us + slowest_us + 1.0, "{number_errors_ns:?}");
}

#[test]
fn the_arrivals_over_time_add_up_to_all_datagrams() {
    let (source, sink, _) = run_with_outages();
    let stream = &sink["streams"][0];
    let arrivals = &stream["arrivals"];
    let counts = arrivals["counts"]["datagrams"].as_array().expect("a list");
    let sum: u64 = counts.iter().filter_map(Value::as_u64).sum();
    assert_eq!(sum, read_count(stream, "datagrams"), "{stream}");
    let first_ns = read_count(&arrivals["counts"], "started_monotonic_ns");
    let last_ns = read_count(arrivals, "last_monotonic_ns");
    let interval_ns = read_count(&arrivals["counts"], "interval_ns");
    assert_eq!((last_ns - first_ns) / interval_ns + 1, counts.len() as u64);
    let gaps = arrivals["gaps"].as_array().expect("a list");
    let lengths: Vec<_> = gaps
        .iter()
        .map(|gap| read_count(gap, "length_ns"))
        .collect();
    assert!(lengths.is_sorted_by(|longer, shorter| longer >= shorter));
    assert!(source["streams"][0].get("arrivals").is_none(), "{source}");
}

#[test]
fn too_many_streams_cannot_record_their_arrivals() {
    let mut agent = Agent::start();
    let request = json!({"workload": "udp_stream", "arrival_gaps": true});
    let error = agent
        .request("trial.prepare", listening("t", &["sink"; 17], &request))
        .expect_err("more streams than the limit");
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|text| text.contains("16")),
        "{error}"
    );
}
