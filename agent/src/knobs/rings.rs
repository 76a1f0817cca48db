//! The knobs `rx_ring` and `tx_ring`: the number of descriptors of each ring (`struct ethtool_ringparam`).

use std::io;

use vnetbench_interfaces::interface::Interface;

const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_SRINGPARAM: u32 = 0x11;

/// `struct ethtool_ringparam`: current and maximum numbers of descriptors.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Rings {
    command: u32,
    /// Maximum of each receive ring.
    pub max_rx: u32,
    max_rx_mini: u32,
    max_rx_jumbo: u32,
    /// Maximum of each transmit ring.
    pub max_tx: u32,
    /// Descriptors of each receive ring.
    pub rx: u32,
    rx_mini: u32,
    rx_jumbo: u32,
    /// Descriptors of each transmit ring.
    pub tx: u32,
}

/// The direction of a ring.
#[derive(Clone, Copy)]
pub enum Direction {
    /// Receive.
    Rx,
    /// Transmit.
    Tx,
}

/// Reads the ring parameters.
pub fn read_rings(interface: &Interface) -> io::Result<Rings> {
    let mut rings = Rings {
        command: ETHTOOL_GRINGPARAM,
        ..Default::default()
    };
    interface.run_ethtool_command(&mut rings)?;
    Ok(rings)
}

/// Returns the number of descriptors; `None` if the driver has no rings of this direction.
pub fn read_descriptors(interface: &Interface, direction: Direction) -> io::Result<Option<u32>> {
    let rings = read_rings(interface)?;
    let (now, max) = match direction {
        Direction::Rx => (rings.rx, rings.max_rx),
        Direction::Tx => (rings.tx, rings.max_tx),
    };
    Ok((max > 0).then_some(now))
}

/// Sets the number of descriptors. A driver may round it; reading it back shows the result.
pub fn set_descriptors(
    interface: &Interface,
    direction: Direction,
    descriptors: u32,
) -> io::Result<()> {
    let mut rings = read_rings(interface)?;
    let (now, max) = match direction {
        Direction::Rx => (&mut rings.rx, rings.max_rx),
        Direction::Tx => (&mut rings.tx, rings.max_tx),
    };
    if max == 0 {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    if descriptors > max {
        return Err(io::Error::other(format!(
            "the driver supports at most {max} descriptors"
        )));
    }
    // The driver itself would report only a lack of memory, after stopping the queue.
    if !descriptors.is_power_of_two() && interface.driver_name()? == "virtio_net" {
        return Err(io::Error::other("the driver supports only powers of two"));
    }
    *now = descriptors;
    rings.command = ETHTOOL_SRINGPARAM;
    interface.run_ethtool_command(&mut rings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_kernels_size() {
        assert_eq!(size_of::<Rings>(), 36);
    }
}
