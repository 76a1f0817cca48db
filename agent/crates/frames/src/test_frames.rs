//! What sinks count of frames that are made by hand and fed into a real pair of ports: exactly.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::arrivals::StreamArrivals;
use crate::filter::FrameFilter;
use crate::packet::ring::ReceiveRing;
use crate::parameters::{Backend, FCS_BYTES};
use crate::port::Port;
use crate::sink::FrameCounter;
use crate::template::tests::parameters;
use crate::test_network::{frame, has_all_rights, in_own_network, pair, run_on, shell};
use vnetbench_system::histogram::HistogramCounts;

const IPV4: [&str; 2] = ["198.18.0.1", "198.19.0.1"];
const IPV6: [&str; 2] = ["2001:2::1", "2001:2::2"];
const PREFIX: u32 = 0x5e_c2_e7_00;
const OWN: u32 = 3;
const SINKS: [u32; 2] = [7, 8];
const WINDOW: u64 = 1 << 20;
/// After this long something that should come is taken to be lost. It measures nothing.
const PATIENCE: Duration = Duration::from_secs(30);
const NONE_AGO: Duration = Duration::ZERO;

fn key(id: u32) -> u32 {
    PREFIX ^ id
}

fn filter() -> FrameFilter {
    FrameFilter {
        prefix: PREFIX,
        sources: vec![OWN],
        sinks: SINKS.into(),
    }
}

/// Carries out a test with each way of counting that there is here, in a network of its own.
fn with_each_backend(test: &str, body: impl Fn(&FrameCounter, &Port, Backend)) {
    in_own_network(test, || {
        let [a, b] = pair();
        for way in [Backend::Auto, Backend::Packet] {
            let (counting, name, why) =
                FrameCounter::open_sinks(&b, &filter(), way).expect("it counts");
            if way == Backend::Auto && has_all_rights() {
                assert_eq!(name, "xdp native", "{why}");
            }
            body(&counting, &a, way);
        }
    });
}

/// The path of a test in this file.
macro_rules! path {
    ($name:ident) => {
        concat!(module_path!(), "::", stringify!($name))
    };
}

fn send<'a>(port: &Port, frames: impl IntoIterator<Item = &'a Vec<u8>>) {
    let socket = port.socket().expect("a socket");
    for frame in frames {
        assert_eq!(socket.send(frame).expect("it is sent"), frame.len());
    }
}

