//! One TCP stream that is being driven: each step moves data once, and sees the stream to its end.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::net::{RecvFlags, Shutdown, shutdown};

use crate::receive::{Copy, Discard, Gathering, Receive, Receiver};
use crate::send::Sender;
use crate::senders::MakeSender;
use vnetbench_streams::{End, Guard, OnEnd, Order, Orders, Role, Stream};

pub(crate) enum Way {
    Sending {
        sender: Box<dyn Sender>,
        /// It only waits for the sink to close its half.
        has_stopped: bool,
    },
    Receiving(Box<dyn Receiver>),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Moved,
    /// The socket would block.
    Waits,
    Ended,
}

/// A stream that is being driven; dropping it ends the stream.
pub(crate) struct Running {
    pub stream: Arc<Stream>,
    pub way: Way,
    _guard: Guard,
}

impl Running {
    pub fn new(
        stream: &Arc<Stream>,
        receive: Receive,
        make_sender: &MakeSender,
        is_alone: bool,
        on_end: &OnEnd,
    ) -> io::Result<Self> {
        // Before anything can fail: what is never driven has to end as well.
        let guard = Guard::new(stream, on_end);
        Ok(Self {
            way: match (stream.role, receive) {
                (Role::Source, _) => Way::Sending {
                    sender: make_sender(&stream.socket)?,
                    has_stopped: false,
                },
                (Role::Sink, Receive::Discard) => Way::Receiving(alone_or_not(Discard, is_alone)),
                (Role::Sink, Receive::Copy) => Way::Receiving(alone_or_not(Copy::new(), is_alone)),
            },
            stream: Arc::clone(stream),
            _guard: guard,
        })
    }

    /// Makes one attempt to move data.
    pub fn step(&mut self, orders: &Orders) -> Step {
        let socket = self.stream.socket.as_fd();
        let moved = match &mut self.way {
            Way::Sending {
                sender,
                has_stopped: false,
            } => {
                if orders.current() != Order::Go {
                    return self.stop_sending();
                }
                sender.send(socket).map(|count| {
                    self.stream.tally.sent.add(count);
                    true
                })
            }
            Way::Sending { sender, .. } => {
                // What the kernel has to say would else keep waking this thread.
                sender.settle(socket);
                let mut unexpected = [0; 64];
                rustix::net::recv(socket, &mut unexpected, RecvFlags::empty())
                    .map(|(count, _)| count > 0)
                    .map_err(Into::into)
            }
            Way::Receiving(receiver) => receiver.receive(socket).map(|count| {
                if count > 0 {
                    self.stream.tally.received.add(count);
                }
                count > 0
            }),
        };
        match moved {
            // A sink whose peer goes on sending would otherwise never come to its end.
            Ok(true) if self.receives() && orders.current() == Order::EndAll => self.end(End::Cut),
            Ok(true) => Step::Moved,
            Ok(false) => self.end_of_data(orders),
            Err(error) => self.meet(error, orders),
        }
    }

    fn end_of_data(&mut self, orders: &Orders) -> Step {
        if orders.current() == Order::EndAll {
            return self.end(End::Cut);
        }
        if self.stream.role == Role::Sink {
            // Fails only where the source is gone, and then nobody waits for this.
            let _ = shutdown(&self.stream.socket, Shutdown::Write);
        }
        self.end(End::Drained)
    }

    fn meet(&mut self, error: io::Error, orders: &Orders) -> Step {
        match (error.raw_os_error(), orders.current()) {
            (Some(libc::EINTR), _) => Step::Moved,
            (Some(libc::EAGAIN), _) => Step::Waits,
            (_, Order::EndAll) => self.end(End::Cut),
            // The order to end came while the kernel held the call, and closed the sending half under it.
            (Some(libc::EPIPE), Order::EndSources) if !self.receives() => self.stop_sending(),
            _ => self.end(End::Broken(error)),
        }
    }

    fn receives(&self) -> bool {
        matches!(self.way, Way::Receiving(_))
    }

    fn stop_sending(&mut self) -> Step {
        if let Way::Sending { has_stopped, .. } = &mut self.way {
            *has_stopped = true;
        }
        Step::Moved
    }

    fn end(&mut self, end: End) -> Step {
        if let Way::Sending { sender, .. } = &mut self.way
            && let Some(lent) = sender.settle(self.stream.socket.as_fd())
        {
            // Said before the end is: who sees that, sees this.
            let _ = self.stream.lent.set(lent);
        }
        self.stream.note_end(end);
        Step::Ended
    }
}

/// A thread that has other streams to serve does not let this one's data gather: that of the others does meanwhile.
fn alone_or_not(receiver: impl Receiver + 'static, is_alone: bool) -> Box<dyn Receiver> {
    if is_alone {
        Box::new(Gathering::new(receiver))
    } else {
        Box::new(receiver)
    }
}
