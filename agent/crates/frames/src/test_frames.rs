//! Tests that sinks count hand-made frames at a pair of real ports exactly.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::arrivals::StreamArrivals;
use crate::filter::TrialFrameFilter;
use crate::packet::ring::ReceiveRing;
use crate::parameters::{FCS_BYTES, FrameBackend};
use crate::port::Port;
use crate::sink::FrameCounter;
use crate::template::tests::{IPV4, IPV6, test_parameters};
use crate::test_network::{
    can_load_programs, create_veth_ports, pin_to_cpu, run_in_test_network, run_shell, test_frame,
};
use vnetbench_system::histogram::HistogramCounts;

const SECRET: u32 = 0x5e_c2_e7_00;
const SOURCE_ID: u32 = 3;
const SINK_IDS: [u32; 2] = [7, 8];
const SINK_KEYS: [u32; 2] = [SECRET ^ SINK_IDS[0], SECRET ^ SINK_IDS[1]];
const WINDOW_FRAMES: u64 = 1 << 20;
/// Time limit for expected frames. No assertion depends on its length.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);
const NO_AGE: Duration = Duration::ZERO;

fn test_filter() -> TrialFrameFilter {
    TrialFrameFilter {
        secret: SECRET,
        sources: vec![SOURCE_ID],
        sinks: SINK_IDS.into(),
    }
}

/// Runs a test with each backend available here, in a test network.
fn with_each_backend(test: &str, body: impl Fn(&FrameCounter, &Port, FrameBackend)) {
    run_in_test_network(test, || {
        let [a, b] = create_veth_ports();
        for backend in [FrameBackend::Auto, FrameBackend::Packet] {
            let counter = open_counter(&b, backend);
            if backend == FrameBackend::Auto && can_load_programs() {
                let reason = &counter.fallback_reason;
                assert_eq!(counter.backend_name(), "xdp native", "{reason}");
            }
            body(&counter, &a, backend);
        }
    });
}

/// The path of a test in this file.
macro_rules! path {
    ($name:ident) => {
        concat!(module_path!(), "::", stringify!($name))
    };
}

fn open_counter(port: &Port, backend: FrameBackend) -> FrameCounter {
    FrameCounter::open(port, &test_filter(), backend).expect("a counter opens")
}

fn send_frames<'a>(port: &Port, frames: impl IntoIterator<Item = &'a Vec<u8>>) {
    let socket = port.open_send_socket().expect("a socket");
    for frame in frames {
        assert_eq!(socket.send(frame).expect("it is sent"), frame.len());
    }
}

