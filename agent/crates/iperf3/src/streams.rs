//! The streams of one test: what each is, and the threads that drive them, one a stream.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::net::{RecvFlags, SendFlags};
use socket2::Socket;

use crate::cpu_time::{CpuSpent, CpuTime};
use crate::limits::{Ending, Transport};
use crate::pacing::{Pacer, Quota};
use crate::parameters::{Direction, Parameters};
use crate::udp::{Datagrams, Header, NARROW_BYTES, Reception, WIDE_BYTES};
use vnetbench_streams::{Count, Order, Orders, Role};
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::waiting::Waker;
use vnetbench_traffic::receive::{Discard, Receiver};
use vnetbench_traffic::send::{Messages, Sender, message};

/// How long one call may keep a thread that has been told to stop.
const CALL_TIMEOUT: Duration = Duration::from_millis(20);
const STACK_BYTES: usize = 256 << 10;

/// One stream and its one direction; on cache lines of its own, for its thread writes its counts all the time.
#[derive(Debug)]
#[repr(align(128))]
pub struct Flow {
    /// Its number on the wire.
    pub id: u32,
    pub role: Role,
    pub socket: Socket,
    pub tally: Count,
    pub datagrams: Datagrams,
    made: Instant,
    /// When data came last, in nanoseconds since it was made.
    received_ns: AtomicU64,
    /// The sender has closed it: nothing more will come.
    pub at_end: AtomicBool,
    pub failure: OnceLock<io::Error>,
}

impl Flow {
    /// The stream that was made as number `index` (from 0) of its test.
    pub fn new(index: usize, role: Role, socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(CALL_TIMEOUT))?;
        socket.set_write_timeout(Some(CALL_TIMEOUT))?;
        Ok(Self {
            id: wire_id(index),
            role,
            socket,
            tally: Count::default(),
            datagrams: Datagrams::default(),
            made: Instant::now(),
            received_ns: AtomicU64::new(0),
            at_end: AtomicBool::new(false),
            failure: OnceLock::new(),
        })
    }

    /// One call has brought so many bytes.
    fn note_received(&self, bytes: usize) {
        let since = u64::try_from(self.made.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.received_ns.store(since, Ordering::Relaxed);
        self.tally.add(bytes);
    }

    /// When data came last; when it was made, if none has.
    pub fn received_at(&self) -> Instant {
        self.made + Duration::from_nanos(self.received_ns.load(Ordering::Relaxed))
    }
}

/// Streams are numbered 1, 3, 4, 5 … in the order in which they are made: iperf3 leaves the 2 out.
pub fn wire_id(index: usize) -> u32 {
    index as u32 + if index == 0 { 1 } else { 2 }
}

/// What all threads of a test share.
pub struct Shared {
    transport: Transport,
    block_bytes: usize,
    payload: Arc<[u8]>,
    rate_bps: u64,
    burst: u32,
    wide_counters: bool,
    discard: bool,
    quota: Option<Quota>,
    quota_of: Role,
    begun: Instant,
    begun_at: Duration,
    orders: Orders,
    senders_left: AtomicUsize,
    /// Rung when the quota is used up, a stream has failed, or the user has pressed Ctrl-C.
    pub bell: Waker,
    pub cpu: CpuSpent,
}

impl Shared {
    /// `counts_quota`: this side ends the test.
    pub fn new(asked: &Parameters, counts_quota: bool) -> io::Result<Self> {
        let bytes = match asked.ending {
            Ending::Bytes(bytes) => Some(bytes),
            Ending::Blocks(blocks) => Some(blocks.saturating_mul(asked.block_bytes as u64)),
            Ending::After(_) | Ending::Never => None,
        };
        Ok(Self {
            transport: asked.transport,
            block_bytes: asked.block_bytes,
            payload: if asked.repeating_payload {
                (b'0'..=b'9').cycle().take(asked.block_bytes).collect()
            } else {
                message(asked.block_bytes)
            },
            rate_bps: asked.rate_bps,
            burst: asked.burst,
            wide_counters: asked.wide_counters,
            discard: asked.discard,
            quota: bytes
                .filter(|_| counts_quota)
                .map(|bytes| Quota::new(bytes, asked.omit.is_zero())),
            quota_of: if asked.direction == Direction::Reverse {
                Role::Sink
            } else {
                Role::Source
            },
            begun: Instant::now(),
            begun_at: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            orders: Orders::default(),
            senders_left: AtomicUsize::new(0),
            bell: Waker::new()?,
            cpu: CpuSpent::default(),
        })
    }

