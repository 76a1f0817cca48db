//! The threads that send and receive the data of a test, one for each stream.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use rustix::net::{RecvFlags, SendFlags};

use crate::cpu_time::CpuTime;
use crate::limits::Transport;
use crate::streams::{SharedLoad, TestStream};
use crate::udp::{DatagramHeader, DatagramReceiver, HEADER_BYTES_32BIT, HEADER_BYTES_64BIT};
use vnetbench_streams::{Command, Role};
use vnetbench_system::cpu_list::CpuList;
use vnetbench_traffic::receive::{DiscardReceiver, Receiver};
use vnetbench_traffic::send::{CopySender, Sender};

const STACK_BYTES: usize = 256 << 10;

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
            streams,
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
        self.shared.commands.issue(Command::Go);
    }

    /// Stops the senders and waits for their threads.
    pub fn stop_sending(&mut self) {
        self.shared.commands.issue(Command::EndSources);
        self.join_threads(|role| role == Role::Source);
    }

    /// Closes the sending direction of all streams.
    ///
    /// Otherwise a stock client waits forever for the rest of a block. Who closes first has TIME_WAIT (RFC 9293, section
    /// 3.3.2): at the client, it would keep its `--cport` from the next test for a minute.
    pub fn shut_down_sending(&self) {
        for stream in &self.streams {
            // Fails only on a closed connection.
            let _ = stream.socket.shutdown(Shutdown::Write);
        }
    }

    /// Stops all threads and waits for them.
    pub fn stop(&mut self) {
        self.shared.commands.issue(Command::EndAll);
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
    shared.commands.wait_for_first_command();
    let outcome = match (shared.transport, stream.role) {
        (Transport::Tcp, Role::Source) => send_tcp(stream, shared),
        (Transport::Tcp, Role::Sink) => receive_tcp(stream, shared),
        (Transport::Udp, Role::Source) => send_udp(stream, shared),
        (Transport::Udp, Role::Sink) => receive_udp(stream, shared),
    };
    shared.cpu.add_current_thread(CpuTime::default());
    let is_last_sender =
        stream.role == Role::Source && shared.active_senders.fetch_sub(1, Ordering::AcqRel) == 1;
    if let Err(error) = outcome {
        let _ = stream.error.set(error);
        shared.waker.wake();
    } else if is_last_sender && shared.quota.is_some() {
        shared.waker.wake();
    }
}

fn send_tcp(stream: &TestStream, shared: &SharedLoad) -> io::Result<()> {
    let mut sender = CopySender::new(Arc::clone(&shared.payload));
    let mut pacer = shared.create_pacer();
    while shared.can_continue_sending() && shared.try_reserve_block() {
        pacer.wait_until_due(|| shared.can_continue_sending());
        let mut remaining = shared.block_bytes;
        while remaining > 0 && shared.can_continue_sending() {
            match sender.send(stream.socket.as_fd()) {
                Ok(count) => {
                    stream.byte_count.add(count);
                    remaining -= count;
                }
                Err(error) if is_timeout_or_interrupt(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Reads blocks of the test's block size, as an application does.
struct BlockSizedReceiver(Vec<u8>);

impl Receiver for BlockSizedReceiver {
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(socket, &mut self.0[..], RecvFlags::empty())?;
        Ok(count)
    }
}

fn receive_tcp(stream: &TestStream, shared: &SharedLoad) -> io::Result<()> {
    let mut receiver: Box<dyn Receiver> = if shared.skip_receive_copy {
        Box::new(DiscardReceiver)
    } else {
        Box::new(BlockSizedReceiver(vec![0; shared.block_bytes]))
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
            Err(error) if is_timeout_or_interrupt(&error) => {}
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
    let mut pacer = shared.create_pacer();
    while shared.can_continue_sending() && shared.try_reserve_block() {
        pacer.wait_until_due(|| shared.can_continue_sending());
        if !shared.can_continue_sending() {
            break;
        }
        let header = DatagramHeader {
            sent_at: shared.datagram_timestamp(),
            number: stream.datagrams.totals().datagrams + 1,
        };
        header.write(shared.counters_64bit, &mut datagram);
        while shared.can_continue_sending() {
            match rustix::net::send(&stream.socket, &datagram, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    stream.byte_count.add(count);
                    stream.datagrams.record_sent();
                    break;
                }
                // Refused: no socket received an earlier datagram. The control connection detects a dead peer.
                Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOBUFS) => {}
                Err(error) if is_timeout_or_interrupt(&error.into()) => {}
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
                receiver.record(header, shared.datagram_timestamp(), &stream.datagrams);
                shared.record_received(count);
            }
            Err(rustix::io::Errno::CONNREFUSED) => {}
            Err(error) if is_timeout_or_interrupt(&error.into()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_timeout_or_interrupt(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR))
}
