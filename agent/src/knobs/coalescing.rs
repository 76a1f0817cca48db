//! The knob `coalesce`: how long an adapter gathers packets before it interrupts (`struct ethtool_coalesce`).

use std::io;

use vnetbench_interfaces::interface::Interface;

const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_SCOALESCE: u32 = 0x0f;
/// Drivers that have no switch to adapt, but take small numbers of microseconds for ways to do so, and read them back.
const SPECIAL_VALUE_DRIVERS: [SpecialValueDriver; 5] = [
    SpecialValueDriver::e1000_family("e1000"),
    SpecialValueDriver::e1000_family("e1000e"),
    SpecialValueDriver::e1000_family("igb"),
    SpecialValueDriver::ixgbe_family("ixgbe"),
    SpecialValueDriver::ixgbe_family("ixgbevf"),
];

struct SpecialValueDriver {
    driver: &'static str,
    /// The ways; a driver begins with the first.
    adaptive_values_us: &'static [u32],
    /// Below it there are only the ways, 0, and what is refused.
    min_us: u32,
}

impl SpecialValueDriver {
    /// drivers/net/ethernet/intel/e1000e/param.c, InterruptThrottleRate.
    const fn e1000_family(driver: &'static str) -> Self {
        Self {
            driver,
            adaptive_values_us: &[3, 1],
            min_us: 10,
        }
    }

    /// drivers/net/ethernet/intel/ixgbe/ixgbe_ethtool.c, ixgbe_set_coalesce.
    const fn ixgbe_family(driver: &'static str) -> Self {
        Self {
            driver,
            adaptive_values_us: &[1],
            min_us: 2,
        }
    }
}

/// What is not named here is handed back to the driver as it came.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Coalescing {
    command: u32,
    pub rx_us: u32,
    pub rx_frames: u32,
    rx_in_interrupt: [u32; 2],
    pub tx_us: u32,
    pub tx_frames: u32,
    tx_in_interrupt: [u32; 2],
    statistics_us: u32,
    pub adaptive_rx: u32,
    pub adaptive_tx: u32,
    by_rate: [u32; 11],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoalesceSetting {
    /// For so many microseconds; 0: not at all.
    DelayUs(u32),
    Adaptive,
}

/// For what is received, and for what is transmitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectionCoalescing {
    pub rx: CoalesceSetting,
    pub tx: CoalesceSetting,
}

impl DirectionCoalescing {
    pub fn uniform(coalesce: CoalesceSetting) -> Self {
        Self {
            rx: coalesce,
            tx: coalesce,
        }
    }

    /// A driver that has receiving only, or both in one, shows nothing of the other: then both are alike.
    pub fn without_driver_default(self) -> Self {
        if self.tx == CoalesceSetting::DelayUs(0) {
            Self::uniform(self.rx)
        } else {
            self
        }
    }
}

pub fn read_all(interface: &Interface) -> io::Result<Coalescing> {
    let mut found = Coalescing {
        command: ETHTOOL_GCOALESCE,
        ..Default::default()
    };
    interface.ethtool(&mut found)?;
    Ok(found)
}

/// As the driver shows it.
pub fn read(interface: &Interface) -> io::Result<DirectionCoalescing> {
    let found = read_all(interface)?;
    let ways = special_value_driver(interface).map_or(&[][..], |known| known.adaptive_values_us);
    let of = |us: u32, adaptive: u32| {
        if adaptive != 0 || ways.contains(&us) {
            CoalesceSetting::Adaptive
        } else {
            CoalesceSetting::DelayUs(us)
        }
    };
    Ok(DirectionCoalescing {
        rx: of(found.rx_us, found.adaptive_rx),
        tx: of(found.tx_us, found.adaptive_tx),
    })
}

/// For receiving only, where the driver has no more.
pub fn set(interface: &Interface, wanted: DirectionCoalescing) -> io::Result<()> {
    let known = special_value_driver(interface);
    let known = known.as_ref();
    let numbers = |coalesce| match (coalesce, known) {
        (CoalesceSetting::DelayUs(us), Some(known)) if (1..known.min_us).contains(&us) => {
            let least = known.min_us;
            Err(io::Error::other(format!(
                "the driver takes 0, and {least} us or more, not {us} us"
            )))
        }
        (CoalesceSetting::DelayUs(us), _) => Ok((us, 0)),
        (CoalesceSetting::Adaptive, Some(known)) => Ok((known.adaptive_values_us[0], 0)),
        (CoalesceSetting::Adaptive, None) => Ok((0, 1)),
    };
    let found = read_all(interface)?;
    let mut receiving = found;
    (receiving.rx_us, receiving.adaptive_rx) = numbers(wanted.rx)?;
    let mut both = receiving;
    (both.tx_us, both.adaptive_tx) = numbers(wanted.tx)?;
    // What a driver lacks makes the kernel refuse all of it (ethtool_ops.supported_coalesce_params); Intel's refuse what
    // is for transmitting where each interrupt is for both.
    let written = write(interface, both).or_else(|_| write(interface, receiving));
    written.map_err(|error| match (error.raw_os_error(), wanted.rx) {
        (Some(libc::EINVAL), CoalesceSetting::DelayUs(us)) => {
            io::Error::other(format!("the driver does not take {us} us"))
        }
        _ => error,
    })
}

fn write(interface: &Interface, mut coalescing: Coalescing) -> io::Result<()> {
    coalescing.command = ETHTOOL_SCOALESCE;
    interface.ethtool(&mut coalescing)
}

fn special_value_driver(interface: &Interface) -> Option<SpecialValueDriver> {
    let driver = interface.driver().ok()?;
    SPECIAL_VALUE_DRIVERS
        .into_iter()
        .find(|known| known.driver == driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_as_large_as_the_kernels() {
        assert_eq!(size_of::<Coalescing>(), 92);
    }

    #[test]
    fn what_a_driver_shows_of_receiving_only_stands_for_both() {
        let (rx, none) = (CoalesceSetting::DelayUs(50), CoalesceSetting::DelayUs(0));
        let receiving = DirectionCoalescing { rx, tx: none };
        assert_eq!(
            receiving.without_driver_default(),
            DirectionCoalescing::uniform(rx)
        );
        let transmitting = DirectionCoalescing { rx: none, tx: rx };
        assert_eq!(transmitting.without_driver_default(), transmitting);
    }
}
