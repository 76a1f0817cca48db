//! One TCP stream that is being driven: each step moves data once, and sees the stream to its end.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::net::{RecvFlags, Shutdown, shutdown};

use crate::receive::{CoalescingReceiver, CopyReceiver, DiscardReceiver, ReceiveMode, Receiver};
use crate::send::Sender;
use crate::senders::MakeSender;
use vnetbench_streams::{Command, Commands, EndGuard, OnEnd, Role, Stream, StreamEnd};

pub(crate) enum Transfer {
    Sending {
        sender: Box<dyn Sender>,
        /// It only waits for the sink to close its half.
        has_stopped: bool,
    },
    Receiving(Box<dyn Receiver>),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    Progress,
    /// The socket would block.
    WouldBlock,
    Ended,
}

/// A stream that is being driven; dropping it ends the stream.
pub(crate) struct RunningStream {
    pub stream: Arc<Stream>,
    pub transfer: Transfer,
    _guard: EndGuard,
}

impl RunningStream {
    pub fn new(
        stream: &Arc<Stream>,
        receive: ReceiveMode,
        make_sender: &MakeSender,
        is_alone: bool,
        on_end: &OnEnd,
    ) -> io::Result<Self> {
        // Before anything can fail: what is never driven has to end as well.
        let guard = EndGuard::new(stream, on_end);
        Ok(Self {
            transfer: match (stream.role, receive) {
                (Role::Source, _) => Transfer::Sending {
                    sender: make_sender(&stream.socket)?,
                    has_stopped: false,
                },
                (Role::Sink, ReceiveMode::Discard) => {
                    Transfer::Receiving(make_receiver(DiscardReceiver, is_alone))
                }
                (Role::Sink, ReceiveMode::Copy) => {
                    Transfer::Receiving(make_receiver(CopyReceiver::new(), is_alone))
                }
            },
            stream: Arc::clone(stream),
            _guard: guard,
        })
    }

    /// Makes one attempt to move data.
    pub fn advance(&mut self, orders: &Commands) -> StepOutcome {
        let socket = self.stream.socket.as_fd();
        let moved = match &mut self.transfer {
            Transfer::Sending {
                sender,
                has_stopped: false,
            } => {
                if orders.current() != Command::Go {
                    return self.stop_sending();
                }
                sender.send(socket).map(|count| {
                    self.stream.counters.sent.add(count);
                    true
                })
            }
            Transfer::Sending { sender, .. } => {
                // What the kernel has to say would else keep waking this thread.
                sender.reap_completions(socket);
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
        match moved {
            // A sink whose peer goes on sending would otherwise never come to its end.
            Ok(true) if self.is_receiver() && orders.current() == Command::EndAll => {
                self.finish(StreamEnd::Cut)
            }
            Ok(true) => StepOutcome::Progress,
            Ok(false) => self.end_of_data(orders),
            Err(error) => self.handle_error(error, orders),
        }
    }

    fn end_of_data(&mut self, orders: &Commands) -> StepOutcome {
        if orders.current() == Command::EndAll {
            return self.finish(StreamEnd::Cut);
        }
        if self.stream.role == Role::Sink {
            // Fails only where the source is gone, and then nobody waits for this.
            let _ = shutdown(&self.stream.socket, Shutdown::Write);
        }
        self.finish(StreamEnd::Drained)
    }

    fn handle_error(&mut self, error: io::Error, orders: &Commands) -> StepOutcome {
        match (error.raw_os_error(), orders.current()) {
            (Some(libc::EINTR), _) => StepOutcome::Progress,
            (Some(libc::EAGAIN), _) => StepOutcome::WouldBlock,
            (_, Command::EndAll) => self.finish(StreamEnd::Cut),
            // The order to end came while the kernel held the call, and closed the sending half under it.
            (Some(libc::EPIPE), Command::EndSources) if !self.is_receiver() => self.stop_sending(),
            _ => self.finish(StreamEnd::Broken(error)),
        }
    }

    fn is_receiver(&self) -> bool {
        matches!(self.transfer, Transfer::Receiving(_))
    }

    fn stop_sending(&mut self) -> StepOutcome {
        if let Transfer::Sending { has_stopped, .. } = &mut self.transfer {
            *has_stopped = true;
        }
        StepOutcome::Progress
    }

    fn finish(&mut self, end: StreamEnd) -> StepOutcome {
        if let Transfer::Sending { sender, .. } = &mut self.transfer
            && let Some(lent) = sender.reap_completions(self.stream.socket.as_fd())
        {
            // Said before the end is: who sees that, sees this.
            let _ = self.stream.zero_copy.set(lent);
        }
        self.stream.record_end(end);
        StepOutcome::Ended
    }
}

/// A thread that has other streams to serve does not let this one's data gather: that of the others does meanwhile.
fn make_receiver(receiver: impl Receiver + 'static, is_alone: bool) -> Box<dyn Receiver> {
    if is_alone {
        Box::new(CoalescingReceiver::new(receiver))
    } else {
        Box::new(receiver)
    }
}
