//! The knob `cpus`: the CPUs that the agent's present and future threads may use.

use std::collections::HashSet;
use std::io;

use rustix::thread::Pid;

use vnetbench_system::cpu_list::CpuList;

/// Returns the CPUs that the agent's main thread may use.
pub fn read_main_thread_cpus() -> io::Result<CpuList> {
    Ok(CpuList::read_thread_affinity(Some(
        rustix::process::getpid(),
    ))?)
}

/// Sets the CPUs of all threads. Threads inherit the CPUs of their parent, so this repeats until no new thread appears.
pub fn set_cpus_of_agent_threads(cpus: &CpuList) -> io::Result<()> {
    let mut updated_threads = HashSet::new();
    loop {
        let mut has_new_thread = false;
        for entry in std::fs::read_dir("/proc/self/task")? {
            let Some(thread) = entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            if !updated_threads.insert(thread) {
                continue;
            }
            has_new_thread = true;
            match cpus.apply_to(Pid::from_raw(thread)) {
                // The thread has ended since the folder was read.
                Err(rustix::io::Errno::SRCH) => {}
                applied => applied?,
            }
        }
        if !has_new_thread {
            return Ok(());
        }
    }
}