/// Waits until this many frames of all classes have arrived.
fn wait_for_frames(counter: &FrameCounter, expected_count: u64) {
    let until = Instant::now() + ARRIVAL_TIMEOUT;
    let arrived_count = || {
        let arrived = (0..SINK_IDS.len()).map(|sink_index| counter.stream_arrivals(sink_index));
        let own: u64 = arrived.map(|sink| sink.frames + sink.duplicates).sum();
        let foreign = counter.foreign_frames().since(&Default::default());
        own + foreign.other_senders + foreign.own_returned + foreign.other_trial
    };
    while arrived_count() < expected_count {
        assert!(
            Instant::now() < until,
            "{} of {expected_count} frames arrived",
            arrived_count()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn numbered_frames(numbers: &[u64]) -> Vec<Vec<u8>> {
    let parameters = test_parameters(IPV4, &[]);
    let frames = numbers.iter();
    frames
        .map(|number| test_frame(&parameters, SINK_KEYS[0], *number, NO_AGE))
        .collect()
}

#[test]
fn reordering_and_duplicates_are_counted_exactly() {
    with_each_backend(
        path!(reordering_and_duplicates_are_counted_exactly),
        |counter, a, backend| {
            send_frames(a, &numbered_frames(&[0, 1, 2, 5, 4, 4, 3, 9, 9, 0]));
            wait_for_frames(counter, 10);
            let arrived = counter.stream_arrivals(0);
            let expected = StreamArrivals {
                frames: 7,
                bytes: 7 * 64,
                duplicates: 3,
                out_of_order: 2,
                before_window: 0,
                impossible_transits: 0,
                highest_number: Some(9),
                jitter_nanos: arrived.jitter_nanos,
            };
            assert_eq!(arrived, expected, "{backend:?}");
            assert_eq!(counter.stream_arrivals(1), StreamArrivals::default());
        },
    );
}

#[test]
fn a_frame_older_than_the_window_is_reported_and_counted_as_received() {
    let path = path!(a_frame_older_than_the_window_is_reported_and_counted_as_received);
    with_each_backend(path, |counter, a, backend| {
        // The fourth frame is more than a window old, the last only half a window.
        let late = WINDOW_FRAMES + 5;
        let numbers = [0, 5, late, 5, late - WINDOW_FRAMES / 2];
        send_frames(a, &numbered_frames(&numbers));
        wait_for_frames(counter, 5);
        let arrived = counter.stream_arrivals(0);
        assert_eq!(
            (
                arrived.frames,
                arrived.duplicates,
                arrived.out_of_order,
                arrived.before_window
            ),
            (5, 0, 2, 1),
            "{backend:?}"
        );
        assert_eq!(arrived.highest_number, Some(late));
    });
}

#[test]
fn numbers_many_windows_apart_are_distinct() {
    let path = path!(numbers_many_windows_apart_are_distinct);
    with_each_backend(path, |counter, a, backend| {
        let numbers: Vec<u64> = (0..40).map(|i| i * WINDOW_FRAMES + 3).collect();
        send_frames(a, &numbered_frames(&numbers));
        send_frames(a, &numbered_frames(&numbers[39..]));
        wait_for_frames(counter, 41);
        let arrived = counter.stream_arrivals(0);
        assert_eq!((arrived.frames, arrived.duplicates), (40, 1), "{backend:?}");
        assert_eq!((arrived.out_of_order, arrived.before_window), (0, 0));
    });
}

#[test]
fn ipv4_and_ipv6_frames_with_up_to_two_vlan_tags_are_counted_with_fcs() {
    let path = path!(ipv4_and_ipv6_frames_with_up_to_two_vlan_tags_are_counted_with_fcs);
    with_each_backend(path, |counter, a, backend| {
        let tags: [&[u16]; 3] = [&[], &[7], &[7, 8]];
        let kinds = [IPV4, IPV6].map(|ip| tags.map(|tags| test_parameters(ip, tags)));
        let frames: Vec<Vec<u8>> = kinds
            .iter()
            .flatten()
            .zip(0..)
            .map(|(parameters, number)| test_frame(parameters, SINK_KEYS[1], number, NO_AGE))
            .collect();
        send_frames(a, &frames);
        wait_for_frames(counter, 6);
        let arrived = counter.stream_arrivals(1);
        let bytes: usize = frames.iter().map(|frame| frame.len() + FCS_BYTES).sum();
        assert_eq!(
            (arrived.frames, arrived.bytes),
            (6, bytes as u64),
            "{backend:?}"
        );
        assert_eq!(arrived.out_of_order, 0);
    });
}

#[test]
fn foreign_frames_are_classified() {
    with_each_backend(
        path!(foreign_frames_are_classified),
        |counter, a, backend| {
            let parameters = test_parameters(IPV4, &[]);
            let build = |key, number, ago| test_frame(&parameters, key, number, ago);
            let mut request = vec![0xff; 6];
            request.extend([2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
            request.extend([2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, 5]);
            let long_ago = Duration::from_secs(3600);
            let frames = [
                build(SECRET ^ SOURCE_ID, 0, NO_AGE),
                build(SECRET ^ SOURCE_ID, 0, NO_AGE),
                // Frames of an unknown stream and of another trial's secret.
                build(SECRET ^ 9, 0, NO_AGE),
                build(!SECRET, 12_345, NO_AGE),
                // Unrelated UDP.
                build(!SECRET, 12_345, long_ago),
                // A probe, which is not counted.
                build(SINK_KEYS[0], u64::MAX, NO_AGE),
                request.clone(),
                request,
            ];
            send_frames(a, &frames);
            wait_for_frames(counter, 7);
            let foreign = counter.foreign_frames().since(&Default::default());
            assert_eq!(
                (
                    foreign.own_returned,
                    foreign.other_trial,
                    foreign.other_senders
                ),
                (2, 2, 3),
                "{backend:?}"
            );
            assert_eq!(
                foreign.by_protocol,
                BTreeMap::from([("ARP", 2), ("IPv4", 1)])
            );
            let example = "ARP from 02:00:00:00:00:09: who has 10.0.0.5?";
            assert_eq!(foreign.example.as_deref(), Some(example));
            assert_eq!(counter.stream_arrivals(0), StreamArrivals::default());
        },
    );
}

#[test]
fn foreign_frames_reach_the_stack_but_frames_of_the_trial_do_not() {
    run_in_test_network(
        path!(foreign_frames_reach_the_stack_but_frames_of_the_trial_do_not),
        || {
            let [a, b] = create_veth_ports();
            run_shell("ip addr add 198.19.0.1/15 dev b");
            let counter = open_counter(&b, FrameBackend::Auto);
            // The destination port of the first flow.
            let socket = UdpSocket::bind("198.19.0.1:49152").expect("b has it");
            socket
                .set_read_timeout(Some(ARRIVAL_TIMEOUT))
                .expect("a socket");
            let parameters = test_parameters(IPV4, &[]);
            let own = test_frame(&parameters, SINK_KEYS[0], 0, NO_AGE);
            let foreign_sender = test_frame(&parameters, !SECRET, 1 << 60, NO_AGE);
            send_frames(&a, [&own, &foreign_sender]);
            wait_for_frames(&counter, 2);
            let mut payload = [0; 18];
            socket.recv(&mut payload).expect("one datagram arrives");
            // A receive ring only copies frames, so the trial's frame reaches the stack too.
            let first = if counter.backend_name() == "packet" {
                own
            } else {
                foreign_sender
            };
            assert_eq!(payload, first[42..]);
        },
    );
}

#[test]
fn a_stream_received_by_several_cpus_is_counted_exactly() {
    /// Frames that each thread sends per round: few enough that no queue overflows.
    const ROUND: u64 = 48;
    const ROUNDS: u64 = 200;
    const THREADS: u64 = 4;
    let path = path!(a_stream_received_by_several_cpus_is_counted_exactly);
    with_each_backend(path, |counter, a, backend| {
        let barrier = Arc::new(Barrier::new(THREADS as usize));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let barrier = Arc::clone(&barrier);
                scope.spawn(move || {
                    pin_to_cpu(thread as usize);
                    let parameters = test_parameters(IPV4, &[]);
                    for round in 0..ROUNDS {
                        // Two threads send each number at about the same time.
                        let first = (round * THREADS / 2 + thread / 2) * ROUND;
                        let numbers = first..first + ROUND;
                        let frames =
                            numbers.map(|n| test_frame(&parameters, SINK_KEYS[0], n, NO_AGE));
                        send_frames(a, &frames.collect::<Vec<_>>());
                        barrier.wait();
                        if thread == 0 {
                            wait_for_frames(counter, (round + 1) * THREADS * ROUND);
                        }
                        barrier.wait();
                    }
                });
            }
        });
        let arrived = counter.stream_arrivals(0);
        let numbers = ROUNDS * ROUND * THREADS / 2;
        assert_eq!(
            (arrived.frames, arrived.duplicates),
            (numbers, numbers),
            "{backend:?}"
        );
        assert_eq!(arrived.highest_number, Some(numbers - 1));
        assert_eq!(arrived.before_window, 0);
    });
}

#[test]
fn delay_is_counted_unless_the_sender_uses_another_clock() {
    let path = path!(delay_is_counted_unless_the_sender_uses_another_clock);
    with_each_backend(path, |counter, a, backend| {
        let parameters = test_parameters(IPV4, &[]);
        let ago = Duration::from_secs(2);
        let frames = [0, 1, 2].map(|number| test_frame(&parameters, SINK_KEYS[0], number, ago));
        send_frames(a, &frames);
        wait_for_frames(counter, 3);
        let delay = counter.one_way_delays().since(&HistogramCounts::empty());
        assert_eq!(delay.count, 3, "{backend:?}");
        // Buckets report their midpoints, within 0.4 %.
        assert!(delay.p50_us >= Some(1_992_000.0), "{:?}", delay.p50_us);
        assert!(!counter.has_received_other_clock_frame());
        // An hour exceeds the histogram. The other age wraps in 48 bits to a negative transit time.
        for ago in [3600, 281_464].map(Duration::from_secs) {
            send_frames(
                a,
                [&test_frame(&parameters, SINK_KEYS[1], ago.as_secs(), ago)],
            );
        }
        wait_for_frames(counter, 5);
        assert_eq!(counter.stream_arrivals(1).impossible_transits, 2);
        assert!(counter.has_received_other_clock_frame());
        let delay = counter.one_way_delays().since(&HistogramCounts::empty());
        assert_eq!(delay.count, 3);
    });
}

#[test]
fn a_port_without_native_xdp_is_counted_by_generic_xdp() {
    run_in_test_network(
        path!(a_port_without_native_xdp_is_counted_by_generic_xdp),
        || {
            run_shell("ip link set lo up");
            let port = Port::open_with_link("lo").expect("the port exists");
            let counter = open_counter(&port, FrameBackend::Auto);
            let expected = if can_load_programs() {
                "xdp generic"
            } else {
                "packet"
            };
            let reason = &counter.fallback_reason;
            assert_eq!(counter.backend_name(), expected, "{reason}");
            assert!(!reason.is_empty());
            send_frames(&port, &numbered_frames(&[0, 1, 1, 0]));
            wait_for_frames(&counter, 4);
            let arrived = counter.stream_arrivals(0);
            assert_eq!((arrived.frames, arrived.duplicates), (2, 2), "{expected}");
        },
    );
}

#[test]
fn a_port_with_another_xdp_program_is_counted_by_a_receive_ring() {
    let path = path!(a_port_with_another_xdp_program_is_counted_by_a_receive_ring);
    run_in_test_network(path, || {
        let [_, b] = create_veth_ports();
        let [first, second] = [(); 2].map(|()| open_counter(&b, FrameBackend::Auto));
        let first_name = first.backend_name();
        assert_eq!(second.backend_name(), "packet");
        if can_load_programs() {
            let reason = second.fallback_reason;
            assert_eq!(first_name, "xdp native");
            let expected = "another XDP program is attached to b";
            assert!(reason.contains(expected), "{reason}");
        }
        drop(first);
        let again = open_counter(&b, FrameBackend::Auto);
        assert_eq!(again.backend_name(), first_name);
    });
}

#[test]
fn a_full_receive_ring_counts_its_drops_and_keeps_the_rest() {
    const SENT: u64 = 20_000;
    run_in_test_network(
        path!(a_full_receive_ring_counts_its_drops_and_keeps_the_rest),
        || {
            let [a, b] = create_veth_ports();
            let mut ring = ReceiveRing::open(&b, 2).expect("a ring");
            let frames = numbered_frames(&[0]);
            send_frames(&a, (0..SENT).map(|_| &frames[0]));
            let mut taken = 0;
            let until = Instant::now() + ARRIVAL_TIMEOUT;
            let mut dropped = ring.take_dropped_count().expect("the kernel counts drops");
            while taken + dropped < SENT {
                assert!(Instant::now() < until, "{taken} and {dropped} of {SENT}");
                while ring.consume_next_block(|_| taken += 1) {}
                dropped += ring.take_dropped_count().expect("the kernel counts drops");
            }
            assert!(dropped > 0 && taken > 0, "{taken} and {dropped}");
            assert_eq!(taken + dropped, SENT);
        },
    );
}
