//! How a parameter that is out of its limits is refused.

use vnetbench_system::error::{Error, Result};

pub fn bad<T>(what: String) -> Result<T> {
    Err(Error::BadParameter(what))
}

pub fn within(name: &str, value: usize, most: usize) -> Result<()> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    bad(format!("{name} must lie within 1 and {most}"))
}
