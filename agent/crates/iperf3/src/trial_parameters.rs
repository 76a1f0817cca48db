//! The test that corresponds to the load of a trial.

use crate::limits::{EndCondition, MAX_BLOCK_BYTES, MAX_STREAMS_PER_DIRECTION, Transport};
use crate::parameters::{Direction, TestParameters};
use vnetbench_streams::Role;
use vnetbench_traffic::receive::ReceiveMode;
use vnetbench_traffic::{Load, LoadPart, Workload};

/// Returns the parameters of the test that corresponds to a load.
///
/// # Errors
///
/// The reason why an iperf3 server cannot run this load.
pub fn derive_parameters(load: &Load) -> Result<TestParameters, String> {
    let [
        LoadPart {
            workload: Workload::Stream(transfer),
            ..
        },
    ] = &load.parts[..]
    else {
        return Err("an iperf3 server supports only the workload tcp_stream".into());
    };
    let roles: Vec<Role> = load.roles.iter().map(|stream| stream.role).collect();
    let sources = roles.iter().filter(|role| **role == Role::Source).count();
    let sinks = roles.len() - sources;
    let direction = match (sources, sinks) {
        (_, 0) => Direction::Forward,
        (0, _) => Direction::Reverse,
        _ if sources == sinks && roles[..sources].iter().all(|r| *r == Role::Source) => {
            Direction::Bidirectional
        }
        _ => return Err(
            "an iperf3 server needs the same number of streams in both directions, sources first"
                .into(),
        ),
    };
    if sources.max(sinks) > MAX_STREAMS_PER_DIRECTION {
        return Err(format!(
            "an iperf3 server supports at most {MAX_STREAMS_PER_DIRECTION} streams in each direction"
        ));
    }
    if transfer.timed_messages_per_s.is_some() {
        return Err("an iperf3 server does not record arrival_gaps".into());
    }
    if transfer.message_bytes > MAX_BLOCK_BYTES {
        return Err(format!(
            "an iperf3 server supports messages of at most {MAX_BLOCK_BYTES} bytes"
        ));
    }
    Ok(TestParameters {
        transport: Transport::Tcp,
        direction,
        streams_per_direction: sources.max(sinks),
        end_condition: EndCondition::Never,
        block_bytes: transfer.message_bytes,
        // The server paces its own streams. The agent's streams are paced by SO_MAX_PACING_RATE.
        rate_bps: server_rate_bps(load, direction),
        socket_buffer_bytes: load.socket_options.buffer_bytes,
        // It has no effect on a receiver, and a server without the algorithm would refuse the test.
        congestion_control: load
            .socket_options
            .congestion_control
            .clone()
            .filter(|_| direction != Direction::Forward),
        skip_receive_copy: transfer.receive_mode == ReceiveMode::Discard,
        ..TestParameters::default()
    })
}

/// Returns the rate of each stream that the server sends; 0 means unlimited.
fn server_rate_bps(load: &Load, direction: Direction) -> u64 {
    match direction {
        Direction::Forward => 0,
        Direction::Reverse | Direction::Bidirectional => {
            load.socket_options.pacing_rate_bps.unwrap_or(0)
        }
    }
}
