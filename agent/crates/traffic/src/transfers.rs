//! The transfer of a TCP stream: its options, its direction, and what sends or receives its data.

use std::io;
use std::sync::Arc;

use crate::receive::{CopyReceiver, DelayedCallReceiver, DiscardReceiver, ReceiveMode, Receiver};
use crate::send::{SendOptions, Sender};
use crate::senders::{SenderFactory, make_sender_factory};
use crate::timed_messages::{TimedMessageReceiver, TimedMessageSender};
use vnetbench_streams::{Role, Stream};

/// The options of bulk transfers.
#[derive(Debug)]
pub struct TransferOptions {
    /// Size of a message.
    pub message_bytes: usize,
    /// How sources send.
    pub send_options: SendOptions,
    /// How sinks receive.
    pub receive_mode: ReceiveMode,
    /// Messages per second of a source; the sink then records when they arrive. `None` for full speed.
    pub timed_messages_per_s: Option<f64>,
}

/// The direction and state of a transfer.
pub(crate) enum Transfer {
    /// A source.
    Sending {
        /// Sends the data.
        sender: Box<dyn Sender>,
        /// Whether it only waits for the sink to close its half.
        has_stopped: bool,
    },
    /// A sink.
    Receiving(Box<dyn Receiver>),
}

/// Makes the transfers of a trial.
pub(crate) struct TransferFactory {
    make_sender: SenderFactory,
    receive_mode: ReceiveMode,
    message_bytes: usize,
    timed_messages_per_s: Option<f64>,
}

impl TransferFactory {
    /// Creates the factory; fails if the system refuses the memory of the send mode.
    pub fn new(options: &TransferOptions) -> io::Result<Self> {
        Ok(Self {
            make_sender: make_sender_factory(options.message_bytes, options.send_options)?,
            receive_mode: options.receive_mode,
            message_bytes: options.message_bytes,
            timed_messages_per_s: options.timed_messages_per_s,
        })
    }

    /// Returns the transfer of a stream; `has_own_thread` if its thread drives no other stream.
    pub fn make_transfer(
        &self,
        stream: &Arc<Stream>,
        has_own_thread: bool,
    ) -> io::Result<Transfer> {
        Ok(match stream.role {
            Role::Source => Transfer::Sending {
                sender: match self.timed_messages_per_s {
                    Some(per_s) => Box::new(TimedMessageSender::new(self.message_bytes, per_s)),
                    None => (self.make_sender)(&stream.socket)?,
                },
                has_stopped: false,
            },
            Role::Sink => Transfer::Receiving(self.make_receiver(has_own_thread)),
        })
    }

    fn make_receiver(&self, has_own_thread: bool) -> Box<dyn Receiver> {
        if self.timed_messages_per_s.is_some() {
            return Box::new(TimedMessageReceiver::new(self.message_bytes));
        }
        match self.receive_mode {
            ReceiveMode::Discard => delay_calls_if_alone(DiscardReceiver, has_own_thread),
            ReceiveMode::Copy => delay_calls_if_alone(CopyReceiver::new(), has_own_thread),
        }
    }
}

/// Delays calls only if the thread drives no other stream; otherwise, data accumulates during the calls of the others.
fn delay_calls_if_alone(
    receiver: impl Receiver + 'static,
    has_own_thread: bool,
) -> Box<dyn Receiver> {
    if has_own_thread {
        Box::new(DelayedCallReceiver::new(receiver))
    } else {
        Box::new(receiver)
    }
}
