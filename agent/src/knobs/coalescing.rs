//! The knob `coalesce`: how long an adapter delays interrupts to combine packets (`struct ethtool_coalesce`).

use std::io;

use vnetbench_interfaces::interface::Interface;

const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_SCOALESCE: u32 = 0x0f;
/// Drivers without an adaptive switch that use special microsecond values for adaptive modes.
const SPECIAL_VALUE_DRIVERS: [SpecialValueDriver; 5] = [
    SpecialValueDriver::e1000_family("e1000"),
    SpecialValueDriver::e1000_family("e1000e"),
    SpecialValueDriver::e1000_family("igb"),
    SpecialValueDriver::ixgbe_family("ixgbe"),
    SpecialValueDriver::ixgbe_family("ixgbevf"),
];

/// A driver that uses special microsecond values for adaptive modes.
struct SpecialValueDriver {
    driver: &'static str,
    /// The special values; the first is the driver's default.
    adaptive_values_us: &'static [u32],
    /// The smallest real delay. The driver rejects values between 0 and this one that are not special.
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

/// `struct ethtool_coalesce`. Private fields go back to the driver unchanged.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Coalescing {
    command: u32,
    /// Maximum delay of a receive interrupt.
    pub rx_us: u32,
    /// Packets that trigger a receive interrupt early.
    pub rx_frames: u32,
    rx_in_interrupt: [u32; 2],
    /// Maximum delay of a transmit interrupt.
    pub tx_us: u32,
    /// Packets that trigger a transmit interrupt early.
    pub tx_frames: u32,
    tx_in_interrupt: [u32; 2],
    statistics_us: u32,
    /// Not 0: the driver adapts the receive delay.
    pub adaptive_rx: u32,
    /// Not 0: the driver adapts the transmit delay.
    pub adaptive_tx: u32,
    by_rate: [u32; 11],
}

/// The coalescing of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoalesceSetting {
    /// A fixed delay in microseconds; 0 disables coalescing.
    DelayUs(u32),
    /// A delay that the driver adapts to the traffic.
    Adaptive,
}

/// The coalescing of both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BidirectionalCoalescing {
    /// Coalescing of received packets.
    pub rx: CoalesceSetting,
    /// Coalescing of transmitted packets.
    pub tx: CoalesceSetting,
}

impl BidirectionalCoalescing {
    /// Returns the same setting for both directions.
    pub fn uniform(coalesce: CoalesceSetting) -> Self {
        Self {
            rx: coalesce,
            tx: coalesce,
        }
    }

    /// Returns equal settings if the transmit value is 0: drivers that lack it, or share one value, report 0.
    pub fn copy_rx_to_zero_tx(self) -> Self {
        if self.tx == CoalesceSetting::DelayUs(0) {
            Self::uniform(self.rx)
        } else {
            self
        }
    }
}

/// Reads all coalescing values of the driver.
pub fn read_ethtool_coalescing(interface: &Interface) -> io::Result<Coalescing> {
    let mut coalescing = Coalescing {
        command: ETHTOOL_GCOALESCE,
        ..Default::default()
    };
    interface.run_ethtool_command(&mut coalescing)?;
    Ok(coalescing)
}

/// Reads the setting of both directions as the driver reports it.
pub fn read_coalescing(interface: &Interface) -> io::Result<BidirectionalCoalescing> {
    let coalescing = read_ethtool_coalescing(interface)?;
    let adaptive_values =
        find_special_value_driver(interface).map_or(&[][..], |driver| driver.adaptive_values_us);
    let setting = |us: u32, adaptive: u32| {
        if adaptive != 0 || adaptive_values.contains(&us) {
            CoalesceSetting::Adaptive
        } else {
            CoalesceSetting::DelayUs(us)
        }
    };
    Ok(BidirectionalCoalescing {
        rx: setting(coalescing.rx_us, coalescing.adaptive_rx),
        tx: setting(coalescing.tx_us, coalescing.adaptive_tx),
    })
}

/// Sets both directions, or only the receive direction if the driver supports no more.
pub fn set_coalescing(interface: &Interface, settings: BidirectionalCoalescing) -> io::Result<()> {
    let driver = find_special_value_driver(interface);
    let driver = driver.as_ref();
    let driver_values = |setting| match (setting, driver) {
        (CoalesceSetting::DelayUs(us), Some(driver)) if (1..driver.min_us).contains(&us) => {
            let min_us = driver.min_us;
            Err(io::Error::other(format!(
                "the driver does not support {us} µs. Use 0, or at least {min_us} µs"
            )))
        }
        (CoalesceSetting::DelayUs(us), _) => Ok((us, 0)),
        (CoalesceSetting::Adaptive, Some(driver)) => Ok((driver.adaptive_values_us[0], 0)),
        (CoalesceSetting::Adaptive, None) => Ok((0, 1)),
    };
    let mut rx_only = read_ethtool_coalescing(interface)?;
    (rx_only.rx_us, rx_only.adaptive_rx) = driver_values(settings.rx)?;
    let mut both = rx_only;
    (both.tx_us, both.adaptive_tx) = driver_values(settings.tx)?;
    // The kernel rejects the whole request if the driver lacks one parameter (ethtool_ops.supported_coalesce_params).
    // Intel's drivers reject transmit parameters if each interrupt serves both directions.
    let result = write_ethtool_coalescing(interface, both)
        .or_else(|_| write_ethtool_coalescing(interface, rx_only));
    result.map_err(|error| match (error.raw_os_error(), settings.rx) {
        (Some(libc::EINVAL), CoalesceSetting::DelayUs(us)) => {
            io::Error::other(format!("the driver does not support {us} µs"))
        }
        _ => error,
    })
}

fn write_ethtool_coalescing(interface: &Interface, mut coalescing: Coalescing) -> io::Result<()> {
    coalescing.command = ETHTOOL_SCOALESCE;
    interface.run_ethtool_command(&mut coalescing)
}

fn find_special_value_driver(interface: &Interface) -> Option<SpecialValueDriver> {
    let driver = interface.driver_name().ok()?;
    SPECIAL_VALUE_DRIVERS
        .into_iter()
        .find(|known| known.driver == driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_kernels_size() {
        assert_eq!(size_of::<Coalescing>(), 92);
    }

    #[test]
    fn a_missing_transmit_value_equals_the_receive_value() {
        let (rx, none) = (CoalesceSetting::DelayUs(50), CoalesceSetting::DelayUs(0));
        let rx_only = BidirectionalCoalescing { rx, tx: none };
        assert_eq!(
            rx_only.copy_rx_to_zero_tx(),
            BidirectionalCoalescing::uniform(rx)
        );
        let tx_only = BidirectionalCoalescing { rx: none, tx: rx };
        assert_eq!(tx_only.copy_rx_to_zero_tx(), tx_only);
    }
}
