//! The knobs `napi_cpus` and `napi_first`: the kernel's threads that take in what comes to an interface, where they may run,
//! and whether before all others there (Documentation/networking/napi.rst, "Threaded NAPI").

use std::io;

use rustix::thread::Pid;

use vnetbench_interfaces::interface::Interface;
use vnetbench_interfaces::netdev;
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::priority::Rank;

// include/uapi/linux/netdev.h
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_A_NAPI_PID: u16 = 4;

/// Empty where the CPU goes on that the packets came to; `None` where the threads differ, or cannot be told.
pub fn read_cpus(interface: &Interface) -> io::Result<Option<CpuList>> {
    if !is_threaded(interface)? {
        return Ok(Some(CpuList::default()));
    }
    let Ok(threads) = napi_threads(interface) else {
        return Ok(None);
    };
    let lists: Vec<CpuList> = threads
        .into_iter()
        .map(|thread| CpuList::of_thread(Some(thread)))
        .collect::<rustix::io::Result<_>>()?;
    let alike = lists.windows(2).all(|pair| pair[0] == pair[1]);
    Ok(lists.into_iter().next_back().filter(|_| alike))
}

/// An empty list ends the threads.
pub fn set_cpus(interface: &Interface, cpus: &CpuList) -> io::Result<()> {
    let wanted = if cpus.is_empty() { "0" } else { "1" };
    std::fs::write(interface.sysfs()?.join("threaded"), wanted)?;
    if !cpus.is_empty() {
        for thread in napi_threads(interface)? {
            cpus.apply_to(Some(thread))?;
        }
    }
    Ok(())
}

/// Whether they run before all that is no more urgent than they (SCHED_FIFO); `None` where they differ, or cannot be told.
pub fn read_priority(interface: &Interface) -> io::Result<Option<bool>> {
    if !is_threaded(interface)? {
        return Ok(Some(false));
    }
    let Ok(threads) = napi_threads(interface) else {
        return Ok(None);
    };
    let mut found = Vec::new();
    for thread in threads {
        // SAFETY: the call reads no memory of ours.
        let policy = unsafe { libc::sched_getscheduler(thread.as_raw_nonzero().get()) };
        if policy < 0 {
            return Err(io::Error::last_os_error());
        }
        found.push(policy == libc::SCHED_FIFO);
    }
    let alike = found.windows(2).all(|pair| pair[0] == pair[1]);
    Ok(found.into_iter().next_back().filter(|_| alike))
}

pub fn set_priority(interface: &Interface, first: bool) -> io::Result<()> {
    let (policy, priority) = if first {
        (libc::SCHED_FIFO, Rank::Port as libc::c_int)
    } else {
        (libc::SCHED_OTHER, 0)
    };
    if !is_threaded(interface)? && first {
        return Err(io::Error::other(
            "it has no threads: name their CPUs first (napi_cpus)",
        ));
    }
    for thread in napi_threads(interface)? {
        let parameter = libc::sched_param {
            sched_priority: priority,
        };
        let thread = thread.as_raw_nonzero().get();
        // SAFETY: `parameter` is a whole `struct sched_param` that outlives the call.
        if unsafe { libc::sched_setscheduler(thread, policy, &parameter) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// EOPNOTSUPP where the kernel has no such threads (before Linux 5.12).
fn is_threaded(interface: &Interface) -> io::Result<bool> {
    match std::fs::read_to_string(interface.sysfs()?.join("threaded")) {
        Ok(text) => Ok(text.trim() == "1"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
        }
        Err(error) => Err(error),
    }
}

fn napi_threads(interface: &Interface) -> io::Result<Vec<Pid>> {
    netdev::request_for(interface, NETDEV_CMD_NAPI_GET, &[])
        .map_err(|_| kernel_too_old())?
        .iter()
        .map(|napi| Pid::from_raw(napi.u32(NETDEV_A_NAPI_PID)?.cast_signed()))
        .collect::<Option<_>>()
        .ok_or_else(kernel_too_old)
}

fn kernel_too_old() -> io::Error {
    io::Error::other("this kernel does not tell which threads are an interface's (Linux 6.9 does)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_threads_runs_before_nothing() {
        let lo = Interface::open("lo").expect("lo is there");
        assert_eq!(read_cpus(&lo).expect("read"), Some(CpuList::default()));
        assert_eq!(read_priority(&lo).expect("read"), Some(false));
        assert!(set_priority(&lo, true).is_err());
    }
}
