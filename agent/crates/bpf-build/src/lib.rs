//! Compiles the BPF programs of a crate with clang, for its build script.
//!
//! Each crate with BPF programs has them in `src/bpf`: `*.bpf.c`, and the headers that these include. Its `build.rs` calls
//! [`compile_programs`], which compiles each program to an object in `OUT_DIR`. The crate embeds the object
//! (`include_bytes_aligned`) and loads it with `vnetbench-bpf`.
//!
//! Programs are compiled for the instruction set v3, which has atomic operations (Linux 5.12), with warnings as errors and
//! with debug information. If clang or a header is missing, the error of the build says what to install.
//!
//! # What does not belong here
//!
//! Loading programs and sharing memory with them (`vnetbench-bpf`): build scripts need neither.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

/// Folder of each crate's programs.
const SOURCE_DIR: &str = "src/bpf";
const INSTALL_HINT: &str = "install clang and libbpf's headers: sudo apt-get install -y clang libbpf-dev \
    (Fedora: sudo dnf install clang libbpf-devel)";

/// Compiles each `src/bpf/*.bpf.c` of the crate to `OUT_DIR/*.bpf.o`, which the crate embeds.
pub fn compile_programs() -> ExitCode {
    println!("cargo::rerun-if-changed={SOURCE_DIR}");
    let compiled =
        list_programs().and_then(|paths| paths.iter().try_for_each(|path| compile(path)));
    match compiled {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn list_programs() -> Result<Vec<PathBuf>, String> {
    let mut paths = fs::read_dir(SOURCE_DIR)
        .and_then(|entries| {
            let paths = entries.map(|entry| Ok(entry?.path()));
            paths.collect::<io::Result<Vec<PathBuf>>>()
        })
        .map_err(|error| format!("cannot read {SOURCE_DIR}: {error}"))?;
    paths.retain(|path| path.to_string_lossy().ends_with(".bpf.c"));
    Ok(paths)
}

fn compile(source: &Path) -> Result<(), String> {
    let object_name = source.with_extension("o");
    let object_name = object_name.file_name().unwrap_or_default();
    let object = Path::new(&read_variable("OUT_DIR")?).join(object_name);
    // Debian keeps asm/types.h in a folder per architecture, which clang does not search for the target bpf.
    let architecture_headers = format!(
        "/usr/include/{}-linux-gnu",
        read_variable("CARGO_CFG_TARGET_ARCH")?
    );
    let mut clang = Command::new("clang");
    clang
        .args([
            "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror",
        ])
        .args([
            "-fdebug-compilation-dir=.",
            "-idirafter",
            &architecture_headers,
            "-c",
        ])
        .arg(source)
        .arg("-o")
        .arg(object);
    match clang.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!(
            "clang cannot compile {}; its output is above. If a header is missing, {INSTALL_HINT}",
            source.display()
        )),
        Err(error) => Err(format!(
            "cannot run clang: {error}. To build the agent, {INSTALL_HINT}"
        )),
    }
}

fn read_variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("cargo has not set {name}: {error}"))
}
