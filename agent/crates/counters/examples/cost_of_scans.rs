//! Measures how long the scans at the start and the end of a trial take, for docs/protocol.md:
//!
//!     cargo run --release -p vnetbench-counters --example cost_of_scans

use std::io;
use std::time::{Duration, Instant};

use vnetbench_counters::path_state::PathStateReader;
use vnetbench_counters::processes::BusyProcessScanner;

const ROUNDS: usize = 200;

fn main() -> io::Result<()> {
    let scanner = BusyProcessScanner::new([]);
    let path = PathStateReader::open(None).map_err(io::Error::other)?;
    let (first_processes, first_path) = (scanner.read()?, path.read()?);
    let mut durations: [(&str, Vec<Duration>); 4] = [
        ("processes, start", Vec::new()),
        ("processes, end", Vec::new()),
        ("path_state, start", Vec::new()),
        ("path_state, end", Vec::new()),
    ];
    let mut processes = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        processes = scanner.read()?.len();
        durations[0].1.push(start.elapsed());
        let start = Instant::now();
        scanner.read_changes_since(&first_processes)?;
        durations[1].1.push(start.elapsed());
        let start = Instant::now();
        path.read()?;
        durations[2].1.push(start.elapsed());
        let start = Instant::now();
        path.read_changes_since(&first_path)?;
        durations[3].1.push(start.elapsed());
    }
    println!("{processes} processes");
    for (name, mut all) in durations {
        all.sort_unstable();
        let at = |share: usize| all[(ROUNDS - 1) * share / 100].as_micros();
        println!(
            "{name:18} median {:5} µs, 90 % below {:5} µs",
            at(50),
            at(90)
        );
    }
    Ok(())
}
