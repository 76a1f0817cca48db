//! BPF programs: brought into the kernel, what they share with this process, and how they are run on live frames.

use std::error::Error as StdError;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use aya::maps::Map;
use aya::programs::{RawTracePoint, Xdp};
use aya::{Ebpf, EbpfLoader};

/// What build.rs has made of bpf/generate.bpf.c.
pub static GENERATE: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/generate.bpf.o"));

/// BPF_PROG_TEST_RUN, and its flag for live frames (include/uapi/linux/bpf.h; Linux 5.18 and later).
const PROG_TEST_RUN: libc::c_int = 10;
const LIVE_FRAMES: u32 = 1 << 1;

/// Why there is no program at all, nor any map.
const MISSING_PRIVILEGE: &str =
    "this user may not load BPF programs (run as root, and in no user namespace)";

/// What the system does not let us have, and why; as a clause.
pub type ProbeResult<T> = Result<T, String>;

/// `union bpf_attr`, its part `test`.
#[repr(C)]
#[derive(Default)]
struct TestRunAttributes {
    program: u32,
    answer: u32,
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

/// Loads an object; `set` has a say in its maps and constants.
pub fn load_object<'a>(object: &[u8], set: impl FnOnce(&mut EbpfLoader<'a>)) -> ProbeResult<Ebpf> {
    let mut loader = EbpfLoader::new();
    // No program here asks for the kernel's types, and to read them all takes its time.
    loader.btf(None);
    set(&mut loader);
    loader.load(object).map_err(|error| error_chain(&error))
}

/// Loads one of an object's XDP programs.
pub fn load_xdp_program<'a>(object: &'a mut Ebpf, name: &str) -> ProbeResult<&'a mut Xdp> {
    let program = object
        .program_mut(name)
        .ok_or(format!("there is no program {name}"))?;
    let program: &mut Xdp = program.try_into().map_err(|error| error_chain(&error))?;
    program.load().map_err(|error| error_chain(&error))?;
    Ok(program)
}

/// Has one of an object's programs run at this tracepoint as long as the object lives.
pub fn attach_to_tracepoint(object: &mut Ebpf, name: &str, tracepoint: &str) -> ProbeResult<()> {
    let program = object
        .program_mut(name)
        .ok_or(format!("there is no program {name}"))?;
    let program: &mut RawTracePoint = program.try_into().map_err(|error| error_chain(&error))?;
    program.load().map_err(|error| error_chain(&error))?;
    program
        .attach(tracepoint)
        .map_err(|error| error_chain(&error))?;
    Ok(())
}

/// An error with what caused it. Of what the verifier says only the first line is for who runs the program.
pub fn error_chain(error: &(dyn StdError + 'static)) -> String {
    let mut words = String::new();
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
        if !words.contains(line) {
            words = if words.is_empty() {
                line.into()
            } else {
                format!("{words}: {line}")
            };
        }
        next = error.source();
    }
    words
}

/// Types that a program may write at any moment while this process reads them.
///
/// # Safety
///
/// The type must be all atomics, laid out as C does it (`repr(C)`), and any bits a value of it.
pub unsafe trait SharedWithPrograms {}

/// The elements of an array map with BPF_F_MMAPABLE.
#[derive(Debug)]
pub struct SharedArray<T: SharedWithPrograms> {
    elements: NonNull<T>,
    count: usize,
}

// SAFETY: it is memory of atomics that is this value's until it is dropped, by whichever thread.
unsafe impl<T: SharedWithPrograms> Send for SharedArray<T> {}
// SAFETY: as above.
unsafe impl<T: SharedWithPrograms> Sync for SharedArray<T> {}

impl<T: SharedWithPrograms> SharedArray<T> {
    /// The first `count` of them.
    pub fn map(object: &Ebpf, map: &str, count: usize) -> ProbeResult<Self> {
        let Some(Map::Array(array)) = object.map(map) else {
            return Err(format!("there is no array {map}"));
        };
        let element_bytes = array
            .info()
            .map_err(|error| error_chain(&error))?
            .value_size();
        if element_bytes as usize != size_of::<T>() {
            return Err(format!("an element of {map} has {element_bytes} bytes"));
        }
        let fd = array.fd().as_fd().as_raw_fd();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // At least a page: the kernel does not map nothing.
        let bytes = size_of::<T>() * count.max(1);
        // SAFETY: a new mapping of a descriptor that is open; the kernel refuses one that is longer than the map.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(format!("cannot map {map}: {}", io::Error::last_os_error()));
        }
        let at = NonNull::new(at.cast()).ok_or(format!("{map} is mapped at 0"))?;
        Ok(Self {
            elements: at,
            count,
        })
    }
}

impl<T: SharedWithPrograms> Deref for SharedArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping has so many `T`, is aligned to a page, lives as long as `self`; whatever a program writes
        // is a value of `T`, and is written to atomics.
        unsafe { std::slice::from_raw_parts(self.elements.as_ptr(), self.count) }
    }
}

impl<T: SharedWithPrograms> Drop for SharedArray<T> {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing borrows from it any more.
        unsafe {
            libc::munmap(
                self.elements.as_ptr().cast(),
                size_of::<T>() * self.count.max(1),
            )
        };
    }
}

/// The only element of such a map.
#[derive(Debug)]
pub struct Shared<T: SharedWithPrograms>(SharedArray<T>);

impl<T: SharedWithPrograms> Shared<T> {
    pub fn map(object: &Ebpf, map: &str) -> ProbeResult<Self> {
        SharedArray::map(object, map, 1).map(Self)
    }
}

impl<T: SharedWithPrograms> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0[0]
    }
}

/// Runs a program on so many frames that begin as `frame` does, in batches of so many, each flushed at its end. What it
/// redirects leaves, as if a driver had received it. EINTR where a signal came.
pub fn run_live(program: BorrowedFd<'_>, frame: &[u8], runs: u32, batch: u32) -> io::Result<()> {
    let attributes = TestRunAttributes {
        program: program.as_raw_fd() as u32,
        data_in_bytes: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat: runs,
        flags: LIVE_FRAMES,
        batch,
        ..TestRunAttributes::default()
    };
    // SAFETY: the attributes are valid through the call, and of the length that is told; the kernel reads `frame`, and
    // writes no data out, since it is given no place for any.
    let status = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            PROG_TEST_RUN,
            &raw const attributes,
            size_of::<TestRunAttributes>(),
        )
    };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
