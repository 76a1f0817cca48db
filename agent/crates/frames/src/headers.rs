//! Sizes and type numbers of the protocol headers in a frame.

/// Bytes of an Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// Bytes of a VLAN tag.
pub const VLAN_TAG_BYTES: usize = 4;
/// Bytes of an IPv4 header without options.
pub const IPV4_BYTES: usize = 20;
/// Bytes of an IPv6 header.
pub const IPV6_BYTES: usize = 40;
/// Bytes of a UDP header.
pub const UDP_BYTES: usize = 8;

/// Maximum number of VLAN tags of a frame (IEEE 802.1ad).
pub const MAX_VLAN_TAGS: usize = 2;

/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// EtherType of LLDP.
pub const ETHERTYPE_LLDP: u16 = 0x88cc;
/// EtherType of a VLAN tag (IEEE 802.1Q).
pub const ETHERTYPE_VLAN: u16 = 0x8100;
/// EtherType of the outer of two VLAN tags (IEEE 802.1ad).
pub const ETHERTYPE_QINQ: u16 = 0x88a8;
/// IP protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
