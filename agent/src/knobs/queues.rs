//! The knob `queues`: how many an adapter has of each direction (`struct ethtool_channels`).

use std::io;

use vnetbench_interfaces::interface::Interface;

const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_SCHANNELS: u32 = 0x3d;

/// `struct ethtool_channels`: how many queues of each kind there are and could be.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Channels {
    command: u32,
    pub max_rx: u32,
    pub max_tx: u32,
    max_other: u32,
    pub max_combined: u32,
    pub rx: u32,
    pub tx: u32,
    other: u32,
    pub combined: u32,
}

impl Channels {
    /// `None` where there are not as many for receiving as for transmitting.
    fn queue_count(&self) -> Option<u32> {
        let (rx, tx) = (self.rx + self.combined, self.tx + self.combined);
        (rx == tx).then_some(rx)
    }

    fn max_queues(&self) -> u32 {
        if self.max_combined > 0 {
            self.max_combined
        } else {
            self.max_rx.min(self.max_tx)
        }
    }

    /// So many of both. Drivers have either combined queues (virtio, most hardware) or separate ones (veth).
    fn with_queues(mut self, queues: u32) -> Self {
        if self.max_combined > 0 {
            (self.combined, self.rx, self.tx) = (queues, 0, 0);
        } else {
            (self.rx, self.tx) = (queues, queues);
        }
        self
    }
}

pub fn read_channels(interface: &Interface) -> io::Result<Channels> {
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Default::default()
    };
    interface.ethtool(&mut channels)?;
    Ok(channels)
}

fn set_channels(interface: &Interface, mut channels: Channels) -> io::Result<()> {
    channels.command = ETHTOOL_SCHANNELS;
    interface.ethtool(&mut channels)
}

/// A driver without channels has a fixed number of queues, which the kernel shows.
pub fn read(interface: &Interface) -> io::Result<Option<u32>> {
    match read_channels(interface) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            interface.hardware()?;
            let [rx, tx] = ["rx-", "tx-"].map(|kind| interface.queue_count(kind));
            let (rx, tx) = (rx?, tx?);
            Ok((rx == tx).then_some(rx))
        }
        channels => Ok(channels?.queue_count()),
    }
}

pub fn set(interface: &Interface, wanted: u32) -> io::Result<()> {
    let change = || {
        let found = read_channels(interface)?;
        let most = found.max_queues();
        if wanted > most {
            return Err(io::Error::other(format!("the driver takes {most} at most")));
        }
        set_channels(interface, found.with_queues(wanted))
    };
    match change() {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => match read(interface)? {
            Some(fixed) if fixed == wanted => Ok(()),
            Some(fixed) => Err(io::Error::other(format!(
                "the driver has {fixed} here, and does not let it be changed"
            ))),
            None => Err(error),
        },
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_as_large_as_the_kernels() {
        assert_eq!(size_of::<Channels>(), 36);
    }

    #[test]
    fn queues_are_counted_whichever_way_the_driver_has_them() {
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
        assert_eq!(combined.queue_count(), Some(4));
        assert_eq!(
            (
                combined.with_queues(2).queue_count(),
                combined.with_queues(2).rx
            ),
            (Some(2), 0)
        );
        assert_eq!(separate.queue_count(), Some(2));
        assert_eq!(
            (
                separate.with_queues(3).queue_count(),
                separate.with_queues(3).combined
            ),
            (Some(3), 0)
        );
        assert_eq!(Channels { rx: 1, ..separate }.queue_count(), None);
    }
}
