//! Frames made and counted through packet sockets (packet(7)), where a port or a privilege has nothing better.

pub mod ring;
pub mod sink;
pub mod source;
