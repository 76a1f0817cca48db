//! The knob `irq_cpus`: which CPUs take an adapter's interrupts (Documentation/core-api/irq/irq-affinity.rst).

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use vnetbench_interfaces::interface::Interface;
use vnetbench_system::cpu_list::CpuList;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IrqPlacement {
    /// All on all of these CPUs.
    SharedCpus(CpuList),
    /// A CPU for each, in turn.
    Spread,
    /// Each on its own.
    PerInterrupt(Vec<CpuList>),
}

/// Interfaces whose interrupts were last asked to be spread. A single interrupt on a single CPU is spread, too: how it
/// stands does not say how it was asked for.
static SPREAD_INTERFACES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// EOPNOTSUPP where there are no interrupts of its own.
pub fn read(interface: &Interface) -> io::Result<IrqPlacement> {
    let interrupts = adapter_interrupts(interface)?;
    let mut lists = Vec::with_capacity(interrupts.len());
    for interrupt in &interrupts {
        let text = std::fs::read_to_string(interrupt.affinity_file())?;
        let list = CpuList::parse(&text).map_err(io::Error::other)?;
        lists.push(list);
    }
    let alike = lists.windows(2).all(|pair| pair[0] == pair[1]);
    let was_asked = lock(&SPREAD_INTERFACES).contains(&interface.name);
    if (was_asked || !alike) && lists == spread_interrupts(&interrupts)? {
        return Ok(IrqPlacement::Spread);
    }
    Ok(match lists.pop() {
        Some(list) if alike => IrqPlacement::SharedCpus(list),
        last => {
            lists.extend(last);
            IrqPlacement::PerInterrupt(lists)
        }
    })
}

pub fn set(interface: &Interface, placing: &IrqPlacement) -> io::Result<()> {
    let interrupts = adapter_interrupts(interface)?;
    let lists = match placing {
        IrqPlacement::SharedCpus(cpus) => vec![cpus.clone(); interrupts.len()],
        IrqPlacement::Spread => spread_interrupts(&interrupts)?,
        IrqPlacement::PerInterrupt(lists) if lists.len() == interrupts.len() => lists.clone(),
        IrqPlacement::PerInterrupt(_) => {
            let count = interrupts.len();
            return Err(io::Error::other(format!("there are {count} interrupts")));
        }
    };
    for (interrupt, cpus) in interrupts.iter().zip(lists) {
        std::fs::write(interrupt.affinity_file(), cpus.to_string()).map_err(|error| {
            let number = interrupt.number;
            match error.raw_os_error() {
                Some(libc::EIO) => {
                    io::Error::other(format!("the driver places interrupt {number} itself"))
                }
                Some(libc::EINVAL | libc::ERANGE) => {
                    io::Error::other(format!("interrupt {number} cannot go to the CPUs {cpus}"))
                }
                _ => error,
            }
        })?;
    }
    let mut request = lock(&SPREAD_INTERFACES);
    match placing {
        IrqPlacement::Spread => request.insert(interface.name.clone()),
        IrqPlacement::SharedCpus(_) | IrqPlacement::PerInterrupt(_) => {
            request.remove(&interface.name)
        }
    };
    Ok(())
}

struct Interrupt {
    number: u32,
    /// What its driver calls it, without its numbers: the same for all of one kind (`virtio-input.`).
    handler_name: String,
}

impl Interrupt {
    fn folder(number: u32) -> PathBuf {
        PathBuf::from("/proc/irq").join(number.to_string())
    }

    fn affinity_file(&self) -> PathBuf {
        Self::folder(self.number).join("smp_affinity_list")
    }
}

/// In the order of their numbers.
fn adapter_interrupts(interface: &Interface) -> io::Result<Vec<Interrupt>> {
    let interrupts: Vec<Interrupt> = interrupt_numbers(&interface.hardware()?)
        .into_iter()
        .filter(|number| Interrupt::folder(*number).exists())
        .map(|number| Interrupt {
            number,
            handler_name: handler_name(&Interrupt::folder(number)),
        })
        .collect();
    if interrupts.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(interrupts)
}

/// Those that a device signals by messages, or else the one of its line.
fn interrupt_numbers(device: &Path) -> BTreeSet<u32> {
    if let Ok(entries) = std::fs::read_dir(device.join("msi_irqs")) {
        let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        return entries.flatten().filter_map(number).collect();
    }
    let line = std::fs::read_to_string(device.join("irq")).unwrap_or_default();
    line.trim()
        .parse()
        .ok()
        .filter(|number| *number > 0)
        .into_iter()
        .collect()
}

/// The folder of an interrupt has one for its driver, which names it.
fn handler_name(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let name = named
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .min();
    let name = name.unwrap_or_default();
    name.chars()
        .filter(|letter| !letter.is_ascii_digit())
        .collect()
}

fn spread_interrupts(interrupts: &[Interrupt]) -> io::Result<Vec<CpuList>> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let online = CpuList::parse(&online).map_err(io::Error::other)?;
    Ok(assign_round_robin(interrupts, &online))
}

/// Those of each kind by themselves: the first queue's for receiving and for transmitting have the same CPU.
fn assign_round_robin(interrupts: &[Interrupt], cpus: &CpuList) -> Vec<CpuList> {
    let cpus: Vec<usize> = cpus.iter().collect();
    let mut of_kind: HashMap<&str, usize> = HashMap::new();
    interrupts
        .iter()
        .map(|interrupt| {
            let turn = of_kind.entry(&interrupt.handler_name).or_default();
            let cpu = cpus[*turn % cpus.len()];
            *turn += 1;
            CpuList::single(cpu)
        })
        .collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_has_its_cpu_for_both_directions() {
        let names = [
            "virtio-config",
            "virtio-input.",
            "virtio-output.",
            "virtio-input.",
            "virtio-output.",
        ];
        let interrupts: Vec<Interrupt> = (24..)
            .zip(names)
            .map(|(number, kind)| Interrupt {
                number,
                handler_name: kind.into(),
            })
            .collect();
        let cpus = CpuList::parse("0-1").expect("valid");
        let lists: Vec<String> = assign_round_robin(&interrupts, &cpus)
            .iter()
            .map(CpuList::to_string)
            .collect();
        assert_eq!(lists, ["0", "0", "0", "1", "1"]);
    }

    #[test]
    fn what_has_no_interrupts_has_no_such_knob() {
        let lo = Interface::open("lo").expect("lo");
        let absent = read(&lo).map_err(|error| error.raw_os_error());
        assert_eq!(absent, Err(Some(libc::EOPNOTSUPP)));
    }
}
