//! Frames made and counted through packet sockets (packet(7)), where a port or a privilege has nothing better.

mod ring;
pub mod sink;
