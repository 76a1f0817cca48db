//! The knob `irq_cpus`: the CPUs that handle an adapter's interrupts (Documentation/core-api/irq/irq-affinity.rst).

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use vnetbench_interfaces::interface::Interface;
use vnetbench_system::cpu_list::CpuList;

/// How an adapter's interrupts are assigned to CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IrqPlacement {
    /// All interrupts on the same CPUs.
    SharedCpus(CpuList),
    /// One CPU for each interrupt, round-robin.
    Spread,
    /// A CPU list for each interrupt.
    PerInterrupt(Vec<CpuList>),
}

/// Interfaces whose last request was to spread interrupts. The affinity alone is ambiguous: a single interrupt on one CPU
/// matches both forms.
static SPREAD_INTERFACES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Returns the current placement. Fails with EOPNOTSUPP if the adapter has no interrupts of its own.
pub fn read_irq_placement(interface: &Interface) -> io::Result<IrqPlacement> {
    let interrupts = list_adapter_interrupts(interface)?;
    let mut lists = Vec::with_capacity(interrupts.len());
    for interrupt in &interrupts {
        let text = std::fs::read_to_string(interrupt.affinity_file())?;
        let list = CpuList::parse(&text).map_err(io::Error::other)?;
        lists.push(list);
    }
    let are_equal = lists.windows(2).all(|pair| pair[0] == pair[1]);
    let was_requested = lock(&SPREAD_INTERFACES).contains(&interface.name);
    if (was_requested || !are_equal) && lists == spread_interrupts(&interrupts)? {
        return Ok(IrqPlacement::Spread);
    }
    Ok(match lists.pop() {
        Some(list) if are_equal => IrqPlacement::SharedCpus(list),
        last => {
            lists.extend(last);
            IrqPlacement::PerInterrupt(lists)
        }
    })
}

/// Assigns the interrupts to CPUs.
pub fn set_irq_placement(interface: &Interface, placement: &IrqPlacement) -> io::Result<()> {
    let interrupts = list_adapter_interrupts(interface)?;
    let lists = match placement {
        IrqPlacement::SharedCpus(cpus) => vec![cpus.clone(); interrupts.len()],
        IrqPlacement::Spread => spread_interrupts(&interrupts)?,
        IrqPlacement::PerInterrupt(lists) if lists.len() == interrupts.len() => lists.clone(),
        IrqPlacement::PerInterrupt(_) => {
            let count = interrupts.len();
            return Err(io::Error::other(format!(
                "the adapter has {count} interrupts. Name {count} CPU lists"
            )));
        }
    };
    for (interrupt, cpus) in interrupts.iter().zip(lists) {
        std::fs::write(interrupt.affinity_file(), cpus.to_string()).map_err(|error| {
            let number = interrupt.number;
            match error.raw_os_error() {
                Some(libc::EIO) => io::Error::other(format!(
                    "the driver manages the CPUs of interrupt {number} itself"
                )),
                Some(libc::EINVAL | libc::ERANGE) => {
                    io::Error::other(format!("interrupt {number} cannot go to the CPUs {cpus}"))
                }
                _ => error,
            }
        })?;
    }
    let mut spread_interfaces = lock(&SPREAD_INTERFACES);
    match placement {
        IrqPlacement::Spread => spread_interfaces.insert(interface.name.clone()),
        IrqPlacement::SharedCpus(_) | IrqPlacement::PerInterrupt(_) => {
            spread_interfaces.remove(&interface.name)
        }
    };
    Ok(())
}

/// An interrupt of an adapter.
struct Interrupt {
    number: u32,
    /// The driver's name of the interrupt without digits: equal for all of one type (`virtio-input.`).
    handler_name_without_digits: String,
}

impl Interrupt {
    fn proc_irq_folder(number: u32) -> PathBuf {
        PathBuf::from("/proc/irq").join(number.to_string())
    }

    fn affinity_file(&self) -> PathBuf {
        Self::proc_irq_folder(self.number).join("smp_affinity_list")
    }
}

/// Returns the adapter's interrupts, ordered by number.
fn list_adapter_interrupts(interface: &Interface) -> io::Result<Vec<Interrupt>> {
    let interrupts: Vec<Interrupt> = list_interrupt_numbers(&interface.bus_device_path()?)
        .into_iter()
        .filter(|number| Interrupt::proc_irq_folder(*number).exists())
        .map(|number| Interrupt {
            number,
            handler_name_without_digits: read_handler_name_without_digits(
                &Interrupt::proc_irq_folder(number),
            ),
        })
        .collect();
    if interrupts.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(interrupts)
}

/// Returns the numbers of the device's message-signalled interrupts, or else of its interrupt line.
fn list_interrupt_numbers(device: &Path) -> BTreeSet<u32> {
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

/// Returns the name that the driver gave the interrupt, without digits. It is the name of a subfolder.
fn read_handler_name_without_digits(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let name = folders
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
    Ok(assign_round_robin_per_handler(interrupts, &online))
}

/// Assigns CPUs round-robin, separately for each handler name. The receive and transmit interrupts of a queue thus share
/// a CPU.
fn assign_round_robin_per_handler(interrupts: &[Interrupt], cpus: &CpuList) -> Vec<CpuList> {
    let cpus: Vec<usize> = cpus.iter().collect();
    let mut counts_by_name: HashMap<&str, usize> = HashMap::new();
    interrupts
        .iter()
        .map(|interrupt| {
            let count = counts_by_name
                .entry(&interrupt.handler_name_without_digits)
                .or_default();
            let cpu = cpus[*count % cpus.len()];
            *count += 1;
            CpuList::from_cpu(cpu)
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
    fn both_interrupts_of_a_queue_get_the_same_cpu() {
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
                handler_name_without_digits: kind.into(),
            })
            .collect();
        let cpus = CpuList::parse("0-1").expect("valid");
        let lists: Vec<String> = assign_round_robin_per_handler(&interrupts, &cpus)
            .iter()
            .map(CpuList::to_string)
            .collect();
        assert_eq!(lists, ["0", "0", "0", "1", "1"]);
    }

    #[test]
    fn an_interface_without_interrupts_lacks_the_knob() {
        let lo = Interface::open("lo").expect("lo");
        let result = read_irq_placement(&lo).map_err(|error| error.raw_os_error());
        assert_eq!(result, Err(Some(libc::EOPNOTSUPP)));
    }
}