    pub fn quota_counts_from_now(&self) {
        if let Some(quota) = &self.quota {
            quota.count_from_now();
        }
    }

    /// Before a block is sent: whether the quota has room for it.
    fn may_send(&self) -> bool {
        match &self.quota {
            Some(quota) if self.quota_of == Role::Source => quota.take(self.block_bytes),
            _ => true,
        }
    }

    fn note_received(&self, bytes: usize) {
        if let Some(quota) = &self.quota
            && self.quota_of == Role::Sink
            && quota.reached_with(bytes)
        {
            self.bell.wake();
        }
    }

    /// The time of day, without its leaps: early versions of iperf3 measure the first transit against it.
    fn header_time(&self) -> Duration {
        self.begun_at + self.begun.elapsed()
    }

    fn pacer(&self) -> Pacer {
        Pacer::new(self.rate_bps, self.block_bytes, self.burst)
    }

    fn sources_go(&self) -> bool {
        self.orders.current() == Order::Go
    }

    fn sinks_go(&self) -> bool {
        self.orders.current() < Order::EndAll
    }
}

/// The threads at work; dropping it ends them.
pub struct Load {
    pub flows: Vec<Arc<Flow>>,
    pub shared: Arc<Shared>,
    threads: Vec<(Role, JoinHandle<()>)>,
}

impl Load {
    /// Starts the threads; they wait for `go`.
    pub fn start(flows: Vec<Arc<Flow>>, shared: Shared, cpus: &CpuList) -> io::Result<Self> {
        let sources = flows
            .iter()
            .filter(|flow| flow.role == Role::Source)
            .count();
        shared.senders_left.store(sources, Ordering::Relaxed);
        let mut load = Self {
            flows,
            shared: Arc::new(shared),
            threads: Vec::new(),
        };
        for flow in &load.flows {
            let (flow, shared, cpus) = (Arc::clone(flow), Arc::clone(&load.shared), cpus.clone());
            let role = flow.role;
            let thread = std::thread::Builder::new()
                .name(format!("stream {}", flow.id))
                .stack_size(STACK_BYTES)
                .spawn(move || drive(&flow, &shared, &cpus))?;
            load.threads.push((role, thread));
        }
        Ok(load)
    }

    pub fn go(&self) {
        self.shared.orders.give(Order::Go);
    }

    /// Returns when nothing more will be sent.
    pub fn stop_sending(&mut self) {
        self.shared.orders.give(Order::EndSources);
        self.join(|role| role == Role::Source);
    }

    /// Lets the receivers of what was sent see its end. A stock client that waits for the rest of a block would wait for
    /// good.
    pub fn close_sources(&self) {
        for flow in self.flows.iter().filter(|flow| flow.role == Role::Source) {
            // Fails only on a connection that is gone, or where there is none.
            let _ = flow.socket.shutdown(Shutdown::Write);
        }
    }

    /// Returns when all threads have ended.
    pub fn stop(&mut self) {
        self.shared.orders.give(Order::EndAll);
        self.join(|_| true);
    }

