//! The knob `queues`: the number of queues in each direction (`struct ethtool_channels`).

use std::io;

use vnetbench_interfaces::interface::Interface;

const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_SCHANNELS: u32 = 0x3d;

/// `struct ethtool_channels`: current and maximum numbers of channels.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Channels {
    command: u32,
    /// Maximum of receive channels.
    pub max_rx: u32,
    /// Maximum of transmit channels.
    pub max_tx: u32,
    max_other: u32,
    /// Maximum of channels with a receive and a transmit queue.
    pub max_combined: u32,
    /// Receive channels.
    pub rx: u32,
    /// Transmit channels.
    pub tx: u32,
    other: u32,
    /// Channels with a receive and a transmit queue.
    pub combined: u32,
}

impl Channels {
    /// Returns the number of queues in each direction; `None` if the directions differ.
    fn queues_per_direction(&self) -> Option<u32> {
        let (rx, tx) = (self.rx + self.combined, self.tx + self.combined);
        (rx == tx).then_some(rx)
    }

    fn max_queues_per_direction(&self) -> u32 {
        if self.max_combined > 0 {
            self.max_combined
        } else {
            self.max_rx.min(self.max_tx)
        }
    }

    /// Sets the number of queues in both directions.
    ///
    /// Drivers have either combined channels (virtio, most hardware) or separate ones (veth).
    fn with_queues_per_direction(mut self, queues: u32) -> Self {
        if self.max_combined > 0 {
            (self.combined, self.rx, self.tx) = (queues, 0, 0);
        } else {
            (self.rx, self.tx) = (queues, queues);
        }
        self
    }
}

/// Reads the channels.
pub fn read_channels(interface: &Interface) -> io::Result<Channels> {
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Default::default()
    };
    interface.run_ethtool_command(&mut channels)?;
    Ok(channels)
}

fn set_channels(interface: &Interface, mut channels: Channels) -> io::Result<()> {
    channels.command = ETHTOOL_SCHANNELS;
    interface.run_ethtool_command(&mut channels)
}

/// Returns the number of queues in each direction; `None` if the directions differ.
///
/// A driver without channels has a fixed number of queues, which sysfs shows.
pub fn read_queues_per_direction_if_equal(interface: &Interface) -> io::Result<Option<u32>> {
    match read_channels(interface) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            interface.bus_device_path()?;
            let [rx, tx] = ["rx-", "tx-"].map(|kind| interface.count_queues(kind));
            let (rx, tx) = (rx?, tx?);
            Ok((rx == tx).then_some(rx))
        }
        channels => Ok(channels?.queues_per_direction()),
    }
}

/// Sets the number of queues in both directions.
pub fn set_queues_per_direction(interface: &Interface, queues: u32) -> io::Result<()> {
    let change = || {
        let channels = read_channels(interface)?;
        let max = channels.max_queues_per_direction();
        if queues > max {
            return Err(io::Error::other(format!(
                "the driver supports at most {max} queues"
            )));
        }
        set_channels(interface, channels.with_queues_per_direction(queues))
    };
    match change() {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            match read_queues_per_direction_if_equal(interface)? {
                Some(fixed) if fixed == queues => Ok(()),
                Some(fixed) => Err(io::Error::other(format!(
                    "the adapter has {fixed} queues, and the driver does not support another number"
                ))),
                None => Err(error),
            }
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_kernels_size() {
        assert_eq!(size_of::<Channels>(), 36);
    }

    #[test]
    fn combined_and_separate_channels_have_a_queue_count() {
        let combined = Channels {
            max_combined: 8,
            combined: 4,
            ..Default::default()
        };
        let separate = Channels {
            rx: 2,
            tx: 2,
            ..Default::default()
        };
        assert_eq!(combined.queues_per_direction(), Some(4));
        assert_eq!(
            (
                combined.with_queues_per_direction(2).queues_per_direction(),
                combined.with_queues_per_direction(2).rx
            ),
            (Some(2), 0)
        );
        assert_eq!(separate.queues_per_direction(), Some(2));
        assert_eq!(
            (
                separate.with_queues_per_direction(3).queues_per_direction(),
                separate.with_queues_per_direction(3).combined
            ),
            (Some(3), 0)
        );
        assert_eq!(Channels { rx: 1, ..separate }.queues_per_direction(), None);
    }
}
