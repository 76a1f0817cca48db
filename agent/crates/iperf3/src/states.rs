//! The states and error codes of the iperf3 protocol, and the errors of a test.

use std::fmt;

use vnetbench_system::error::{ErrorKind, RequestError};

/// A state byte of the protocol.
///
/// Source: the iperf3 wiki, "The Iperf3 Protocol and State Machine"; the values were observed on the wire.
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

    /// Returns the state with this byte.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.byte() == byte)
    }

    /// Returns the state's byte.
    pub fn byte(self) -> u8 {
        self as i8 as u8
    }
}

/// iperf3's error codes that this implementation sends; a stock client prints its own message for each.
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
    (5, "the duration is longer than the server allows"),
    (6, "more streams than the server allows"),
    (7, "the block is longer than the server allows"),
    (8, "the socket buffer is larger than the server allows"),
    (10, "the segment size is larger than the server allows"),
    (12, "the omitted time is longer than the server allows"),
    (13, "the server does not support an option of the test"),
    (15, "the burst is longer than the server allows"),
    (16, "the options -t, -n and -k exclude each other"),
    (18, "the server does not support SCTP"),
    (20, "the server does not support this datagram size"),
    (21, "the server does not support this type of service"),
    (25, "the options -R and --bidir exclude each other"),
    (27, "the requested bit rate is over the server's limit"),
    (110, "the server did not understand a message"),
    (114, "the server could not read the parameters"),
    (117, "the server could not read the results"),
    (119, "the client has ended the test"),
    (120, "the server has ended the test"),
    (123, "the server cannot set the segment size"),
    (125, "the server cannot set the type of service"),
    (127, "the server cannot set the flow label"),
    (132, "the server cannot set the CPU affinity"),
    (134, "the server does not support this congestion control"),
    (140, "the server cannot pace its sockets"),
    (141, "the server limits socket buffers to a smaller size"),
    (142, "the server requires a user name and a password"),
    (144, "the server received no data within its timeout"),
    (145, "the server cannot set the don't-fragment flag"),
    (160, "the total bit rate exceeds the server's limit"),
    (200, "the server could not create a stream"),
    (204, "the server could not accept a stream"),
    (205, "the server could not write to a stream"),
    (206, "the server could not read from a stream"),
];

/// Returns the message for one of iperf3's error codes.
pub fn error_message(number: i32) -> String {
    ERROR_MESSAGES
        .iter()
        .find(|(known, _)| *known == number)
        .map_or_else(
            || format!("iperf3 error {number}"),
            |(_, message)| (*message).into(),
        )
}

/// The reason why a test failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestError {
    /// This host refuses or aborts the test and sends the code to its peer.
    Refused {
        /// iperf3's error code.
        code: ErrorCode,
        /// The system's error number, or 0.
        errno: i32,
        /// The message for the user.
        message: String,
    },
    /// The peer ended the test, stalled or violated the protocol.
    Failed(String),
    /// The control connection closed.
    ConnectionLost(String),
    /// The user interrupted this host.
    Interrupted,
    /// The server does not accept connections.
    Unreachable(String),
    /// The server is serving another client.
    Busy(String),
    /// The server refused the parameters.
    RefusedByServer(String),
}

impl TestError {
    /// Creates a `Refused` without a system error.
    pub fn refused(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Refused {
            code,
            errno: 0,
            message: message.into(),
        }
    }

    /// Creates a `Failed`.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }
}

impl From<TestError> for RequestError {
    fn from(error: TestError) -> Self {
        let kind = match error {
            TestError::Unreachable(_) => ErrorKind::Unreachable,
            TestError::Busy(_) => ErrorKind::Busy,
            TestError::RefusedByServer(_) => ErrorKind::Refused,
            TestError::Refused { .. }
            | TestError::Interrupted
            | TestError::Failed(_)
            | TestError::ConnectionLost(_) => ErrorKind::Broken,
        };
        Self::Server {
            kind,
            message: error.to_string(),
        }
    }
}

impl fmt::Display for TestError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => out.write_str("a signal ended the server"),
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
    fn only_the_bytes_of_states_are_decoded() {
        let known = (0..=u8::MAX).filter_map(State::from_byte).count();
        assert_eq!(known, State::ALL.len());
        assert_eq!(State::from_byte(0xfe), Some(State::ServerError));
        assert_eq!(State::from_byte(3), None);
    }

    #[test]
    fn an_unknown_error_code_is_reported_as_a_number() {
        assert!(error_message(134).contains("congestion"));
        assert_eq!(error_message(-77), "iperf3 error -77");
    }
}
