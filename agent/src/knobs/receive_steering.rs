//! The knob `rps_cpus`: the CPUs that process received packets (Documentation/networking/scaling.rst, RPS).

use std::io;
use std::path::PathBuf;

use vnetbench_interfaces::interface::Interface;
use vnetbench_system::cpu_list::CpuList;

/// Returns the CPUs; `None` if the receive queues differ. Fails with EOPNOTSUPP if the kernel lacks RPS.
pub fn read_common_rps_cpus(interface: &Interface) -> io::Result<Option<CpuList>> {
    let mut lists = Vec::new();
    for file in list_rps_cpus_files(interface)? {
        let mask = std::fs::read_to_string(&file)?;
        let list = CpuList::from_mask(&mask).ok_or_else(|| {
            io::Error::other(format!("{} does not contain a CPU mask", file.display()))
        })?;
        lists.push(list);
    }
    let are_equal = lists.windows(2).all(|pair| pair[0] == pair[1]);
    Ok(if are_equal { lists.pop() } else { None })
}

/// Sets the CPUs of every receive queue.
pub fn set_rps_cpus(interface: &Interface, cpus: &CpuList) -> io::Result<()> {
    let mask = cpus.to_mask();
    for file in list_rps_cpus_files(interface)? {
        std::fs::write(file, &mask)?;
    }
    Ok(())
}

/// Returns the sysfs file of each receive queue.
fn list_rps_cpus_files(interface: &Interface) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(interface.sysfs_folder()?.join("queues"))? {
        let file = entry?.path().join("rps_cpus");
        if file.exists() {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(files)
}
