//! What opens a stream's connection: 32 bytes that say whose it is, and 32 that say that it was expected.

use std::io;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use socket2::Socket;

use vnetbench_streams::Secret;

const HANDSHAKE_BYTES: usize = 32;
/// The mark of the connecting side, and that of the answer.
const REQUEST_MARK: &[u8; 4] = b"VNB1";
const RESPONSE_MARK: &[u8; 4] = b"VNBA";

type HandshakeBytes = [u8; HANDSHAKE_BYTES];

fn encode(mark: &[u8; 4], id: u32, secret: &Secret) -> HandshakeBytes {
    let mut bytes = [0; HANDSHAKE_BYTES];
    bytes[..4].copy_from_slice(mark);
    bytes[4..8].copy_from_slice(&id.to_be_bytes());
    bytes[8..24].copy_from_slice(secret);
    bytes
}

/// Says whose connection this is, where it has been made.
pub fn send_request(socket: &Socket, id: u32, secret: &Secret) -> io::Result<()> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    // All of it: a new connection's buffer is empty, and no smaller than this.
    socket.send(&encode(REQUEST_MARK, id, secret)).map(drop)
}

/// Says that this stream was expected.
pub fn send_response(socket: &Socket, id: u32, secret: &Secret) -> io::Result<()> {
    socket.send(&encode(RESPONSE_MARK, id, secret)).map(drop)
}

/// What has been heard so far on a connection.
#[derive(Default)]
pub struct HandshakeReader(Vec<u8>);

pub enum ReadState {
    NotYet,
    All,
    /// The other side has closed it, or it broke.
    Closed,
}

impl HandshakeReader {
    /// Takes what has come, of the opening only.
    pub fn read(&mut self, socket: &Socket) -> ReadState {
        let mut bytes = [0; HANDSHAKE_BYTES];
        match rustix::net::recv(
            socket,
            &mut bytes[..HANDSHAKE_BYTES - self.0.len()],
            RecvFlags::empty(),
        ) {
            Ok((count @ 1.., _)) => self.0.extend_from_slice(&bytes[..count]),
            Err(Errno::AGAIN | Errno::INTR) => return ReadState::NotYet,
            Ok(_) | Err(_) => return ReadState::Closed,
        }
        if self.0.len() == HANDSHAKE_BYTES {
            ReadState::All
        } else {
            ReadState::NotYet
        }
    }

    /// The stream that the connecting side names; `None` where these are other words, or another trial's.
    pub fn stream(&self, secret: &Secret) -> Option<u32> {
        let id = u32::from_be_bytes(self.0.get(4..8)?.try_into().ok()?);
        (self.0 == encode(REQUEST_MARK, id, secret)).then_some(id)
    }

    pub fn is_answer_to(&self, id: u32, secret: &Secret) -> bool {
        self.0 == encode(RESPONSE_MARK, id, secret)
    }

    /// What was heard, for a person.
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.0.escape_ascii())
    }
}
