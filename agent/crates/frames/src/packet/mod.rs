//! Frames sent and counted through packet sockets (packet(7)), for ports or users without XDP.

pub mod ring;
pub mod sink;
pub mod source;
