//! The streams of one test, and the threads that send and receive, one for each stream.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::net::{RecvFlags, SendFlags};
use socket2::Socket;

use crate::cpu_time::{CpuTime, CpuTimeTotal};
use crate::limits::{EndCondition, Transport};
use crate::pacing::{ByteQuota, Pacer};
use crate::parameters::{Direction, TestParameters};
use crate::udp::{
    DatagramCounters, DatagramHeader, DatagramReceiver, HEADER_BYTES_32BIT, HEADER_BYTES_64BIT,
};
use vnetbench_streams::{CallCounter, Command, Commands, Role};
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::waiting::Waker;
use vnetbench_traffic::receive::{Discard, Receiver};
use vnetbench_traffic::send::{CopySender, Sender, make_message};

/// Timeout of one system call, which bounds the time until a thread stops.
const CALL_TIMEOUT: Duration = Duration::from_millis(20);
const STACK_BYTES: usize = 256 << 10;

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
        socket.set_read_timeout(Some(CALL_TIMEOUT))?;
        socket.set_write_timeout(Some(CALL_TIMEOUT))?;
        Ok(Self {
            id: stream_id(index),
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
    fn record_received(&self, bytes: usize) {
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
pub fn stream_id(index: usize) -> u32 {
    index as u32 + if index == 0 { 1 } else { 2 }
}

/// State shared by all threads of a test.
pub struct SharedLoad {
    transport: Transport,
    block_bytes: usize,
    payload: Arc<[u8]>,
    rate_bps: u64,
    burst: u32,
    counters_64bit: bool,
    skip_receive_copy: bool,
    quota: Option<ByteQuota>,
    quota_role: Role,
    started: Instant,
    started_since_epoch: Duration,
    orders: Commands,
    active_senders: AtomicUsize,
    /// Woken when the quota is used up, a stream fails, or the user presses Ctrl-C.
    pub waker: Waker,
    /// CPU time of the threads.
    pub cpu: CpuTimeTotal,
}

impl SharedLoad {
    /// Creates the state; with `counts_quota` this host enforces the end condition.
    pub fn new(parameters: &TestParameters, counts_quota: bool) -> io::Result<Self> {
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
                .filter(|_| counts_quota)
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
            orders: Commands::default(),
            active_senders: AtomicUsize::new(0),
            waker: Waker::new()?,
            cpu: CpuTimeTotal::default(),
        })
    }

    /// Starts counting the quota.
    pub fn activate_quota(&self) {
        if let Some(quota) = &self.quota {
            quota.activate();
        }
    }

    /// Reserves a block before it is sent; returns false if the quota is used up.
    fn reserve_block(&self) -> bool {
        match &self.quota {
            Some(quota) if self.quota_role == Role::Source => quota.reserve(self.block_bytes),
            _ => true,
        }
    }

    fn record_received(&self, bytes: usize) {
        if let Some(quota) = &self.quota
            && self.quota_role == Role::Sink
            && quota.consume(bytes)
        {
            self.waker.wake();
        }
    }

    /// Returns the time for a datagram header.
    ///
    /// It is the time of day without clock steps: early versions of iperf3 compute the first transit time from it.
    fn current_datagram_time(&self) -> Duration {
        self.started_since_epoch + self.started.elapsed()
    }

    fn pacer(&self) -> Pacer {
        Pacer::new(self.rate_bps, self.block_bytes, self.burst)
    }

    fn is_sending(&self) -> bool {
        self.orders.current() == Command::Go
    }

    fn is_receiving(&self) -> bool {
        self.orders.current() < Command::EndAll
    }
}

/// The threads of a test; dropping it stops them.
pub struct LoadThreads {
    /// The streams, in order.
    pub streams: Vec<Arc<TestStream>>,
    /// State shared with the threads.
    pub shared: Arc<SharedLoad>,
    threads: Vec<(Role, JoinHandle<()>)>,
}

impl LoadThreads {
    /// Spawns the threads, which wait for `start`.
    pub fn spawn(
        streams: Vec<Arc<TestStream>>,
        shared: SharedLoad,
        cpus: &CpuList,
    ) -> io::Result<Self> {
        let sources = streams
            .iter()
            .filter(|stream| stream.role == Role::Source)
            .count();
        shared.active_senders.store(sources, Ordering::Relaxed);
        let mut load = Self {
            streams: streams,
            shared: Arc::new(shared),
            threads: Vec::new(),
        };
        for stream in &load.streams {
            let (stream, shared, cpus) =
                (Arc::clone(stream), Arc::clone(&load.shared), cpus.clone());
            let role = stream.role;
            let thread = std::thread::Builder::new()
                .name(format!("stream {}", stream.id))
                .stack_size(STACK_BYTES)
                .spawn(move || run_stream(&stream, &shared, &cpus))?;
            load.threads.push((role, thread));
        }
        Ok(load)
    }

    /// Starts the load.
    pub fn start(&self) {
        self.shared.orders.issue(Command::Go);
    }

    /// Stops the senders and waits for their threads.
    pub fn stop_sending(&mut self) {
        self.shared.orders.issue(Command::EndSources);
        self.join_threads(|role| role == Role::Source);
    }

    /// Closes the sending direction. Otherwise a stock client waits forever for the rest of a block.
    pub fn close_sources(&self) {
        for stream in self
            .streams
            .iter()
            .filter(|stream| stream.role == Role::Source)
        {
            // Fails only on a closed connection.
            let _ = stream.socket.shutdown(Shutdown::Write);
        }
    }

    /// Stops all threads and waits for them.
    pub fn stop(&mut self) {
        self.shared.orders.issue(Command::EndAll);
        self.join_threads(|_| true);
    }

    fn join_threads(&mut self, is_selected: impl Fn(Role) -> bool) {
        let (ending, staying) = std::mem::take(&mut self.threads)
            .into_iter()
            .partition(|(role, _)| is_selected(*role));
        self.threads = staying;
        for (_, thread) in ending {
            // A thread that panicked has no result.
            let _ = thread.join();
        }
    }

    /// Returns the first failed stream and its error.
    pub fn first_error(&self) -> Option<(&TestStream, &io::Error)> {
        self.streams
            .iter()
            .find_map(|stream| Some((&**stream, stream.error.get()?)))
    }
}

impl Drop for LoadThreads {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run_stream(stream: &TestStream, shared: &SharedLoad, cpus: &CpuList) {
    if !cpus.is_empty() {
        // Cannot fail: the session checked these CPUs before it accepted the test.
        let _ = cpus.apply_to(None);
    }
    shared.orders.wait_for_start();
    let outcome = match (shared.transport, stream.role) {
        (Transport::Tcp, Role::Source) => send_tcp(stream, shared),
        (Transport::Tcp, Role::Sink) => receive_tcp(stream, shared),
        (Transport::Udp, Role::Source) => send_udp(stream, shared),
        (Transport::Udp, Role::Sink) => receive_udp(stream, shared),
    };
    shared.cpu.add_current_thread(CpuTime::default());
    let last_source =
        stream.role == Role::Source && shared.active_senders.fetch_sub(1, Ordering::AcqRel) == 1;
    if let Err(error) = outcome {
        let _ = stream.error.set(error);
        shared.waker.wake();
    } else if last_source && shared.quota.is_some() {
        shared.waker.wake();
    }
}

fn send_tcp(stream: &TestStream, shared: &SharedLoad) -> io::Result<()> {
    let mut sender = CopySender::new(Arc::clone(&shared.payload));
    let mut pacer = shared.pacer();
    while shared.is_sending() && shared.reserve_block() {
        pacer.wait(|| shared.is_sending());
        let mut remaining = shared.block_bytes;
        while remaining > 0 && shared.is_sending() {
            match sender.send(stream.socket.as_fd()) {
                Ok(count) => {
                    stream.byte_count.add(count);
                    remaining -= count;
                }
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Reads blocks of the test's block size, as an application does.
struct BlockReceiver(Vec<u8>);

impl Receiver for BlockReceiver {
    fn receive(&mut self, socket: std::os::fd::BorrowedFd<'_>) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(socket, &mut self.0[..], RecvFlags::empty())?;
        Ok(count)
    }
}

fn receive_tcp(stream: &TestStream, shared: &SharedLoad) -> io::Result<()> {
    let mut receiver: Box<dyn Receiver> = if shared.skip_receive_copy {
        Box::new(Discard)
    } else {
        Box::new(BlockReceiver(vec![0; shared.block_bytes]))
    };
    while shared.is_receiving() {
        match receiver.receive(stream.socket.as_fd()) {
            Ok(0) => {
                stream.is_closed.store(true, Ordering::Release);
                return Ok(());
            }
            Ok(count) => {
                stream.record_received(count);
                shared.record_received(count);
            }
            Err(error) if is_transient(&error) => {}
            Err(error) => {
                stream.is_closed.store(true, Ordering::Release);
                return Err(error);
            }
        }
    }
    Ok(())
}

fn send_udp(stream: &TestStream, shared: &SharedLoad) -> io::Result<()> {
    let mut datagram = shared.payload.to_vec();
    let mut pacer = shared.pacer();
    while shared.is_sending() && shared.reserve_block() {
        pacer.wait(|| shared.is_sending());
        if !shared.is_sending() {
            break;
        }
        let header = DatagramHeader {
            sent_at: shared.current_datagram_time(),
            number: stream.datagrams.totals().datagrams + 1,
        };
        header.write(shared.counters_64bit, &mut datagram);
        while shared.is_sending() {
            match rustix::net::send(&stream.socket, &datagram, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    stream.byte_count.add(count);
                    stream.datagrams.record_sent();
                    break;
                }
                // Refused: no socket received an earlier datagram. The control connection detects a dead peer.
                Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOBUFS) => {}
                Err(error) if is_transient(&error.into()) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn receive_udp(stream: &TestStream, shared: &SharedLoad) -> io::Result<()> {
    let mut datagram = vec![0; shared.block_bytes.max(HEADER_BYTES_64BIT)];
    let mut receiver = DatagramReceiver::default();
    while shared.is_receiving() {
        match rustix::net::recv(&stream.socket, &mut datagram[..], RecvFlags::TRUNC) {
            Ok((kept, count)) => {
                let Some(header) = DatagramHeader::read(shared.counters_64bit, &datagram[..kept])
                else {
                    // A repeated connect message, or a foreign datagram.
                    continue;
                };
                debug_assert!(kept >= HEADER_BYTES_32BIT);
                stream.record_received(count);
                receiver.record(header, shared.current_datagram_time(), &stream.datagrams);
                shared.record_received(count);
            }
            Err(rustix::io::Errno::CONNREFUSED) => {}
            Err(error) if is_transient(&error.into()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR))
}
