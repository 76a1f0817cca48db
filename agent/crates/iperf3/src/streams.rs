//! The streams of one test, and the state that their threads share.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use socket2::Socket;

use crate::cpu_time::CpuTimeTotal;
use crate::limits::{EndCondition, Transport};
use crate::pacing::{ByteQuota, Pacer};
use crate::parameters::{Direction, TestParameters};
use crate::udp::DatagramCounters;
use vnetbench_streams::{CallCounter, Command, Commands, Role};
use vnetbench_system::waiting::Waker;
use vnetbench_traffic::send::make_message;

/// Timeout of one system call, which bounds the time until a thread stops.
const SYSTEM_CALL_TIMEOUT: Duration = Duration::from_millis(20);

/// One stream, which carries data in one direction.
///
/// Aligned to its own cache lines, because its thread updates the counters all the time.
#[derive(Debug)]
#[repr(align(128))]
pub struct TestStream {
    /// Number of the stream on the wire.
    pub id: u32,
    /// Whether this host sends or receives.
    pub role: Role,
    /// The connected socket.
    pub socket: Socket,
    /// Bytes sent or received.
    pub byte_count: CallCounter,
    /// Datagram counters of a UDP stream.
    pub datagrams: DatagramCounters,
    created: Instant,
    /// Last arrival of data, in nanoseconds since `created`.
    last_received_ns: AtomicU64,
    /// Whether the sender has closed the stream.
    pub is_closed: AtomicBool,
    /// The error that ended the stream.
    pub error: OnceLock<io::Error>,
}

impl TestStream {
    /// Creates the stream that opens as number `index` (from 0) of its test.
    pub fn new(index: usize, role: Role, socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(SYSTEM_CALL_TIMEOUT))?;
        socket.set_write_timeout(Some(SYSTEM_CALL_TIMEOUT))?;
        Ok(Self {
            id: stream_id_from_index(index),
            role,
            socket,
            byte_count: CallCounter::default(),
            datagrams: DatagramCounters::default(),
            created: Instant::now(),
            last_received_ns: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            error: OnceLock::new(),
        })
    }

    /// Counts received bytes.
    pub fn record_received(&self, bytes: usize) {
        let since = u64::try_from(self.created.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last_received_ns.store(since, Ordering::Relaxed);
        self.byte_count.add(bytes);
    }

    /// Returns the last arrival of data; the time of creation if there is none.
    pub fn last_received_at(&self) -> Instant {
        self.created + Duration::from_nanos(self.last_received_ns.load(Ordering::Relaxed))
    }
}

/// Returns the number on the wire: 1, 3, 4, 5 … in the order in which streams open. iperf3 skips 2.
pub fn stream_id_from_index(index: usize) -> u32 {
    index as u32 + if index == 0 { 1 } else { 2 }
}

/// State shared by all threads of a test.
pub struct SharedLoad {
    /// TCP or UDP.
    pub transport: Transport,
    /// Size of a block or datagram.
    pub block_bytes: usize,
    /// The data of a block.
    pub payload: Arc<[u8]>,
    rate_bps: u64,
    burst: u32,
    /// Whether datagrams carry 64-bit sequence numbers.
    pub counters_64bit: bool,
    /// Whether receivers discard the data in the kernel.
    pub skip_receive_copy: bool,
    /// The bytes that end the test, if this host enforces them.
    pub quota: Option<ByteQuota>,
    quota_role: Role,
    started: Instant,
    started_since_epoch: Duration,
    /// Commands to the threads.
    pub commands: Commands,
    /// Number of sending threads that have not ended.
    pub active_senders: AtomicUsize,
    /// Woken when the quota is used up, a stream fails, or the user presses Ctrl-C.
    pub waker: Waker,
    /// CPU time of the threads.
    pub cpu: CpuTimeTotal,
}

impl SharedLoad {
    /// Creates the state; with `enforces_end` this host enforces the end condition.
    pub fn new(parameters: &TestParameters, enforces_end: bool) -> io::Result<Self> {
        let bytes = match parameters.end_condition {
            EndCondition::Bytes(bytes) => Some(bytes),
            EndCondition::Blocks(blocks) => {
                Some(blocks.saturating_mul(parameters.block_bytes as u64))
            }
            EndCondition::After(_) | EndCondition::Never => None,
        };
        Ok(Self {
            transport: parameters.transport,
            block_bytes: parameters.block_bytes,
            payload: if parameters.repeating_payload {
                (b'0'..=b'9').cycle().take(parameters.block_bytes).collect()
            } else {
                make_message(parameters.block_bytes)
            },
            rate_bps: parameters.rate_bps,
            burst: parameters.burst,
            counters_64bit: parameters.counters_64bit,
            skip_receive_copy: parameters.skip_receive_copy,
            quota: bytes
                .filter(|_| enforces_end)
                .map(|bytes| ByteQuota::new(bytes, parameters.omit.is_zero())),
            quota_role: if parameters.direction == Direction::Reverse {
                Role::Sink
            } else {
                Role::Source
            },
            started: Instant::now(),
            started_since_epoch: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            commands: Commands::default(),
            active_senders: AtomicUsize::new(0),
            waker: Waker::new()?,
            cpu: CpuTimeTotal::default(),
        })
    }

    /// Starts counting the quota.
    pub fn start_counting_quota(&self) {
        if let Some(quota) = &self.quota {
            quota.start_counting();
        }
    }

    /// Reserves a block before it is sent; returns false if the quota is used up.
    pub fn try_reserve_block(&self) -> bool {
        match &self.quota {
            Some(quota) if self.quota_role == Role::Source => quota.try_reserve(self.block_bytes),
            _ => true,
        }
    }

    /// Counts received bytes against the quota; wakes the session when it is used up.
    pub fn record_received(&self, bytes: usize) {
        if let Some(quota) = &self.quota
            && self.quota_role == Role::Sink
            && quota.consume_and_check_used_up(bytes)
        {
            self.waker.wake();
        }
    }

    /// Returns the current time since the epoch, for a datagram header.
    ///
    /// It is the time of day without clock steps: early versions of iperf3 compute the first transit time from it.
    pub fn datagram_timestamp(&self) -> Duration {
        self.started_since_epoch + self.started.elapsed()
    }

    /// Creates a pacer for one stream.
    pub fn create_pacer(&self) -> Pacer {
        Pacer::new(self.rate_bps, self.block_bytes, self.burst)
    }

    /// Returns whether senders continue.
    pub fn can_continue_sending(&self) -> bool {
        self.commands.current() == Command::Go
    }

    /// Returns whether receivers continue.
    pub fn is_receiving(&self) -> bool {
        self.commands.current() < Command::EndAll
    }
}

/// A stream with the number that the output prints for it.
#[derive(Debug, Clone, Copy)]
pub struct LabelledStream<'a> {
    /// Printed number.
    pub label: u32,
    /// The stream.
    pub stream: &'a TestStream,
}

/// Returns the streams of a test, each with its label.
pub fn label_streams<'a>(
    labels: &[u32],
    streams: &'a [Arc<TestStream>],
) -> Vec<LabelledStream<'a>> {
    labels
        .iter()
        .zip(streams)
        .map(|(label, stream)| LabelledStream {
            label: *label,
            stream,
        })
        .collect()
}
