//! How a parameter that is out of its limits is refused.

use vnetbench_system::error::{Error, Result};

pub fn bad_parameter<T>(what: String) -> Result<T> {
    Err(Error::BadParameter(what))
}

pub fn check_max(name: &str, value: usize, most: usize) -> Result<()> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    bad_parameter(format!("{name} must lie within 1 and {most}"))
}
