//! Socket options that are numbers or structures of numbers and that no other crate supports.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A type without padding, for which every bit pattern is a valid value.
///
/// # Safety
///
/// Implement this only for such types.
pub unsafe trait PlainOldData: Copy + Default {}

// SAFETY: an integer.
unsafe impl PlainOldData for u32 {}
// SAFETY: an integer.
unsafe impl PlainOldData for u64 {}

/// Returns the value of an option. Fields that an older kernel does not fill keep their default.
pub fn get<T: PlainOldData>(socket: &impl AsFd, level: i32, option: i32) -> io::Result<T> {
    get_with_length(socket, level, option).map(|option| option.value)
}

/// The value of an option, and how much of it the kernel filled.
pub struct FilledOption<T> {
    /// The value. Fields that the kernel did not fill have their default.
    pub value: T,
    /// The bytes that the kernel filled.
    pub length_bytes: usize,
}

/// Returns the value of an option, and the number of bytes that the kernel filled.
pub fn get_with_length<T: PlainOldData>(
    socket: &impl AsFd,
    level: i32,
    option: i32,
) -> io::Result<FilledOption<T>> {
    get_with_argument(socket, level, option, T::default())
}

/// Returns the value of an option whose request has an argument, such as a name.
pub fn get_with_argument<T: PlainOldData>(
    socket: &impl AsFd,
    level: i32,
    option: i32,
    argument: T,
) -> io::Result<FilledOption<T>> {
    let mut value = argument;
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for writes of `length` bytes, the kernel writes at most `length`, and every bit pattern is a
    // valid `T`.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if status == 0 {
        Ok(FilledOption {
            value,
            length_bytes: length as usize,
        })
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets an option.
pub fn set<T: PlainOldData>(
    socket: &impl AsFd,
    level: i32,
    option: i32,
    value: T,
) -> io::Result<()> {
    // SAFETY: the pointer refers to a value of this length, which the kernel only reads.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
