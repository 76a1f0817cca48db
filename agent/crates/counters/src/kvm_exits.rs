//! How often virtual machines left their guests, by kind, as KVM shows it in debugfs: a folder for each machine, named by
//! the process and its descriptor, a file for each counter (virt/kvm/kvm_main.c, kvm_create_vm_debugfs).

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use crate::proc_file::first_number;

const ROOT: &str = "/sys/kernel/debug/kvm";

pub type Exits = BTreeMap<String, u64>;

pub struct KvmExits(Vec<Counter>);

struct Counter {
    kind: String,
    file: File,
    last: u64,
}

impl KvmExits {
    /// The counters of all machines of these processes; `None` where the kernel shows none.
    pub fn open(processes: &[u32]) -> Option<Self> {
        Self::below(Path::new(ROOT), processes)
    }

    fn below(root: &Path, processes: &[u32]) -> Option<Self> {
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
                // By the kernel's names of x86 (`io_exits`) and of arm64 (`wfi_exit_stat`).
                if !kind.contains("exit") {
                    continue;
                }
                let file = File::open(entry.path()).ok()?;
                counters.push(Counter {
                    last: first_number(&file).ok()?,
                    kind,
                    file,
                });
            }
        }
        (!counters.is_empty()).then_some(Self(counters))
    }

    /// Of all machines together. One that has ended keeps what it had.
    pub fn read(&mut self) -> Exits {
        let mut exits = Exits::new();
        for counter in &mut self.0 {
            counter.last = first_number(&counter.file).unwrap_or(counter.last);
            *exits.entry(counter.kind.clone()).or_default() += counter.last;
        }
        exits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exits_of_all_machines_of_a_process_are_added_up_by_kind() {
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
        let mut kvm = KvmExits::below(&root, &[71]).expect("two machines");
        let exits = |all, io| Exits::from([("exits".into(), all), ("io_exits".into(), io)]);
        assert_eq!(kvm.read(), exits(35, 4));
        count("71-12", "exits", "6\n");
        assert_eq!(kvm.read(), exits(36, 4));
        assert!(KvmExits::below(&root, &[72]).is_none());
        std::fs::remove_dir_all(&root).expect("it is ours");
        assert!(KvmExits::below(&root, &[71]).is_none());
    }
}
