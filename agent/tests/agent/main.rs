//! Integration tests: run the real binary and control it through standard input and output, as the bench does.

mod agent_process;
mod connections;
mod datagram_relay;
mod datagrams;
mod delay_lines;
mod endpoints;
mod foreign_programs;
mod frame_sinks;
mod frame_sources;
mod journal;
mod knobs;
mod load_limits;
mod mixed_load;
mod mutated_lines;
mod observing;
mod other_programs;
mod path_state;
mod port_ranges;
mod random;
mod request_response;
mod requests;
mod scheduling;
mod send_modes;
mod stopping;
mod transfers;
mod transports;
