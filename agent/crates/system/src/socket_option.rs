//! Options of sockets that are plain numbers or structures of numbers, and that no crate has a name for.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A type of which every pattern of bytes is a value, and that has no padding.
///
/// # Safety
/// Only such types may have it.
pub unsafe trait Plain: Copy + Default {}

// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}

/// The option's value. What the kernel leaves out at the end (an older one knows fewer fields) is as in the default.
pub fn get<T: Plain>(socket: &impl AsFd, level: i32, option: i32) -> io::Result<T> {
    get_sized(socket, level, option).map(|(value, _)| value)
}

/// The same, and how many of its bytes the kernel filled.
pub fn get_sized<T: Plain>(socket: &impl AsFd, level: i32, option: i32) -> io::Result<(T, usize)> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for writes of `length` bytes, the kernel writes no more than `length`, and every pattern of
    // bytes is a valid `T`.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if answer == 0 {
        Ok((value, length as usize))
    } else {
        Err(io::Error::last_os_error())
    }
}

pub fn set<T: Plain>(socket: &impl AsFd, level: i32, option: i32, value: T) -> io::Result<()> {
    // SAFETY: the pointer is to a value of that length, and the kernel only reads it.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
