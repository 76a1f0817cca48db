//! The agent's behaviour as its bench sees it: the real binary, over its standard input and output and the loopback.

mod connecting;
mod driving;
mod endings;
mod mutated_lines;
mod placing;
mod random;
mod requests;
mod requests_and_answers;
mod sending;
mod transfers;
