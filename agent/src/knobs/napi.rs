//! The knobs `napi_cpus` and `napi_has_priority`: the CPUs and the priority of the kernel threads that receive packets for an
//! interface (Documentation/networking/napi.rst, "Threaded NAPI").

use std::io;

use rustix::thread::Pid;

use vnetbench_interfaces::interface::Interface;
use vnetbench_interfaces::netdev;
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::priority::RealTimeRank;

// include/uapi/linux/netdev.h
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_A_NAPI_PID: u16 = 4;

/// Returns the CPUs of the threads; an empty list if threaded NAPI is off.
///
/// Returns `None` if the threads have different CPUs, or the kernel does not report the threads.
pub fn read_common_napi_thread_cpus(interface: &Interface) -> io::Result<Option<CpuList>> {
    if !is_threaded_napi_on(interface)? {
        return Ok(Some(CpuList::default()));
    }
    let Ok(threads) = list_napi_threads(interface) else {
        return Ok(None);
    };
    let lists: Vec<CpuList> = threads
        .into_iter()
        .map(|thread| CpuList::read_thread_affinity(Some(thread)))
        .collect::<rustix::io::Result<_>>()?;
    let are_equal = lists.windows(2).all(|pair| pair[0] == pair[1]);
    Ok(lists.into_iter().next_back().filter(|_| are_equal))
}

/// Starts the threads on these CPUs. An empty list ends the threads.
pub fn start_or_end_napi_threads(interface: &Interface, cpus: &CpuList) -> io::Result<()> {
    let is_threaded = if cpus.is_empty() { "0" } else { "1" };
    std::fs::write(interface.sysfs_folder()?.join("threaded"), is_threaded)?;
    if !cpus.is_empty() {
        for thread in list_napi_threads(interface)? {
            cpus.apply_to(Some(thread))?;
        }
    }
    Ok(())
}

/// Returns whether the threads run under the real-time policy SCHED_FIFO.
///
/// Returns `None` if the threads have different policies, or the kernel does not report the threads.
pub fn read_common_realtime_priority(interface: &Interface) -> io::Result<Option<bool>> {
    if !is_threaded_napi_on(interface)? {
        return Ok(Some(false));
    }
    let Ok(threads) = list_napi_threads(interface) else {
        return Ok(None);
    };
    let mut have_priority = Vec::new();
    for thread in threads {
        // SAFETY: the call accesses no memory of this process.
        let policy = unsafe { libc::sched_getscheduler(thread.as_raw_nonzero().get()) };
        if policy < 0 {
            return Err(io::Error::last_os_error());
        }
        have_priority.push(policy == libc::SCHED_FIFO);
    }
    let are_equal = have_priority.windows(2).all(|pair| pair[0] == pair[1]);
    Ok(have_priority.into_iter().next_back().filter(|_| are_equal))
}

/// Runs the threads under SCHED_FIFO, or under the default policy.
pub fn set_realtime_priority(interface: &Interface, has_priority: bool) -> io::Result<()> {
    let (policy, priority) = if has_priority {
        (libc::SCHED_FIFO, RealTimeRank::Port as libc::c_int)
    } else {
        (libc::SCHED_OTHER, 0)
    };
    if !is_threaded_napi_on(interface)? && has_priority {
        return Err(io::Error::other(
            "a real-time priority needs NAPI threads, and threaded NAPI is off. Set napi_cpus first, which turns it on",
        ));
    }
    for thread in list_napi_threads(interface)? {
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

/// Returns whether threaded NAPI is on. Fails with EOPNOTSUPP before Linux 5.12, which lacks it.
fn is_threaded_napi_on(interface: &Interface) -> io::Result<bool> {
    match std::fs::read_to_string(interface.sysfs_folder()?.join("threaded")) {
        Ok(text) => Ok(text.trim() == "1"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
        }
        Err(error) => Err(error),
    }
}

fn list_napi_threads(interface: &Interface) -> io::Result<Vec<Pid>> {
    netdev::request_netdev(interface, NETDEV_CMD_NAPI_GET, Vec::new())
        .map_err(|_| kernel_too_old_error())?
        .iter()
        .map(|napi| Pid::from_raw(napi.find_u32(NETDEV_A_NAPI_PID)?.cast_signed()))
        .collect::<Option<_>>()
        .ok_or_else(kernel_too_old_error)
}

fn kernel_too_old_error() -> io::Error {
    io::Error::other(
        "this kernel does not report an interface's NAPI threads. Use Linux 6.9 or later",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_must_be_on_before_they_get_priority() {
        let lo = Interface::open("lo").expect("lo exists");
        assert_eq!(
            read_common_napi_thread_cpus(&lo).expect("read"),
            Some(CpuList::default())
        );
        assert_eq!(
            read_common_realtime_priority(&lo).expect("read"),
            Some(false)
        );
        assert!(set_realtime_priority(&lo, true).is_err());
    }
}
