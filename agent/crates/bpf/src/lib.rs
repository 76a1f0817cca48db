//! Loads BPF programs, shares memory with them, and runs them on live frames.
//!
//! The crates with BPF programs embed their objects, which `vnetbench-bpf-build` compiles. What a program does, and where it
//! is attached, belongs to its crate.
//!
//! - [`load_object`] loads an object after its constants and the sizes of its maps are set.
//! - [`load_xdp_program`] and [`attach_to_tracepoint`] load and attach its programs.
//! - [`SharedArray`] and [`Shared`] map an array of a program, so that the agent reads it without a system call.
//! - [`run_on_live_frames`] runs a program on frames that the kernel then forwards.
//! - [`join_first_error_lines`] formats errors without the log of the verifier.
//!
//! # What does not belong here
//!
//! The meaning of a program's maps, and its hooks.

use std::error::Error as StdError;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use aya::maps::Map;
use aya::programs::{RawTracePoint, Xdp};
use aya::{Ebpf, EbpfLoader};

/// BPF_PROG_TEST_RUN (include/uapi/linux/bpf.h).
const BPF_PROG_TEST_RUN: libc::c_int = 10;
/// BPF_F_TEST_XDP_LIVE_FRAMES (Linux 5.18 and later).
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

const MISSING_PRIVILEGE: &str =
    "this user may not load BPF programs. Run the agent as root, outside user namespaces";

/// A capability of the system, or the reason why it is missing, as a clause.
pub type ProbeResult<T> = Result<T, String>;

/// The `test` member of `union bpf_attr`.
#[repr(C)]
#[derive(Default)]
struct TestRunAttributes {
    program: u32,
    return_value: u32,
    data_in_bytes: u32,
    data_out_bytes: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_in_bytes: u32,
    context_out_bytes: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    padding: u32,
}

/// Loads an object after `configure` has set the sizes of its maps and its constants.
pub fn load_object<'a>(
    object: &[u8],
    configure: impl FnOnce(&mut EbpfLoader<'a>),
) -> ProbeResult<Ebpf> {
    let mut loader = EbpfLoader::new();
    // No program here needs the kernel's BTF, and parsing it is slow.
    loader.btf(None);
    configure(&mut loader);
    loader
        .load(object)
        .map_err(|error| join_first_error_lines(&error))
}

/// Loads one of an object's XDP programs.
pub fn load_xdp_program<'a>(object: &'a mut Ebpf, name: &str) -> ProbeResult<&'a mut Xdp> {
    let program = object
        .program_mut(name)
        .ok_or(format!("the BPF object has no program {name}"))?;
    let program: &mut Xdp = program
        .try_into()
        .map_err(|error| join_first_error_lines(&error))?;
    program
        .load()
        .map_err(|error| join_first_error_lines(&error))?;
    Ok(program)
}

/// Attaches one of an object's programs to a raw tracepoint for the lifetime of the object.
pub fn attach_to_tracepoint(object: &mut Ebpf, name: &str, tracepoint: &str) -> ProbeResult<()> {
    let program = object
        .program_mut(name)
        .ok_or(format!("the BPF object has no program {name}"))?;
    let program: &mut RawTracePoint = program
        .try_into()
        .map_err(|error| join_first_error_lines(&error))?;
    program
        .load()
        .map_err(|error| join_first_error_lines(&error))?;
    program
        .attach(tracepoint)
        .map_err(|error| join_first_error_lines(&error))?;
    Ok(())
}

/// Formats an error with its causes, one line each: a verifier log after the first line helps only developers.
pub fn join_first_error_lines(error: &(dyn StdError + 'static)) -> String {
    let mut message = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let errno = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error);
        if errno == Some(libc::EPERM) {
            return MISSING_PRIVILEGE.into();
        }
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        if !message.contains(line) {
            message = if message.is_empty() {
                line.into()
            } else {
                format!("{message}: {line}")
            };
        }
        next = error.source();
    }
    message
}

