//! The headers of frames: how many bytes each has, and the numbers by which one says what follows it.

pub const ETHERNET_BYTES: usize = 14;
pub const TAG_BYTES: usize = 4;
pub const IPV4_BYTES: usize = 20;
pub const IPV6_BYTES: usize = 40;
pub const UDP_BYTES: usize = 8;

/// VLAN tags that a frame may have (IEEE 802.1ad).
pub const MAX_TAGS: usize = 2;

pub const IPV4: u16 = 0x0800;
pub const ARP: u16 = 0x0806;
pub const IPV6: u16 = 0x86dd;
pub const LLDP: u16 = 0x88cc;
/// IEEE 802.1Q; of two tags the outer one is IEEE 802.1ad's.
pub const TAG: u16 = 0x8100;
pub const OUTER_TAG: u16 = 0x88a8;
pub const UDP: u8 = 17;
