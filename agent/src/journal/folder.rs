//! The folder that the bench creates for its agent on a host. It is validated before anything in it is touched.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, fsync, open, openat, unlinkat};
use rustix::io::Errno;

const FOLDER_NAME_PREFIX: &str = "vnetbench-";
const JOURNAL_FILE_NAME: &str = "journal";
/// Access for the owner only.
const FOLDER_MODE: u32 = 0o700;

/// An open folder that belongs to this user alone and has the name of an agent's folder.
pub struct JournalFolder {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl fmt::Display for JournalFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

impl JournalFolder {
    /// Opens and validates the folder.
    ///
    /// # Errors
    ///
    /// Returns a message for the user.
    pub fn open_validated(path: &Path) -> Result<Self, String> {
        let error_message = |reason: String| format!("{}: {reason}", path.display());
        let name = path.file_name().unwrap_or_default().to_os_string();
        if !name.to_string_lossy().starts_with(FOLDER_NAME_PREFIX) {
            return Err(error_message(format!(
                "the name of an agent's folder must begin with {FOLDER_NAME_PREFIX}"
            )));
        }
        let path = absolute_path_without_trailing_slash(path, name)
            .map_err(|error| error_message(error.to_string()))?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let descriptor = open(&path, flags, Mode::empty()).map_err(|error| {
            error_message(match error {
                Errno::NOENT => "the folder does not exist".into(),
                Errno::NOTDIR | Errno::LOOP => "the path is not a folder".into(),
                _ => format!("the folder cannot be opened: {error}"),
            })
        })?;
        let status = fstat(&descriptor).map_err(|error| error_message(error.to_string()))?;
        if status.st_uid != rustix::process::geteuid().as_raw() {
            return Err(error_message("the folder belongs to another user".into()));
        }
        let mode = status.st_mode & 0o7777;
        if mode != FOLDER_MODE {
            return Err(error_message(format!(
                "the folder's mode is {mode:o}, but must be {FOLDER_MODE:o}"
            )));
        }
        Ok(Self { path, descriptor })
    }

    /// Creates the journal file. Fails if it already exists.
    pub fn create_journal(&self) -> Result<File, String> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(
            &self.descriptor,
            JOURNAL_FILE_NAME,
            flags,
            Mode::RUSR | Mode::WUSR,
        ) {
            Ok(file) => Ok(File::from(file)),
            Err(Errno::EXIST) => Err(format!(
                "{self} contains the journal of another agent. Run vnetbench-agent restore {self} first"
            )),
            Err(error) => Err(format!("cannot create a journal in {self}: {error}")),
        }
    }

    /// Opens the journal file; returns `None` if it does not exist.
    pub fn open_journal(&self) -> Result<Option<File>, String> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.descriptor, JOURNAL_FILE_NAME, flags, Mode::empty()) {
            Ok(file) => Ok(Some(File::from(file))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(format!("cannot open the journal in {self}: {error}")),
        }
    }

    /// Flushes the folder's entries to disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.descriptor)?)
    }

    /// Removes the folder with its files. Fails if it contains another folder.
    pub fn remove(&self) -> Result<(), String> {
        let remove_error = |error: Errno| format!("{self} cannot be removed: {error}");
        for entry in Dir::read_from(&self.descriptor).map_err(remove_error)? {
            let entry = entry.map_err(remove_error)?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                unlinkat(&self.descriptor, name, AtFlags::empty()).map_err(remove_error)?;
            }
        }
        unlinkat(rustix::fs::CWD, &self.path, AtFlags::REMOVEDIR).map_err(remove_error)
    }
}

/// Returns the absolute path of `path`, which ends in `last_component` without a slash.
///
/// A trailing slash would follow a symbolic link.
fn absolute_path_without_trailing_slash(
    path: &Path,
    last_component: OsString,
) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    Ok(absolute
        .parent()
        .unwrap_or(Path::new("/"))
        .join(last_component))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Creates a temporary folder, and in it a folder of this name and mode. Returns both paths.
    fn create_folders(test: &str, name: &str, mode: u32) -> (PathBuf, PathBuf) {
        let parent = std::env::temp_dir().join(format!("vnetbench-{test}-{}", std::process::id()));
        let folder = parent.join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        set_permissions(&folder, Permissions::from_mode(mode)).expect("the folder is valid");
        (parent, folder)
    }

    fn open_error(path: &Path) -> String {
        JournalFolder::open_validated(path)
            .map(drop)
            .expect_err("the folder is invalid")
    }

    #[test]
    fn removing_a_folder_removes_its_files() {
        let (parent, folder) = create_folders("files", "vnetbench-u-1", 0o700);
        std::fs::write(folder.join("journal"), "x").expect("a file");
        symlink("/", folder.join("link")).expect("a link");
        let opened = JournalFolder::open_validated(&folder.join(".")).expect("the folder is valid");
        opened.remove().expect("the folder is valid");
        assert!(!folder.exists());
        std::fs::remove_dir(parent).expect("nothing else is in it");
    }

    #[test]
    fn a_folder_that_contains_a_folder_is_not_removed() {
        let (parent, folder) = create_folders("inner", "vnetbench-u-1", 0o700);
        std::fs::create_dir(folder.join("inner")).expect("a folder");
        let opened = JournalFolder::open_validated(&folder).expect("the folder is valid");
        assert!(
            opened
                .remove()
                .expect_err("the folder contains a folder")
                .contains("cannot be removed")
        );
        assert!(folder.join("inner").exists());
        std::fs::remove_dir_all(parent).expect("the folder is valid");
    }

    #[test]
    fn folders_of_another_name_mode_or_type_are_rejected() {
        let (parent, folder) = create_folders("others", "vnetbench-u-1", 0o755);
        assert!(open_error(&folder).contains("the folder's mode is 755"));
        assert!(open_error(&folder.join("..")).contains("must begin with vnetbench-"));
        assert!(open_error(Path::new("/")).contains("must begin with vnetbench-"));
        assert!(open_error(&parent.join("vnetbench-u-2")).contains("does not exist"));
        set_permissions(&folder, Permissions::from_mode(0o700)).expect("the folder is valid");
        let link = parent.join("vnetbench-link");
        symlink(&folder, &link).expect("a link");
        for path in [link.clone(), link.join("")] {
            assert!(
                open_error(&path).contains("the path is not a folder"),
                "{path:?}"
            );
        }
        std::fs::remove_dir_all(parent).expect("the folder is valid");
    }
}
