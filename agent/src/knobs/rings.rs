//! The knobs `rx_ring` and `tx_ring`: descriptors of each ring of an adapter (`struct ethtool_ringparam`).

use std::io;

use vnetbench_interfaces::interface::Interface;

const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_SRINGPARAM: u32 = 0x11;

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Rings {
    command: u32,
    pub max_rx: u32,
    max_rx_mini: u32,
    max_rx_jumbo: u32,
    pub max_tx: u32,
    pub rx: u32,
    rx_mini: u32,
    rx_jumbo: u32,
    pub tx: u32,
}

#[derive(Clone, Copy)]
pub enum Direction {
    Rx,
    Tx,
}

pub fn read(interface: &Interface) -> io::Result<Rings> {
    let mut rings = Rings {
        command: ETHTOOL_GRINGPARAM,
        ..Default::default()
    };
    interface.ethtool(&mut rings)?;
    Ok(rings)
}

/// `None` where the driver has no rings of this direction.
pub fn read_descriptors(interface: &Interface, direction: Direction) -> io::Result<Option<u32>> {
    let rings = read(interface)?;
    let (now, max) = match direction {
        Direction::Rx => (rings.rx, rings.max_rx),
        Direction::Tx => (rings.tx, rings.max_tx),
    };
    Ok((max > 0).then_some(now))
}

/// A driver may round it; that shows when it is read back.
pub fn set(interface: &Interface, direction: Direction, descriptors: u32) -> io::Result<()> {
    let mut rings = read(interface)?;
    let (now, max) = match direction {
        Direction::Rx => (&mut rings.rx, rings.max_rx),
        Direction::Tx => (&mut rings.tx, rings.max_tx),
    };
    if max == 0 {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    if descriptors > max {
        return Err(io::Error::other(format!("the driver takes {max} at most")));
    }
    // It would say no more than that there is no memory, and only after it has stopped the queue.
    if !descriptors.is_power_of_two() && interface.driver()? == "virtio_net" {
        return Err(io::Error::other("the driver takes powers of two only"));
    }
    *now = descriptors;
    rings.command = ETHTOOL_SRINGPARAM;
    interface.ethtool(&mut rings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_as_large_as_the_kernels() {
        assert_eq!(size_of::<Rings>(), 36);
    }
}
