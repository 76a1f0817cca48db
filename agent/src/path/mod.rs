//! The proof of a path: datagrams that must not be fragmented, sent out and sent back, as large as the path should carry.

mod answering;
mod probing;
mod wire;

use std::net::{IpAddr, SocketAddr};

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use socket2::{Domain, SockAddr, Socket, Type};

pub use answering::Paths;
pub use probing::probe;

use crate::error::{Error, Result};

/// The largest packet that IP can carry.
const MAX_PACKET_BYTES: usize = 65_535;

/// What IP and UDP put before the payload.
fn header_bytes(address: IpAddr) -> usize {
    if address.is_ipv4() { 28 } else { 48 }
}

/// A UDP socket whose datagrams go out whole or not at all; port 0: any.
fn unfragmented(address: IpAddr, port: u16) -> Result<Socket> {
    let bound = SocketAddr::new(address, port);
    let open = || {
        let socket = Socket::new(Domain::for_address(bound), Type::DGRAM, None)?;
        // PROBE and not DO: the kernel's memory of a smaller path MTU would refuse what may pass by now.
        match address {
            IpAddr::V4(_) => set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?,
            IpAddr::V6(_) => set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?,
        }
        socket.bind(&SockAddr::from(bound))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    open().map_err(|error: std::io::Error| {
        Error::system(format!("open a UDP socket on {address}"), error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn params<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("parameters")
    }

    fn probe_of(port: &Value, packet_bytes: usize) -> Value {
        probe(params(json!({
            "from": "127.0.0.1", "to": "127.0.0.1", "port": port, "packet_bytes": packet_bytes,
            "attempts": 2, "timeout_s": 0.2,
        })))
        .expect("a probe that fails is still an answer")
    }

    #[test]
    fn a_path_is_proved_both_ways_and_closed_again() {
        let paths = Paths::default();
        let path = paths
            .listen(params(json!({"address": "127.0.0.1"})))
            .expect("listens");
        let answer = probe_of(&path["port"], 9000);
        assert_eq!(answer["forward"], true, "{answer}");
        assert_eq!(answer["back"], true, "{answer}");
        assert_eq!(answer["reason"], "");
        assert!(answer["rtt_us"].as_f64() > Some(0.0));

        let close = || paths.close(params(json!({"path": path["path"]})));
        close().expect("it is open");
        assert_eq!(close().expect_err("it is closed").code(), -32602);
        let answer = probe_of(&path["port"], 9000);
        assert_eq!(answer["forward"], false, "{answer}");
        assert!(
            answer["reason"]
                .as_str()
                .expect("text")
                .starts_with("unreachable: ")
        );
        assert!(answer["rtt_us"].is_null());
    }

    #[test]
    fn an_impossible_probe_is_a_bad_parameter() {
        for (packet_bytes, timeout_s) in [(10, 0.1), (70_000, 0.1), (1500, -1.0), (1500, 1e9)] {
            let refused = probe(params(json!({
                "from": "127.0.0.1", "to": "127.0.0.1", "port": 9, "packet_bytes": packet_bytes,
                "attempts": 1, "timeout_s": timeout_s,
            })));
            assert_eq!(refused.expect_err("out of range").code(), -32602);
        }
    }
}
