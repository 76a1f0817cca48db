//! Network interfaces of the kernel: reads and changes their settings.
//!
//! Each of the kernel's APIs has a module.
//!
//! | module | contents |
//! |---|---|
//! | [`netlink`] | [`netlink::NetlinkSocket`] sends a netlink request and passes each reply to a closure |
//! | [`netdev`] | the netlink family `netdev`: queues and NAPI instances of an interface |
//! | [`interface`] | [`interface::Interface`]: an interface by its name, with the `ioctl` calls that read and set its MTU, addresses, link state, bridge ports and ethtool values |
//! | [`ethtool_strings`] | the names of an adapter's statistics and features |
//! | [`features`] | features (offloads) by the name that ethtool shows |
//! | [`tap`] | opening tap interfaces |
//!
//! Errors are [`std::io::Error`]: only the caller knows the request and can word the message.
//!
//! # What does not belong here
//!
//! Counters of interfaces (crate `vnetbench-counters`), the settings that a user may change (the agent's `knobs`), and
//! frames (crate `vnetbench-frames`). This crate uses no other crate of the workspace.

pub mod ethtool_strings;
pub mod features;
pub mod interface;
pub mod netdev;
pub mod netlink;
pub mod tap;
