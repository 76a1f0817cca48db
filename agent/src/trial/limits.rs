//! Errors for parameters outside their limits.

use vnetbench_system::error::{RequestError, Result};

/// Returns a [`RequestError::BadParameter`] with this message.
pub fn reject_parameter<T>(message: String) -> Result<T> {
    Err(RequestError::BadParameter(message))
}

/// Checks that a parameter is between 1 and `max`.
pub fn check_positive_count(name: &str, value: usize, max: usize) -> Result<()> {
    if (1..=max).contains(&value) {
        return Ok(());
    }
    reject_parameter(format!("{name} must be between 1 and {max}"))
}
