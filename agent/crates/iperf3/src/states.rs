//! The states that both sides of an iperf3 test tell each other, one byte each, and the protocol's own error numbers.

use std::fmt;

use vnetbench_system::error::{Error, Kind};

/// What a state byte says (the project's wiki, "The Iperf3 Protocol and State Machine"; numbers as seen on the wire).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum State {
    TestStart = 1,
    TestRunning = 2,
    TestEnd = 4,
    ParameterExchange = 9,
    CreateStreams = 10,
    ServerTerminated = 11,
    ClientTerminated = 12,
    ExchangeResults = 13,
    DisplayResults = 14,
    Done = 16,
    AccessDenied = -1,
    ServerError = -2,
}

impl State {
    const ALL: [Self; 12] = [
        Self::TestStart,
        Self::TestRunning,
        Self::TestEnd,
        Self::ParameterExchange,
        Self::CreateStreams,
        Self::ServerTerminated,
        Self::ClientTerminated,
        Self::ExchangeResults,
        Self::DisplayResults,
        Self::Done,
        Self::AccessDenied,
        Self::ServerError,
    ];

    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.byte() == byte)
    }

    pub fn byte(self) -> u8 {
        self as i8 as u8
    }
}

/// The numbers of iperf3's errors that can be sent or met here, each with what a stock client prints for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum ErrorCode {
    Duration = 5,
    NumberOfStreams = 6,
    BlockSize = 7,
    BufferSize = 8,
    Mss = 10,
    Omit = 12,
    NotImplemented = 13,
    Burst = 15,
    EndConditions = 16,
    NoSctp = 18,
    UdpBlockSize = 20,
    Tos = 21,
    ReverseAndBidirectional = 25,
    UnknownMessage = 110,
    ReceiveParameters = 114,
    ReceiveResults = 117,
    SetMss = 123,
    SetTos = 125,
    SetFlowLabel = 127,
    Affinity = 132,
    Congestion = 134,
    Pacing = 140,
    BufferNotSet = 141,
    IdleTimeout = 144,
    DontFragment = 145,
    CreateStream = 200,
    StreamAccept = 204,
    StreamWrite = 205,
    StreamRead = 206,
}

const ERROR_MESSAGES: &[(i32, &str)] = &[
    (5, "the test lasts longer than the server allows"),
    (6, "more streams than the server allows"),
    (7, "the block is longer than the server allows"),
    (8, "the socket buffer is larger than the server allows"),
    (10, "the segment size is larger than the server allows"),
    (12, "the server cannot omit that much"),
    (13, "the server does not implement an option"),
    (15, "the burst is longer than the server allows"),
    (16, "more than one of -t, -n and -k"),
    (18, "the server has no SCTP"),
    (20, "the server cannot use datagrams of that size"),
    (21, "the server cannot use that type of service"),
    (25, "reverse and bidirectional at once"),
    (27, "the server's limit on the bit rate is lower than asked"),
    (110, "the server did not understand a message"),
    (114, "the server could not read the parameters"),
    (117, "the server could not read the results"),
    (119, "the client has ended the test"),
    (120, "the server has ended the test"),
    (123, "the server cannot set the segment size"),
    (125, "the server cannot set the type of service"),
    (127, "the server cannot set the flow label"),
    (132, "the server cannot set the CPU affinity"),
    (134, "the server has no such congestion control"),
    (140, "the server cannot pace its sockets"),
    (141, "the server's socket buffers are limited to less"),
    (142, "the server wants a user name and a password"),
    (144, "the server has waited too long for data"),
    (145, "the server cannot forbid fragments"),
    (160, "the bit rate is over the server's limit"),
    (200, "the server could not make a stream"),
    (204, "the server could not accept a stream"),
    (205, "the server could not write to a stream"),
    (206, "the server could not read from a stream"),
];

/// What one of iperf3's error numbers means, in words.
pub fn error_message(number: i32) -> String {
    ERROR_MESSAGES
        .iter()
        .find(|(known, _)| *known == number)
        .map_or_else(
            || format!("iperf3's error {number}"),
            |(_, message)| (*message).into(),
        )
}

/// Why a test came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestError {
    /// What a server tells its client, in the protocol's own way, before it leaves.
    Refused {
        code: ErrorCode,
        errno: i32,
        message: String,
    },
    /// The peer has ended the test, stalls, or speaks something else: there is nobody to tell.
    Failed(String),
    /// The control connection is gone.
    ConnectionLost(String),
    /// This side is to end now, and what it does with it.
    Interrupted,
    /// No connection can be made.
    Unreachable(String),
    /// The server serves another client now.
    Busy(String),
    /// The server does not do what was asked, and said so.
    RefusedByServer(String),
}

impl TestError {
    pub fn refused(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Refused {
            code,
            errno: 0,
            message: message.into(),
        }
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }
}

impl From<TestError> for Error {
    fn from(failure: TestError) -> Self {
        let kind = match failure {
            TestError::Unreachable(_) => Kind::Unreachable,
            TestError::Busy(_) => Kind::Busy,
            TestError::RefusedByServer(_) => Kind::Refused,
            TestError::Refused { .. }
            | TestError::Interrupted
            | TestError::Failed(_)
            | TestError::ConnectionLost(_) => Kind::Broken,
        };
        Self::Server {
            kind,
            words: failure.to_string(),
        }
    }
}

impl fmt::Display for TestError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => out.write_str("the server has been ended by hand"),
            Self::Refused { message, .. }
            | Self::Failed(message)
            | Self::ConnectionLost(message)
            | Self::Unreachable(message)
            | Self::Busy(message)
            | Self::RefusedByServer(message) => out.write_str(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_back_from_its_byte_and_no_other_byte_is_one() {
        let known = (0..=u8::MAX).filter_map(State::from_byte).count();
        assert_eq!(known, State::ALL.len());
        assert_eq!(State::from_byte(0xfe), Some(State::ServerError));
        assert_eq!(State::from_byte(3), None);
    }

    #[test]
    fn an_error_without_words_is_told_by_its_number() {
        assert!(error_message(134).contains("congestion"));
        assert_eq!(error_message(-77), "iperf3's error -77");
    }
}
