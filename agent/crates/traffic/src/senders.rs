//! The sender of each send mode, and the check that the kernel supports it.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use socket2::Socket;

use crate::send::{CopySender, SendMode, SendOptions, Sender, make_message};
use crate::send_pages::{FileSender, PipeSender};
use crate::send_uring::UringSender;
use crate::send_zerocopy::ZeroCopySender;
use vnetbench_system::error::{ErrorKind, RequestError, Result};

/// Checks that this kernel supports the send mode, by sending on an unconnected socket.
///
/// A supported mode fails only because the socket is not connected.
///
/// # Errors
///
/// Any other failure, of kind `send_mode`.
pub fn check_send_mode(options: SendOptions, unconnected: &Socket) -> Result<()> {
    let result = make_sender_factory(1, options)
        .and_then(|sender| sender(unconnected)?.send(unconnected.as_fd()));
    match result {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ENOTCONN)) => {
            let operation = format!("send by {}", options.mode.kernel_feature_name());
            Err(RequestError::system(operation, error).with_kind_if_none(ErrorKind::SendMode))
        }
        _ => Ok(()),
    }
}

/// Prepares a socket for a send mode and returns its sender.
pub type SenderFactory = Box<dyn Fn(&Socket) -> io::Result<Box<dyn Sender>>>;

/// Returns the function that makes the senders of a trial, which all send the same memory.
///
/// # Errors
///
/// The system refuses the memory file of `sendfile`.
pub fn make_sender_factory(
    message_bytes: usize,
    options: SendOptions,
) -> io::Result<SenderFactory> {
    let message = make_message(message_bytes);
    Ok(match options.mode {
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
            Ok(Box::new(UringSender::new(message, options, socket)?))
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};

    #[test]
    fn an_unsupported_send_mode_is_reported_with_its_kernel_feature() {
        let unsupported = SendOptions {
            mode: SendMode::IoUring,
            // Exceeds the maximum size of a ring.
            batch: 1 << 20,
        };
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("the socket opens");
        let error =
            check_send_mode(unsupported, &socket).expect_err("the ring exceeds the maximum size");
        assert_eq!(error.json_rpc_code(), -32001);
        assert!(error.to_string().contains("send by io_uring"), "{error}");
        assert_eq!(
            error.json_rpc_data().expect("the error has data")["kind"],
            "send_mode"
        );
    }
}
