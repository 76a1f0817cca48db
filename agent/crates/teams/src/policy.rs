//! Policies of a team as a request names them, and as numbers of `bpf/config.h`.

use serde::{Deserialize, Serialize};

/// How a team chooses the member of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[repr(u32)]
pub enum Policy {
    /// One member carries everything.
    #[serde(rename = "active")]
    ActiveMember,
    /// Frames take the members in turn.
    #[serde(rename = "turns")]
    Turns,
    /// Each member carries a copy.
    #[serde(rename = "copies")]
    Copies,
    /// Hash of Linux bonding: `layer2`.
    #[serde(rename = "bonding-layer2")]
    BondingLayer2,
    /// Hash of Linux bonding: `layer2+3`.
    #[serde(rename = "bonding-layer2+3")]
    BondingLayer23,
    /// Hash of Linux bonding: `layer3+4`.
    #[serde(rename = "bonding-layer3+4")]
    BondingLayer34,
    /// Hash of Linux bonding: `encap2+3`.
    #[serde(rename = "bonding-encap2+3")]
    BondingEncap23,
    /// Hash of Linux bonding: `encap3+4`, for packets without a hash of their socket.
    #[serde(rename = "bonding-encap3+4")]
    BondingEncap34,
    /// Hash of Linux bonding: `vlan+srcmac`.
    #[serde(rename = "bonding-vlan+srcmac")]
    BondingVlanSourceMac,
    /// XOR of the request's `fields`, reduced as by its `reduction`.
    #[serde(rename = "fields")]
    Fields,
    /// Each port of the switch gets the next member with its first frame.
    #[serde(rename = "port-table")]
    PortTable,
    /// Each source MAC address gets the member of its last octet with its first frame.
    #[serde(rename = "source-mac-table")]
    SourceMacTable,
}

/// A field of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum Field {
    /// Source MAC address.
    SourceMac = 1,
    /// Destination MAC address.
    DestinationMac = 2,
    /// Source IP address.
    SourceIp = 4,
    /// Destination IP address.
    DestinationIp = 8,
    /// Source port; 0 for a protocol without ports.
    SourcePort = 16,
    /// Destination port.
    DestinationPort = 32,
}

/// What of the XOR of the fields is divided by the number of members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum Reduction {
    /// The whole number.
    #[default]
    WholeNumber,
    /// Its lowest 8 bits.
    LastOctet,
    /// Its lowest 3 bits.
    EightBuckets,
    /// The XOR of its octets.
    XorOfOctets,
}
