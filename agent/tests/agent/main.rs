//! The agent's behaviour as its bench sees it: the real binary, over its standard input and output and the loopback.

mod carrying;
mod connecting;
mod counting;
mod datagrams;
mod delaying;
mod driving;
mod endings;
mod generating;
mod journal;
mod limiting;
mod mixing;
mod mutated_lines;
mod placing;
mod ports;
mod random;
mod relay;
mod requests;
mod requests_and_answers;
mod scheduling;
mod sending;
mod sides;
mod transfers;
mod watching;
