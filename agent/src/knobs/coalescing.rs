//! The knob `coalesce`: how long an adapter gathers packets before it interrupts (`struct ethtool_coalesce`).

use std::io;

use crate::interface::Interface;

const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_SCOALESCE: u32 = 0x0f;
/// Drivers that take some small numbers of microseconds for ways to adapt, and read them back so.
const ADAPT_BY_NUMBER: [&str; 3] = ["e1000", "e1000e", "igb"];
/// The way that these drivers begin with, and the other one (drivers/net/ethernet/intel/e1000e/param.c,
/// InterruptThrottleRate).
const CONSERVATIVE: u32 = 3;
const DYNAMIC: u32 = 1;
/// Below it there are only such ways, and what is refused.
const LEAST_US: u32 = 10;

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
pub enum Coalesce {
    /// For so many microseconds; 0: not at all.
    For(u32),
    Adaptive,
}

pub fn read_all(interface: &Interface) -> io::Result<Coalescing> {
    let mut found = Coalescing {
        command: ETHTOOL_GCOALESCE,
        ..Default::default()
    };
    interface.ethtool(&mut found)?;
    Ok(found)
}

/// Of what is received.
pub fn read(interface: &Interface) -> io::Result<Coalesce> {
    let found = read_all(interface)?;
    let adapts = found.adaptive_rx != 0
        || matches!(found.rx_us, DYNAMIC | CONSERVATIVE) && adapts_by_number(interface);
    Ok(if adapts {
        Coalesce::Adaptive
    } else {
        Coalesce::For(found.rx_us)
    })
}

/// For both directions, or for receiving only, where the driver has no more.
pub fn set(interface: &Interface, wanted: Coalesce) -> io::Result<()> {
    let found = read_all(interface)?;
    let by_number = adapts_by_number(interface);
    let receiving = match wanted {
        Coalesce::For(us @ 1..LEAST_US) if by_number => {
            return Err(io::Error::other(format!(
                "the driver takes 0, and {LEAST_US} us or more, not {us} us"
            )));
        }
        Coalesce::For(us) => Coalescing {
            rx_us: us,
            adaptive_rx: 0,
            ..found
        },
        Coalesce::Adaptive if by_number => Coalescing {
            rx_us: CONSERVATIVE,
            ..found
        },
        Coalesce::Adaptive => Coalescing {
            adaptive_rx: 1,
            ..found
        },
    };
    let both = match wanted {
        Coalesce::For(us) => Coalescing {
            tx_us: us,
            adaptive_tx: 0,
            ..receiving
        },
        Coalesce::Adaptive if by_number => receiving,
        Coalesce::Adaptive => Coalescing {
            adaptive_tx: 1,
            ..receiving
        },
    };
    // The kernel refuses all of it where the driver lacks a part (ethtool_ops.supported_coalesce_params).
    let written = match write(interface, both) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => write(interface, receiving),
        written => written,
    };
    written.map_err(|error| match (error.raw_os_error(), wanted) {
        (Some(libc::EINVAL), Coalesce::For(us)) => {
            io::Error::other(format!("the driver does not take {us} us"))
        }
        _ => error,
    })
}

fn write(interface: &Interface, mut coalescing: Coalescing) -> io::Result<()> {
    coalescing.command = ETHTOOL_SCOALESCE;
    interface.ethtool(&mut coalescing)
}

fn adapts_by_number(interface: &Interface) -> bool {
    let driver = interface.driver();
    driver.is_ok_and(|driver| ADAPT_BY_NUMBER.contains(&driver.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_as_large_as_the_kernels() {
        assert_eq!(size_of::<Coalescing>(), 92);
    }
}