/// Waits until so many frames of all kinds have come.
fn wait_for(counting: &FrameCounter, all: u64) {
    let until = Instant::now() + PATIENCE;
    let come = || {
        let arrived = (0..SINKS.len()).map(|place| counting.stream(place));
        let own: u64 = arrived.map(|of| of.frames + of.duplicates).sum();
        let foreign = counting.foreign_frames().since(&Default::default());
        own + foreign.other_senders + foreign.own_returned + foreign.other_trial
    };
    while come() < all {
        assert!(Instant::now() < until, "{} of {all} came", come());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn numbered(numbers: &[u64]) -> Vec<Vec<u8>> {
    let parameters = parameters(IPV4, &[]);
    let made = numbers.iter();
    made.map(|number| frame(&parameters, key(SINKS[0]), *number, NONE_AGO))
        .collect()
}

#[test]
fn order_and_duplicates_are_told_exactly() {
    with_each_backend(
        path!(order_and_duplicates_are_told_exactly),
        |counting, a, way| {
            send(a, &numbered(&[0, 1, 2, 5, 4, 4, 3, 9, 9, 0]));
            wait_for(counting, 10);
            let arrived = counting.stream(0);
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
            assert_eq!(arrived, expected, "{way:?}");
            assert_eq!(counting.stream(1), StreamArrivals::default());
        },
    );
}

#[test]
fn a_frame_that_comes_later_than_the_window_is_told_and_counted_as_received() {
    let path = path!(a_frame_that_comes_later_than_the_window_is_told_and_counted_as_received);
    with_each_backend(path, |counting, a, way| {
        // The last but one is a window and a bit old, the last only half a window.
        let late = WINDOW + 5;
        send(a, &numbered(&[0, 5, late, 5, late - WINDOW / 2]));
        wait_for(counting, 5);
        let arrived = counting.stream(0);
        assert_eq!(
            (
                arrived.frames,
                arrived.duplicates,
                arrived.out_of_order,
                arrived.before_window
            ),
            (5, 0, 2, 1),
            "{way:?}"
        );
        assert_eq!(arrived.highest_number, Some(late));
    });
}

#[test]
fn numbers_many_windows_apart_are_told_from_each_other() {
    let path = path!(numbers_many_windows_apart_are_told_from_each_other);
    with_each_backend(path, |counting, a, way| {
        let numbers: Vec<u64> = (0..40).map(|i| i * WINDOW + 3).collect();
        send(a, &numbered(&numbers));
        send(a, &numbered(&numbers[39..]));
        wait_for(counting, 41);
        let arrived = counting.stream(0);
        assert_eq!((arrived.frames, arrived.duplicates), (40, 1), "{way:?}");
        assert_eq!((arrived.out_of_order, arrived.before_window), (0, 0));
    });
}

#[test]
fn frames_of_either_ip_with_up_to_two_tags_are_counted_with_their_fcs() {
    let path = path!(frames_of_either_ip_with_up_to_two_tags_are_counted_with_their_fcs);
    with_each_backend(path, |counting, a, way| {
        let tags: [&[u16]; 3] = [&[], &[7], &[7, 8]];
        let kinds = [IPV4, IPV6].map(|ip| tags.map(|tags| parameters(ip, tags)));
        let frames: Vec<Vec<u8>> = kinds
            .iter()
            .flatten()
            .zip(0..)
            .map(|(parameters, number)| frame(parameters, key(SINKS[1]), number, NONE_AGO))
            .collect();
        send(a, &frames);
        wait_for(counting, 6);
        let arrived = counting.stream(1);
        let bytes: usize = frames.iter().map(|frame| frame.len() + FCS_BYTES).sum();
        assert_eq!(
            (arrived.frames, arrived.bytes),
            (6, bytes as u64),
            "{way:?}"
        );
        assert_eq!(arrived.out_of_order, 0);
    });
}

#[test]
fn what_is_no_frame_of_the_sinks_is_told_apart() {
    with_each_backend(
        path!(what_is_no_frame_of_the_sinks_is_told_apart),
        |counting, a, way| {
            let parameters = parameters(IPV4, &[]);
            let of = |key, number, ago| frame(&parameters, key, number, ago);
            let mut request = vec![0xff; 6];
            request.extend([2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
            request.extend([2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, 5]);
            let long_ago = Duration::from_secs(3600);
            let frames = [
                of(key(OWN), 0, NONE_AGO),
                of(key(OWN), 0, NONE_AGO),
                // Of a stream that this side was told nothing of, and of another secret.
                of(key(9), 0, NONE_AGO),
                of(!PREFIX, 12_345, NONE_AGO),
                // Somebody's UDP.
                of(!PREFIX, 12_345, long_ago),
                // It only makes a port known.
                of(key(SINKS[0]), u64::MAX, NONE_AGO),
                request.clone(),
                request,
            ];
            send(a, &frames);
            wait_for(counting, 7);
            let foreign = counting.foreign_frames().since(&Default::default());
            assert_eq!(
                (
                    foreign.own_returned,
                    foreign.other_trial,
                    foreign.other_senders
                ),
                (2, 2, 3),
                "{way:?}"
            );
            assert_eq!(
                foreign.by_protocol,
                BTreeMap::from([("ARP", 2), ("IPv4", 1)])
            );
            let example = "ARP from 02:00:00:00:00:09: who has 10.0.0.5?";
            assert_eq!(foreign.example.as_deref(), Some(example));
            assert_eq!(counting.stream(0), StreamArrivals::default());
        },
    );
}

#[test]
fn foreign_frames_reach_the_stack_and_the_trials_do_not() {
    in_own_network(
        path!(foreign_frames_reach_the_stack_and_the_trials_do_not),
        || {
            let [a, b] = pair();
            shell("ip addr add 198.19.0.1/15 dev b");
            let (counting, name, _) =
                FrameCounter::open_sinks(&b, &filter(), Backend::Auto).expect("it counts");
            // UDP ports as the first flow has them.
            let socket = UdpSocket::bind("198.19.0.1:49152").expect("b has it");
            socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
            let parameters = parameters(IPV4, &[]);
            let own = frame(&parameters, key(SINKS[0]), 0, NONE_AGO);
            let foreign_sender = frame(&parameters, !PREFIX, 1 << 60, NONE_AGO);
            send(&a, [&own, &foreign_sender]);
            wait_for(&counting, 2);
            let mut came = [0; 18];
            socket.recv(&mut came).expect("one comes");
            // A receive ring only looks on.
            let first = if name == "packet" {
                own
            } else {
                foreign_sender
            };
            assert_eq!(came, first[42..]);
        },
    );
}

#[test]
fn a_stream_that_several_cpus_receive_is_counted_as_exactly() {
    /// Frames that each thread sends before all wait for them: no queue of the pair overflows.
    const ROUND: u64 = 48;
    const ROUNDS: u64 = 200;
    const THREADS: u64 = 4;
    let path = path!(a_stream_that_several_cpus_receive_is_counted_as_exactly);
    with_each_backend(path, |counting, a, way| {
        let barrier = Arc::new(Barrier::new(THREADS as usize));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let barrier = Arc::clone(&barrier);
                scope.spawn(move || {
                    run_on(thread as usize);
                    let parameters = parameters(IPV4, &[]);
                    for round in 0..ROUNDS {
                        // Each number is sent by two threads, at about the same time.
                        let first = (round * THREADS / 2 + thread / 2) * ROUND;
                        let numbers = first..first + ROUND;
                        let made = numbers.map(|n| frame(&parameters, key(SINKS[0]), n, NONE_AGO));
                        send(a, &made.collect::<Vec<_>>());
                        barrier.wait();
                        if thread == 0 {
                            wait_for(counting, (round + 1) * THREADS * ROUND);
                        }
                        barrier.wait();
                    }
                });
            }
        });
        let arrived = counting.stream(0);
        let numbers = ROUNDS * ROUND * THREADS / 2;
        assert_eq!(
            (arrived.frames, arrived.duplicates),
            (numbers, numbers),
            "{way:?}"
        );
        assert_eq!(arrived.highest_number, Some(numbers - 1));
        assert_eq!(arrived.before_window, 0);
    });
}

#[test]
fn the_time_that_a_frame_was_under_way_is_counted_where_it_can_be_known() {
    let path = path!(the_time_that_a_frame_was_under_way_is_counted_where_it_can_be_known);
    with_each_backend(path, |counting, a, way| {
        let parameters = parameters(IPV4, &[]);
        let ago = Duration::from_secs(2);
        let frames = [0, 1, 2].map(|number| frame(&parameters, key(SINKS[0]), number, ago));
        send(a, &frames);
        wait_for(counting, 3);
        let delay = counting.delay().since(&HistogramCounts::empty());
        assert_eq!(delay.count, 3, "{way:?}");
        // By the middles of buckets, each within 0.4 %.
        assert!(delay.p50_us >= Some(1_992_000.0), "{:?}", delay.p50_us);
        assert!(!counting.has_separate_clock());
        // An hour is too long; the other is, by 48 bits, some seconds before it was sent.
        for ago in [3600, 281_464].map(Duration::from_secs) {
            send(a, [&frame(&parameters, key(SINKS[1]), ago.as_secs(), ago)]);
        }
        wait_for(counting, 5);
        assert_eq!(counting.stream(1).impossible_transits, 2);
        assert!(counting.has_separate_clock());
        assert_eq!(counting.delay().since(&HistogramCounts::empty()).count, 3);
    });
}

#[test]
fn a_port_without_a_driver_that_can_is_counted_at_behind_it() {
    in_own_network(
        path!(a_port_without_a_driver_that_can_is_counted_at_behind_it),
        || {
            shell("ip link set lo up");
            let port = Port::open("lo").expect("it is there");
            let (counting, name, why) =
                FrameCounter::open_sinks(&port, &filter(), Backend::Auto).expect("it counts");
            let expected = if has_all_rights() {
                "xdp generic"
            } else {
                "packet"
            };
            assert_eq!(name, expected, "{why}");
            assert!(!why.is_empty());
            send(&port, &numbered(&[0, 1, 1, 0]));
            wait_for(&counting, 4);
            let arrived = counting.stream(0);
            assert_eq!((arrived.frames, arrived.duplicates), (2, 2), "{name}");
        },
    );
}

#[test]
fn a_port_that_another_program_holds_is_counted_at_by_a_ring_and_why_is_told() {
    let path = path!(a_port_that_another_program_holds_is_counted_at_by_a_ring_and_why_is_told);
    in_own_network(path, || {
        let [_, b] = pair();
        let (first, name, _) =
            FrameCounter::open_sinks(&b, &filter(), Backend::Auto).expect("it counts");
        let (_, second, why) =
            FrameCounter::open_sinks(&b, &filter(), Backend::Auto).expect("it counts");
        assert_eq!(second, "packet");
        if has_all_rights() {
            assert_eq!(name, "xdp native");
            assert!(why.contains("another XDP program is at b"), "{why}");
        }
        drop(first);
        let (_, third, _) =
            FrameCounter::open_sinks(&b, &filter(), Backend::Auto).expect("it counts");
        assert_eq!(third, name);
    });
}

#[test]
fn what_a_ring_has_no_room_for_is_told_and_the_rest_is_there() {
    const SENT: u64 = 20_000;
    in_own_network(
        path!(what_a_ring_has_no_room_for_is_told_and_the_rest_is_there),
        || {
            let [a, b] = pair();
            let mut ring = ReceiveRing::open(&b, 2).expect("a ring");
            let made = numbered(&[0]);
            send(&a, (0..SENT).map(|_| &made[0]));
            let mut taken = 0;
            let until = Instant::now() + PATIENCE;
            let mut dropped = ring.dropped().expect("it is told");
            while taken + dropped < SENT {
                assert!(Instant::now() < until, "{taken} and {dropped} of {SENT}");
                while ring.drain(|_| taken += 1) {}
                dropped += ring.dropped().expect("it is told");
            }
            assert!(dropped > 0 && taken > 0, "{taken} and {dropped}");
            assert_eq!(taken + dropped, SENT);
        },
    );
}
