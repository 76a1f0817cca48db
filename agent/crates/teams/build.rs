//! Compiles the BPF programs of src/bpf. src/program.rs embeds the object.

use std::process::ExitCode;

fn main() -> ExitCode {
    vnetbench_bpf_build::compile_programs()
}
