//! For tests: a network of their own with a real pair of ports, and frames made by hand.

use std::process::Command;
use std::time::Duration;

use rustix::process::geteuid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::parameters::FrameParameters;
use crate::port::Port;
use crate::template::FrameTemplate;
use vnetbench_system::clock::monotonic_nanos;

/// Set in the process that is in such a network.
const INSIDE: &str = "VNETBENCH_OWN_NETWORK";
const QUEUES: usize = 4;

/// Runs a test again as a process in a network of its own, with all rights where this one has them: only those may load
/// programs. `test` is its path.
pub fn in_own_network(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let (_, path) = test.split_once("::").expect("the crate comes first");
    let mut command = Command::new("unshare");
    if !has_all_rights() {
        command.arg("--map-root-user");
    }
    let outcome = command
        .arg("--net")
        .arg(std::env::current_exe().expect("the tests"))
        .args([path, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare runs");
    let json = [outcome.stdout, outcome.stderr].concat();
    let json = String::from_utf8_lossy(&json);
    assert!(outcome.status.success(), "{json}");
    assert!(json.contains("1 passed"), "no test {path}: {json}");
}

/// Whether programs may be loaded: root of a user namespace may not.
pub fn has_all_rights() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_initial = map.split_whitespace().eq(["0", "0", "4294967295"]);
    geteuid().is_root() && is_initial
}

/// Two ports that are each other's far end, with a queue for each of some CPUs, and nothing that sends by itself.
pub fn pair() -> [Port; 2] {
    let queues = format!("numtxqueues {QUEUES} numrxqueues {QUEUES}");
    shell(&format!(
        "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
         ip link add name a {queues} type veth peer name b {queues}
         ip link set dev a address 02:00:00:00:00:01 up
         ip link set dev b address 02:00:00:00:00:02 up"
    ));
    ["a", "b"].map(|name| Port::open(name).expect("it is there"))
}

/// What a command prints.
pub fn shell(script: &str) -> String {
    let outcome = Command::new("sh").args(["-ec", script]).output();
    let outcome = outcome.expect("there is a shell");
    let stderr = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.success(), "{stderr}: {script}");
    String::from_utf8_lossy(&outcome.stdout).into_owned()
}

/// Of a stream with this key, as short as can be, sent so long ago.
pub fn frame(parameters: &FrameParameters, key: u32, number: u64, ago: Duration) -> Vec<u8> {
    let template = FrameTemplate::new(parameters, [2, 0, 0, 0, 0, 1], key);
    let sent = monotonic_nanos().wrapping_sub(ago.as_nanos() as u64);
    template.frame(template.header.len(), 0, number, sent)
}

/// Has the current thread run on that CPU, of those that there are.
pub fn run_on(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu % aya::util::nr_cpus().expect("they are known"));
    sched_setaffinity(None, &cpus).expect("this CPU is online");
}
