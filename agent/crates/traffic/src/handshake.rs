//! What opens a stream's connection: 32 bytes that say whose it is, and 32 that say that it was expected.

use std::io;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use socket2::Socket;

use vnetbench_streams::Secret;

const BYTES: usize = 32;
/// The mark of the connecting side, and that of the answer.
const ASKS: &[u8; 4] = b"VNB1";
const ANSWERS: &[u8; 4] = b"VNBA";

type Words = [u8; BYTES];

fn words(mark: &[u8; 4], id: u32, secret: &Secret) -> Words {
    let mut bytes = [0; BYTES];
    bytes[..4].copy_from_slice(mark);
    bytes[4..8].copy_from_slice(&id.to_be_bytes());
    bytes[8..24].copy_from_slice(secret);
    bytes
}

/// Says whose connection this is, where it has been made.
pub fn ask(socket: &Socket, id: u32, secret: &Secret) -> io::Result<()> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    // All of it: a new connection's buffer is empty, and no smaller than this.
    socket.send(&words(ASKS, id, secret)).map(drop)
}

/// Says that this stream was expected.
pub fn answer(socket: &Socket, id: u32, secret: &Secret) -> io::Result<()> {
    socket.send(&words(ANSWERS, id, secret)).map(drop)
}

/// What has been heard so far on a connection.
#[derive(Default)]
pub struct Hearing(Vec<u8>);

pub enum Heard {
    NotYet,
    All,
    /// The other side has closed it, or it broke.
    Closed,
}

impl Hearing {
    /// Takes what has come, of the opening only.
    pub fn hear(&mut self, socket: &Socket) -> Heard {
        let mut bytes = [0; BYTES];
        match rustix::net::recv(
            socket,
            &mut bytes[..BYTES - self.0.len()],
            RecvFlags::empty(),
        ) {
            Ok((count @ 1.., _)) => self.0.extend_from_slice(&bytes[..count]),
            Err(Errno::AGAIN | Errno::INTR) => return Heard::NotYet,
            Ok(_) | Err(_) => return Heard::Closed,
        }
        if self.0.len() == BYTES {
            Heard::All
        } else {
            Heard::NotYet
        }
    }

    /// The stream that the connecting side names; `None` where these are other words, or another trial's.
    pub fn stream(&self, secret: &Secret) -> Option<u32> {
        let id = u32::from_be_bytes(self.0.get(4..8)?.try_into().ok()?);
        (self.0 == words(ASKS, id, secret)).then_some(id)
    }

    pub fn is_answer_to(&self, id: u32, secret: &Secret) -> bool {
        self.0 == words(ANSWERS, id, secret)
    }

    /// What was heard, for a person.
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.0.escape_ascii())
    }
}
