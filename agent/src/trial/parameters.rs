//! The parameters of `trial.prepare` that only one workload knows: their defaults, limits, and what they make of it.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::traffic::Work;
use crate::traffic::connection::Options;
use crate::traffic::send::{SendMode, Sending};
use crate::traffic::tcp_crr::Connections;
use crate::traffic::tcp_rr::{Exchange, Waiting};
use crate::traffic::tcp_stream::{Receive, Transfer};

const MAX_MESSAGE_BYTES: usize = 64 << 20;
const MAX_SEND_BATCH: usize = 256;
const MAX_RATE_PER_S: f64 = 10e6;
/// What `waiting: busy_poll` asks for as SO_BUSY_POLL; the kernel's documentation recommends it (sysctl/net.rst).
const BUSY_POLL_US: u32 = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    TcpStream,
    TcpRr,
    TcpCrr,
    Observe,
}

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Self::TcpStream => "tcp_stream",
            Self::TcpRr => "tcp_rr",
            Self::TcpCrr => "tcp_crr",
            Self::Observe => "observe",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfTcpStream {
    message_bytes: Option<usize>,
    send: Option<SendMode>,
    send_batch: Option<u32>,
    receive: Option<Receive>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfTcpRr {
    request_bytes: Option<usize>,
    response_bytes: Option<usize>,
    rate_per_s: Option<f64>,
    waiting: Option<Waiting>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfTcpCrr {
    request_bytes: Option<usize>,
    response_bytes: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// What the streams do; `options` becomes what the workload asks of their sockets.
pub fn work(workload: Workload, asked: Map<String, Value>, options: &mut Options) -> Result<Work> {
    options.no_delay = workload != Workload::TcpStream;
    match workload {
        Workload::TcpStream => tcp_stream(read(workload, asked)?),
        Workload::TcpRr => tcp_rr(read(workload, asked)?, options),
        Workload::TcpCrr => tcp_crr(read(workload, asked)?, options),
        Workload::Observe => bad("the workload observe takes no streams".into()),
    }
}

/// For a workload that has no parameters of its own.
pub fn none(workload: Workload, asked: Map<String, Value>) -> Result<()> {
    read::<Nothing>(workload, asked).map(drop)
}

pub fn takes_a_thread_each(work: &Work) -> bool {
    matches!(work, Work::ConnectRequestResponse(_))
}

fn read<P: DeserializeOwned>(workload: Workload, asked: Map<String, Value>) -> Result<P> {
    serde_json::from_value(Value::Object(asked))
        .map_err(|error| Error::BadParameter(format!("{}: {error}", workload.name())))
}

fn tcp_stream(asked: OfTcpStream) -> Result<Work> {
    let sending = Sending {
        mode: asked.send.unwrap_or(SendMode::Copy),
        batch: asked.send_batch.unwrap_or(1),
    };
    within("send_batch", sending.batch as usize, MAX_SEND_BATCH)?;
    if sending.batch > 1 && !sending.mode.is_batched() {
        return bad("send_batch above 1 takes send io_uring or io_uring_zerocopy".into());
    }
    Ok(Work::Stream(Transfer {
        message_bytes: message_bytes("message_bytes", asked.message_bytes, 1 << 20)?,
        sending,
        receive: asked.receive.unwrap_or(Receive::Discard),
    }))
}

fn tcp_rr(asked: OfTcpRr, options: &mut Options) -> Result<Work> {
    let waiting = asked.waiting.unwrap_or(Waiting::Block);
    if let Some(per_s) = asked.rate_per_s {
        if !(f64::MIN_POSITIVE..=MAX_RATE_PER_S).contains(&per_s) {
            return bad(format!("rate_per_s must lie within 0 and {MAX_RATE_PER_S}"));
        }
        if waiting == Waiting::BusyPoll {
            return bad("busy_poll waits for answers only: no request can be due meanwhile".into());
        }
    }
    options.busy_poll_us = (waiting == Waiting::BusyPoll).then_some(BUSY_POLL_US);
    Ok(Work::RequestResponse(Exchange {
        request_bytes: message_bytes("request_bytes", asked.request_bytes, 1)?,
        response_bytes: message_bytes("response_bytes", asked.response_bytes, 1)?,
        rate_per_s: asked.rate_per_s,
        waiting,
    }))
}

fn tcp_crr(asked: OfTcpCrr, options: &Options) -> Result<Work> {
    Ok(Work::ConnectRequestResponse(Connections {
        request_bytes: message_bytes("request_bytes", asked.request_bytes, 1)?,
        response_bytes: message_bytes("response_bytes", asked.response_bytes, 1)?,
        options: options.clone(),
    }))
}

fn message_bytes(name: &str, asked: Option<usize>, otherwise: usize) -> Result<usize> {
    let bytes = asked.unwrap_or(otherwise);
    within(name, bytes, MAX_MESSAGE_BYTES).map(|()| bytes)
}

pub fn bad<T>(what: String) -> Result<T> {
    Err(Error::BadParameter(what))
}

pub fn within(name: &str, value: usize, most: usize) -> Result<()> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    bad(format!("{name} must lie within 1 and {most}"))
}
