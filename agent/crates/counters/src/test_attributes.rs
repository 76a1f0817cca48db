//! Builds netlink attributes for the tests of the modules that parse them.

use netlink_packet_core::{DefaultNla, Emitable};

/// Returns the bytes of attributes, as they stand in a message.
pub fn bytes(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

/// Returns an attribute that has other attributes as its value.
pub fn nest(attribute: u16, nested: &[DefaultNla]) -> DefaultNla {
    DefaultNla::new(attribute, bytes(nested))
}
