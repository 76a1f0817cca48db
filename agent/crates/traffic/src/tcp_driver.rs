//! Drives one TCP stream: each step moves data once, until the end of the stream.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::net::{RecvFlags, Shutdown, shutdown};

use crate::transfers::{Transfer, TransferFactory};
use vnetbench_streams::{Command, Commands, EndGuard, OnEnd, Role, Stream, StreamEnd};

/// The outcome of one step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    /// Data moved, or the stream changed its state.
    Progress,
    /// The socket would block.
    WouldBlock,
    /// The stream has ended.
    Ended,
}

/// A running stream; dropping it ends the stream.
pub(crate) struct RunningStream {
    /// The stream.
    pub stream: Arc<Stream>,
    /// Its transfer.
    pub transfer: Transfer,
    _guard: EndGuard,
}

impl RunningStream {
    /// Prepares a stream; `has_own_thread` if its thread drives no other stream.
    pub fn new(
        stream: &Arc<Stream>,
        transfers: &TransferFactory,
        has_own_thread: bool,
        on_end: &OnEnd,
    ) -> io::Result<Self> {
        // Created before anything can fail, so that a stream that never runs ends too.
        let guard = EndGuard::new(stream, on_end);
        Ok(Self {
            transfer: transfers.make_transfer(stream, has_own_thread)?,
            stream: Arc::clone(stream),
            _guard: guard,
        })
    }

    /// Tries to move data once.
    pub fn advance(&mut self, commands: &Commands) -> StepOutcome {
        let socket = self.stream.socket.as_fd();
        let has_more_data = match &mut self.transfer {
            Transfer::Sending {
                sender,
                has_stopped: false,
            } => {
                if commands.current() != Command::Go {
                    return self.switch_to_awaiting_sink();
                }
                sender.send(socket).map(|count| {
                    self.stream.counters.sent.add(count);
                    true
                })
            }
            Transfer::Sending { sender, .. } => {
                // Unread completions would keep waking this thread.
                sender.reap_zero_copy_completions(socket);
                let mut unexpected = [0; 64];
                rustix::net::recv(socket, &mut unexpected, RecvFlags::empty())
                    .map(|(count, _)| count > 0)
                    .map_err(Into::into)
            }
            Transfer::Receiving(receiver) => receiver.receive(socket).map(|count| {
                if count > 0 {
                    self.stream.counters.received.add(count);
                }
                count > 0
            }),
        };
        match has_more_data {
            // A sink whose peer continues to send would never end otherwise.
            Ok(true) if self.is_receiver() && commands.current() == Command::EndAll => {
                self.record_end(StreamEnd::Cut)
            }
            Ok(true) => StepOutcome::Progress,
            Ok(false) => self.handle_end_of_data(commands),
            Err(error) => self.handle_error(error, commands),
        }
    }

    /// Ends the stream after the last byte.
    fn handle_end_of_data(&mut self, commands: &Commands) -> StepOutcome {
        if commands.current() == Command::EndAll {
            return self.record_end(StreamEnd::Cut);
        }
        if self.stream.role == Role::Sink {
            // Fails only if the source is gone, which then does not wait for it.
            let _ = shutdown(&self.stream.socket, Shutdown::Write);
        }
        self.record_end(StreamEnd::Drained)
    }

    /// Ends the stream, unless the error is transient.
    fn handle_error(&mut self, error: io::Error, commands: &Commands) -> StepOutcome {
        match (error.raw_os_error(), commands.current()) {
            (Some(libc::EINTR), _) => StepOutcome::Progress,
            (Some(libc::EAGAIN), _) => StepOutcome::WouldBlock,
            (_, Command::EndAll) => self.record_end(StreamEnd::Cut),
            // The end of the load closed the sending half during the call.
            (Some(libc::EPIPE), Command::EndSources) if !self.is_receiver() => {
                self.switch_to_awaiting_sink()
            }
            _ => self.record_end(StreamEnd::Broken(error)),
        }
    }

    fn is_receiver(&self) -> bool {
        matches!(self.transfer, Transfer::Receiving(_))
    }

    /// Switches a source to waiting for the sink.
    fn switch_to_awaiting_sink(&mut self) -> StepOutcome {
        if let Transfer::Sending { has_stopped, .. } = &mut self.transfer {
            *has_stopped = true;
        }
        StepOutcome::Progress
    }

    /// Records the end of the stream.
    fn record_end(&mut self, end: StreamEnd) -> StepOutcome {
        // Set before the end, so that readers of the end see the counts and the arrivals.
        match &mut self.transfer {
            Transfer::Sending { sender, .. } => {
                if let Some(counts) = sender.reap_zero_copy_completions(self.stream.socket.as_fd())
                {
                    let _ = self.stream.zero_copy.set(counts);
                }
            }
            Transfer::Receiving(receiver) => {
                if let Some(report) = receiver.take_arrivals() {
                    let _ = self.stream.arrivals.set(report);
                }
            }
        }
        self.stream.record_end(end);
        StepOutcome::Ended
    }
}
