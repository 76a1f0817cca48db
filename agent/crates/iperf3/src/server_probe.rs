//! The shortest test of an iperf3 server: that there is one, that it serves, and what it says of itself.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::client_control::Conversation;
use crate::limits::Ending;
use crate::parameters::Parameters;
use crate::results::{Results, StreamResult, tame};
use crate::sockets::connect;
use crate::states::Failure;
use crate::streams::wire_id;
use vnetbench_system::error::{Error, Result};

const BLOCK_BYTES: usize = 1_000;
const MAX_TIMEOUT_S: f64 = 60.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greet {
    address: IpAddr,
    port: u16,
    from: Option<IpAddr>,
    #[serde(default = "default_timeout_s")]
    timeout_s: f64,
}

fn default_timeout_s() -> f64 {
    10.0
}

/// What `iperf3.greet` answers.
pub fn greet(asked: Greet) -> Result<Value> {
    if !(0.0..=MAX_TIMEOUT_S).contains(&asked.timeout_s) {
        return Err(Error::BadParameter(format!(
            "timeout_s must lie within 0 and {MAX_TIMEOUT_S}"
        )));
    }
    let server = SocketAddr::new(asked.address, asked.port);
    let results = test(server, asked.from, Duration::from_secs_f64(asked.timeout_s))?;
    // Only one that runs with --json says more than its counts.
    let said = |name: &str| {
        let start = results.server_json.as_ref()?.get("start")?;
        start.get(name)?.as_str().map(tame)
    };
    Ok(json!({"version": said("version"), "system": said("system_info")}))
}

fn test(
    to: SocketAddr,
    from: Option<IpAddr>,
    timeout: Duration,
) -> std::result::Result<Results, Failure> {
    let mut talk = Conversation::open(to, from, timeout, timeout)?;
    talk.agree(&Parameters {
        ending: Ending::Blocks(1),
        block_bytes: BLOCK_BYTES,
        server_output: true,
        ..Parameters::default()
    })?;
    let stream = connect(to, from, timeout, |_| Ok(()))?;
    talk.show_cookie(&stream)?;
    talk.expect_begin()?;
    stream
        .send(&[0; BLOCK_BYTES])
        .map_err(|error| Failure::broken(format!("a stream cannot be written to: {error}")))?;
    talk.end_load()?;
    let own = Results {
        streams: vec![StreamResult {
            id: wire_id(0),
            bytes: BLOCK_BYTES as u64,
            ..StreamResult::default()
        }],
        ..Results::default()
    };
    let theirs = talk.exchange_results(&own, -1)?;
    talk.be_done()?;
    Ok(theirs)
}
