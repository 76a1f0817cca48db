//! The knob `cpus`: where the agent's threads, those of now and those of later, may run.

use std::collections::HashSet;
use std::io;

use rustix::thread::Pid;

use vnetbench_system::cpu_list::CpuList;

/// Where the agent's first thread may run.
pub fn read() -> io::Result<CpuList> {
    Ok(CpuList::of_thread(Some(rustix::process::getpid()))?)
}

/// Threads inherit from the one that starts them, so this goes round until it has seen no new one.
pub fn set(cpus: &CpuList) -> io::Result<()> {
    let mut done = HashSet::new();
    loop {
        let mut found_new = false;
        for entry in std::fs::read_dir("/proc/self/task")? {
            let Some(thread) = entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            if !done.insert(thread) {
                continue;
            }
            found_new = true;
            match cpus.apply_to(Pid::from_raw(thread)) {
                // The thread has ended since the folder was read.
                Err(rustix::io::Errno::SRCH) => {}
                applied => applied?,
            }
        }
        if !found_new {
            return Ok(());
        }
    }
}
