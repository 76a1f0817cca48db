//! Compiles the BPF programs of src/bpf. src/generator_state.rs and src/sink_program.rs embed the objects.

use std::process::ExitCode;

fn main() -> ExitCode {
    vnetbench_bpf_build::compile_programs()
}
