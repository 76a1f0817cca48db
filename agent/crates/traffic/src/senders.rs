//! A sender for each mode of sending, and whether the kernel has that mode.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use socket2::Socket;

use crate::send::{CopySender, SendMode, SendOptions, Sender, make_message};
use crate::send_pages::{FileSender, PipeSender};
use crate::send_uring::UringSender;
use crate::send_zerocopy::ZeroCopySender;
use vnetbench_system::error::{Error, Kind, Result};

/// Whether this kernel can send so: a socket that has no connection must get as far as to be told that.
pub fn check_send_mode(sending: SendOptions, unconnected: &Socket) -> Result<()> {
    let tried = sender_factory(1, sending)
        .and_then(|sender| sender(unconnected)?.send(unconnected.as_fd()));
    match tried {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ENOTCONN)) => {
            let operation = format!("send by {}", sending.mode.call());
            Err(Error::system(operation, error).with_kind(Kind::SendMode))
        }
        _ => Ok(()),
    }
}

/// Makes a sender for a socket, and the socket ready for it.
pub type MakeSender = Box<dyn Fn(&Socket) -> io::Result<Box<dyn Sender>>>;

/// What makes the senders of one trial: all of them send the same memory.
pub fn sender_factory(message_bytes: usize, sending: SendOptions) -> io::Result<MakeSender> {
    let message = make_message(message_bytes);
    Ok(match sending.mode {
        SendMode::Copy => Box::new(move |_| Ok(Box::new(CopySender::new(Arc::clone(&message))))),
        SendMode::Sendfile => {
            let file = FileSender::new(&message)?;
            Box::new(move |_| Ok(Box::new(file.clone())))
        }
        SendMode::Splice => Box::new(move |_| Ok(Box::new(PipeSender::new(Arc::clone(&message))?))),
        SendMode::Zerocopy => {
            Box::new(move |socket| Ok(Box::new(ZeroCopySender::new(Arc::clone(&message), socket)?)))
        }
        SendMode::IoUring | SendMode::IoUringZerocopy => Box::new(move |socket| {
            let message = Arc::clone(&message);
            Ok(Box::new(UringSender::new(message, sending, socket)?))
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};

    #[test]
    fn what_the_kernel_lacks_is_said_with_the_call_that_needs_it() {
        let unheard_of = SendOptions {
            mode: SendMode::IoUring,
            // More than a ring may have.
            batch: 1 << 20,
        };
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let error = check_send_mode(unheard_of, &socket).expect_err("no ring is so large");
        assert_eq!(error.code(), -32001);
        assert!(error.to_string().contains("send by io_uring"), "{error}");
        assert_eq!(error.data().expect("data")["kind"], "send_mode");
    }
}
