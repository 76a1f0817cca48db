//! Compiles the BPF programs of src/bpf with clang. src/bpf_programs.rs and src/sink_program.rs embed the results.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

const SOURCES: &str = "src/bpf";
const FIX: &str = "install clang and libbpf's headers: sudo apt-get install -y clang libbpf-dev \
    (Fedora: sudo dnf install clang libbpf-devel)";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={SOURCES}");
    match programs().and_then(|programs| programs.iter().try_for_each(|from| compile(from))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            println!("cargo::error={what}");
            ExitCode::FAILURE
        }
    }
}

fn programs() -> Result<Vec<PathBuf>, String> {
    let found = || -> io::Result<Vec<PathBuf>> {
        let paths = fs::read_dir(SOURCES)?.map(|entry| Ok(entry?.path()));
        paths.collect()
    };
    let mut paths = found().map_err(|error| format!("cannot read {SOURCES}: {error}"))?;
    paths.retain(|path| path.to_string_lossy().ends_with(".bpf.c"));
    Ok(paths)
}

fn compile(from: &Path) -> Result<(), String> {
    let name = from.with_extension("o");
    let name = name.file_name().unwrap_or_default();
    let to = Path::new(&variable("OUT_DIR")?).join(name);
    // Debian has the headers of its architecture there, where clang does not look for a target of another name.
    let own_headers = format!(
        "/usr/include/{}-linux-gnu",
        variable("CARGO_CFG_TARGET_ARCH")?
    );
    let mut clang = Command::new("clang");
    clang
        .args([
            "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror",
        ])
        .args([
            "-fdebug-compilation-dir=.",
            "-idirafter",
            &own_headers,
            "-c",
        ])
        .arg(from)
        .arg("-o")
        .arg(to);
    match clang.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!(
            "clang does not compile {} (what it says is above). Where a header is missing, {FIX}",
            from.display()
        )),
        Err(error) => Err(format!(
            "cannot run clang ({error}). To build the agent, {FIX}"
        )),
    }
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("cargo does not say {name}: {error}"))
}