    fn join(&mut self, which: impl Fn(Role) -> bool) {
        let (ending, staying) = std::mem::take(&mut self.threads)
            .into_iter()
            .partition(|(role, _)| which(*role));
        self.threads = staying;
        for (_, thread) in ending {
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }

    /// The first stream that has failed, and how.
    pub fn failure(&self) -> Option<(&Flow, &io::Error)> {
        self.flows
            .iter()
            .find_map(|flow| Some((&**flow, flow.failure.get()?)))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop();
    }
}

fn drive(flow: &Flow, shared: &Shared, cpus: &CpuList) {
    if !cpus.is_empty() {
        // That these CPUs can be had was tried before the test was accepted.
        let _ = cpus.apply_to(None);
    }
    shared.orders.wait_for_start();
    let outcome = match (shared.transport, flow.role) {
        (Transport::Tcp, Role::Source) => send_tcp(flow, shared),
        (Transport::Tcp, Role::Sink) => receive_tcp(flow, shared),
        (Transport::Udp, Role::Source) => send_udp(flow, shared),
        (Transport::Udp, Role::Sink) => receive_udp(flow, shared),
    };
    shared.cpu.add_this_thread(CpuTime::default());
    let last_source =
        flow.role == Role::Source && shared.senders_left.fetch_sub(1, Ordering::AcqRel) == 1;
    if let Err(error) = outcome {
        let _ = flow.failure.set(error);
        shared.bell.wake();
    } else if last_source && shared.quota.is_some() {
        shared.bell.wake();
    }
}

fn send_tcp(flow: &Flow, shared: &Shared) -> io::Result<()> {
    let mut sender = Messages::new(Arc::clone(&shared.payload));
    let mut pacer = shared.pacer();
    while shared.sources_go() && shared.may_send() {
        pacer.wait(|| shared.sources_go());
        let mut left = shared.block_bytes;
        while left > 0 && shared.sources_go() {
            match sender.send(flow.socket.as_fd()) {
                Ok(count) => {
                    flow.tally.add(count);
                    left -= count;
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Reads blocks of the length that the test names, as an application does.
struct Blocks(Vec<u8>);

impl Receiver for Blocks {
    fn receive(&mut self, socket: std::os::fd::BorrowedFd<'_>) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(socket, &mut self.0[..], RecvFlags::empty())?;
        Ok(count)
    }
}

fn receive_tcp(flow: &Flow, shared: &Shared) -> io::Result<()> {
    let mut receiver: Box<dyn Receiver> = if shared.discard {
        Box::new(Discard)
    } else {
        Box::new(Blocks(vec![0; shared.block_bytes]))
    };
    while shared.sinks_go() {
        match receiver.receive(flow.socket.as_fd()) {
            Ok(0) => {
                flow.at_end.store(true, Ordering::Release);
                return Ok(());
            }
            Ok(count) => {
                flow.note_received(count);
                shared.note_received(count);
            }
            Err(error) if is_passing(&error) => {}
            Err(error) => {
                flow.at_end.store(true, Ordering::Release);
                return Err(error);
            }
        }
    }
    Ok(())
}

fn send_udp(flow: &Flow, shared: &Shared) -> io::Result<()> {
    let mut datagram = shared.payload.to_vec();
    let mut pacer = shared.pacer();
    while shared.sources_go() && shared.may_send() {
        pacer.wait(|| shared.sources_go());
        if !shared.sources_go() {
            break;
        }
        let header = Header {
            sent: shared.header_time(),
            number: flow.datagrams.count().packets + 1,
        };
        header.write(shared.wide_counters, &mut datagram);
        while shared.sources_go() {
            match rustix::net::send(&flow.socket, &datagram, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    flow.tally.add(count);
                    flow.datagrams.sent();
                    break;
                }
                // Refused: an earlier datagram found nobody. Whether anybody is there the control connection knows.
                Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOBUFS) => {}
                Err(error) if is_passing(&error.into()) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn receive_udp(flow: &Flow, shared: &Shared) -> io::Result<()> {
    let mut datagram = vec![0; shared.block_bytes.max(WIDE_BYTES)];
    let mut reception = Reception::default();
    while shared.sinks_go() {
        match rustix::net::recv(&flow.socket, &mut datagram[..], RecvFlags::TRUNC) {
            Ok((kept, count)) => {
                let Some(header) = Header::read(shared.wide_counters, &datagram[..kept]) else {
                    // A greeting that came twice, or nothing of this test.
                    continue;
                };
                debug_assert!(kept >= NARROW_BYTES);
                flow.note_received(count);
                reception.note(header, shared.header_time(), &flow.datagrams);
                shared.note_received(count);
            }
            Err(rustix::io::Errno::CONNREFUSED) => {}
            Err(error) if is_passing(&error.into()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR))
}
