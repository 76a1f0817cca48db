//! Network interfaces of the kernel: how to ask about them and how to change them.
//!
//! The kernel offers several ways, and each has a module.
//!
//! | module | knows |
//! |---|---|
//! | [`netlink`] | netlink messages: [`netlink::Message`] is a request, [`netlink::ask`] sends it and collects the answers |
//! | [`netdev`] | the netlink family `netdev`: queues and NAPI instances of an interface |
//! | [`interface`] | [`interface::Interface`]: an interface by its name, with the `ioctl` calls that read and set its MTU, addresses, link state, bridge ports and ethtool values |
//! | [`ethtool_strings`] | the names of an adapter's statistics and features |
//! | [`features`] | features (offloads) by the name that ethtool shows |
//! | [`tap`] | opening tap interfaces |
//!
//! Errors are [`std::io::Error`]: only the caller knows which request they belong to, and words the message.
//!
//! # What does not belong here
//!
//! What an interface counts (crate `vnetbench-counters`), which settings a user may change (the agent's `knobs`),
//! and frames (crate `vnetbench-frames`). This crate uses no other crate of the workspace.

pub mod ethtool_strings;
pub mod features;
pub mod interface;
pub mod netdev;
pub mod netlink;
pub mod tap;