/// A type that a BPF program may write at any time while the agent reads it.
///
/// # Safety
///
/// All fields must be atomics in C layout (`repr(C)`), and every bit pattern must be a valid value.
pub unsafe trait SharedWithPrograms {}

/// The memory-mapped elements of an array map with BPF_F_MMAPABLE.
#[derive(Debug)]
pub struct SharedArray<T: SharedWithPrograms> {
    elements: NonNull<T>,
    count: usize,
}

// SAFETY: the memory holds atomics only, and stays mapped until this value is dropped, on any thread.
unsafe impl<T: SharedWithPrograms> Send for SharedArray<T> {}
// SAFETY: as above.
unsafe impl<T: SharedWithPrograms> Sync for SharedArray<T> {}

impl<T: SharedWithPrograms> SharedArray<T> {
    /// Maps the first `count` elements of an object's map.
    pub fn mmap_bpf_array(object: &Ebpf, map: &str, count: usize) -> ProbeResult<Self> {
        let Some(Map::Array(array)) = object.map(map) else {
            return Err(format!("the BPF object has no array {map}"));
        };
        let element_bytes = array
            .info()
            .map_err(|error| join_first_error_lines(&error))?
            .value_size();
        if element_bytes as usize != size_of::<T>() {
            return Err(format!(
                "elements of the BPF array {map} have an unexpected size of {element_bytes} bytes"
            ));
        }
        let fd = array.fd().as_fd().as_raw_fd();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // At least one element: the kernel rejects an empty mapping.
        let bytes = size_of::<T>() * count.max(1);
        // SAFETY: this is a new mapping of an open descriptor; the kernel rejects a length beyond the map.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(format!("cannot map {map}: {}", io::Error::last_os_error()));
        }
        let elements = NonNull::new(address.cast())
            .ok_or(format!("the BPF array {map} is mapped at address 0"))?;
        Ok(Self { elements, count })
    }
}

impl<T: SharedWithPrograms> Deref for SharedArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `count` values of `T`, is page-aligned and lives as long as `self`. Programs write
        // only to atomics, and every bit pattern is a valid `T`.
        unsafe { std::slice::from_raw_parts(self.elements.as_ptr(), self.count) }
    }
}

impl<T: SharedWithPrograms> Drop for SharedArray<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping has this length, and no borrow of it remains.
        unsafe {
            libc::munmap(
                self.elements.as_ptr().cast(),
                size_of::<T>() * self.count.max(1),
            )
        };
    }
}

/// The memory-mapped only element of an array map.
#[derive(Debug)]
pub struct Shared<T: SharedWithPrograms>(SharedArray<T>);

impl<T: SharedWithPrograms> Shared<T> {
    /// Maps the only element of an object's map.
    pub fn mmap_bpf_array(object: &Ebpf, map: &str) -> ProbeResult<Self> {
        SharedArray::mmap_bpf_array(object, map, 1).map(Self)
    }
}

impl<T: SharedWithPrograms> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0[0]
    }
}

/// Runs a program `run_count` times, each time on a new live frame that starts as a copy of `frame`.
///
/// Frames that the program redirects are transmitted as if a driver had received them. The kernel flushes its queue
/// after each `runs_per_flush` runs.
///
/// # Errors
///
/// Returns EINTR if a signal interrupts the call.
pub fn run_on_live_frames(
    program: BorrowedFd<'_>,
    frame: &[u8],
    run_count: u32,
    runs_per_flush: u32,
) -> io::Result<()> {
    let attributes = TestRunAttributes {
        program: program.as_raw_fd() as u32,
        data_in_bytes: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat: run_count,
        flags: BPF_F_TEST_XDP_LIVE_FRAMES,
        batch: runs_per_flush,
        ..TestRunAttributes::default()
    };
    // SAFETY: the attributes are valid during the call and have the given length. The kernel reads `frame` and writes
    // nothing, because `data_out` and `context_out` are null.
    let status = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_TEST_RUN,
            &raw const attributes,
            size_of::<TestRunAttributes>(),
        )
    };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
