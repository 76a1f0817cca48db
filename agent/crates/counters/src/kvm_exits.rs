//! VM exits by kind, from debugfs: KVM has a folder for each virtual machine, named by process and descriptor, with a file
//! for each counter (virt/kvm/kvm_main.c, kvm_create_vm_debugfs).

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use crate::proc_file::read_first_number;

const KVM_DEBUGFS_FOLDER: &str = "/sys/kernel/debug/kvm";

pub type ExitCounts = BTreeMap<String, u64>;

pub struct KvmExits(Vec<ExitCounter>);

struct ExitCounter {
    kind: String,
    file: File,
    last: u64,
}

impl KvmExits {
    /// Opens the counters of all virtual machines of these processes. Returns `None` if the kernel exposes none.
    pub fn open(processes: &[u32]) -> Option<Self> {
        Self::open_below(Path::new(KVM_DEBUGFS_FOLDER), processes)
    }

    fn open_below(root: &Path, processes: &[u32]) -> Option<Self> {
        let mut counters = Vec::new();
        for machine in std::fs::read_dir(root).ok()?.flatten() {
            let name = machine.file_name();
            let process = name.to_str().and_then(|name| name.split_once('-'));
            let process = process.and_then(|(process, _)| process.parse().ok());
            if process.is_none_or(|process| !processes.contains(&process)) {
                continue;
            }
            for entry in std::fs::read_dir(machine.path()).ok()?.flatten() {
                let kind = entry.file_name().to_string_lossy().into_owned();
                // Counter names of x86 (`io_exits`) and of arm64 (`wfi_exit_stat`).
                if !kind.contains("exit") {
                    continue;
                }
                let file = File::open(entry.path()).ok()?;
                counters.push(ExitCounter {
                    last: read_first_number(&file).ok()?,
                    kind,
                    file,
                });
            }
        }
        (!counters.is_empty()).then_some(Self(counters))
    }

    /// Returns the sums over all machines. A machine that has ended keeps its last counts.
    pub fn read(&mut self) -> ExitCounts {
        let mut exits = ExitCounts::new();
        for counter in &mut self.0 {
            counter.last = read_first_number(&counter.file).unwrap_or(counter.last);
            *exits.entry(counter.kind.clone()).or_default() += counter.last;
        }
        exits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_are_summed_by_kind_over_all_machines_of_a_process() {
        let root = std::env::temp_dir().join(format!("vnetbench-kvm-{}", std::process::id()));
        let count = |machine: &str, name: &str, count: &str| {
            let folder = root.join(machine);
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join(name), count).expect("a file");
        };
        for (machine, exits) in [("71-11", "30\n"), ("71-12", "5\n"), ("711-9", "900\n")] {
            count(machine, "exits", exits);
            count(machine, "io_exits", "2\n");
            count(machine, "halt_wait_ns", "77\n");
        }
        let mut kvm = KvmExits::open_below(&root, &[71]).expect("two machines");
        let exits = |all, io| ExitCounts::from([("exits".into(), all), ("io_exits".into(), io)]);
        assert_eq!(kvm.read(), exits(35, 4));
        count("71-12", "exits", "6\n");
        assert_eq!(kvm.read(), exits(36, 4));
        assert!(KvmExits::open_below(&root, &[72]).is_none());
        std::fs::remove_dir_all(&root).expect("the test can remove its files");
        assert!(KvmExits::open_below(&root, &[71]).is_none());
    }
}
