//! Loads the kernel modules that the bench put into the guest, in the order that the bench listed.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::path::Path;

use rustix::io::Errno;
use rustix::system::finit_module;

use vnetbench_system::error::{RequestError, Result};

const MODULES_FOLDER: &str = "/modules";
/// One path per line, relative to the folder, and the module's parameters after a space. Each module follows those that
/// it depends on.
const LOAD_ORDER_FILE: &str = "/modules/order";
/// MODULE_INIT_COMPRESSED_FILE (include/uapi/linux/module.h): the kernel decompresses the module (Linux 5.17).
const MODULE_INIT_COMPRESSED_FILE: i32 = 4;

/// Loads all listed modules; none if the list does not exist.
pub fn load_all_modules() -> Result<()> {
    let order = match std::fs::read_to_string(LOAD_ORDER_FILE) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        read => {
            read.map_err(|error| RequestError::system(format!("read {LOAD_ORDER_FILE}"), error))?
        }
    };
    let mut lines = order.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.try_for_each(|line| {
        let (path, parameters) = line.split_once(' ').unwrap_or((line, ""));
        load_module(&Path::new(MODULES_FOLDER).join(path), parameters)
    })
}

fn load_module(path: &Path, parameters: &str) -> Result<()> {
    let operation = || format!("load the module {}", path.display());
    let parameters = CString::new(parameters).map_err(|_| {
        RequestError::BadParameter(format!("parameters of the module {}", path.display()))
    })?;
    let file = File::open(path).map_err(|error| RequestError::system(operation(), error))?;
    let is_compressed = path.extension() != Some(OsStr::new("ko"));
    let flags = if is_compressed {
        MODULE_INIT_COMPRESSED_FILE
    } else {
        0
    };
    match finit_module(&file, &parameters, flags) {
        // The module is already loaded.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(Errno::INVAL | Errno::OPNOTSUPP) if is_compressed => Err(RequestError::system(
            format!(
                "load the module {} (this kernel may not decompress modules; decompress it first)",
                path.display()
            ),
            Errno::INVAL,
        )),
        Err(error) => Err(RequestError::system(operation(), error)),
    }
}
