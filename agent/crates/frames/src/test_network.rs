//! Test support: a network namespace with a pair of real ports, and hand-made frames.

use std::process::Command;
use std::time::Duration;

use rustix::process::geteuid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::parameters::FrameParameters;
use crate::port::Port;
use crate::template::FrameTemplate;
use vnetbench_system::clock::monotonic_nanos;

/// Environment variable that marks the process inside the test network.
const INSIDE_NAMESPACE_VARIABLE: &str = "VNETBENCH_OWN_NETWORK";
const QUEUES_PER_PORT: usize = 4;

/// Runs a test again in a process with a network namespace of its own. `test` is the test's path.
///
/// Without root, the process gets a user namespace, in which it cannot load programs.
pub fn run_in_test_network(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE_NAMESPACE_VARIABLE).is_some() {
        return body();
    }
    let (_, path) = test.split_once("::").expect("a path starts with the crate");
    let mut command = Command::new("unshare");
    if !can_load_programs() {
        command.arg("--map-root-user");
    }
    let result = command
        .arg("--net")
        .arg(std::env::current_exe().expect("the path of the test binary"))
        .args([path, "--exact", "--nocapture"])
        .env(INSIDE_NAMESPACE_VARIABLE, "1")
        .output()
        .expect("unshare runs");
    let output = [result.stdout, result.stderr].concat();
    let output = String::from_utf8_lossy(&output);
    assert!(result.status.success(), "{output}");
    assert!(output.contains("1 passed"), "no test {path}: {output}");
}

/// Returns whether this process may load BPF programs. Root of a user namespace may not.
pub fn can_load_programs() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_initial = map.split_whitespace().eq(["0", "0", "4294967295"]);
    geteuid().is_root() && is_initial
}

/// Creates a veth pair with several queues. IPv6 is off, so that the interfaces send nothing by themselves.
pub fn create_veth_ports() -> [Port; 2] {
    let queues = format!("numtxqueues {QUEUES_PER_PORT} numrxqueues {QUEUES_PER_PORT}");
    run_shell(&format!(
        "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
         ip link add name a {queues} type veth peer name b {queues}
         ip link set dev a address 02:00:00:00:00:01 up
         ip link set dev b address 02:00:00:00:00:02 up"
    ));
    ["a", "b"].map(|name| Port::open_with_link(name).expect("the port exists"))
}

/// Runs a shell script and returns its standard output.
pub fn run_shell(script: &str) -> String {
    let result = Command::new("sh").args(["-ec", script]).output();
    let result = result.expect("sh runs");
    let stderr = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{stderr}: {script}");
    String::from_utf8_lossy(&result.stdout).into_owned()
}

/// Builds the smallest frame of a stream with this key, with a time stamp of `age` ago.
pub fn test_frame(parameters: &FrameParameters, key: u32, number: u64, age: Duration) -> Vec<u8> {
    let template = FrameTemplate::new(parameters, [2, 0, 0, 0, 0, 1], key);
    let sent = monotonic_nanos().wrapping_sub(age.as_nanos() as u64);
    template.build_frame(template.header.len(), 0, number, sent)
}

/// Pins the current thread to a CPU, modulo the number of CPUs.
pub fn pin_to_cpu(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu % aya::util::nr_cpus().expect("the number of CPUs is known"));
    sched_setaffinity(None, &cpus).expect("this CPU is online");
}
