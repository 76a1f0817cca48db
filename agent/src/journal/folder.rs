//! The folder that a bench makes for its agent on a host: proved to be one before anything in it is touched.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, fsync, open, openat, unlinkat};
use rustix::io::Errno;

const PREFIX: &str = "vnetbench-";
const JOURNAL: &str = "journal";
/// What only its owner may read, write and enter.
const MODE: u32 = 0o700;

/// An open folder that is this user's alone, and named as a bench names them.
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
    /// What goes wrong is a sentence.
    pub fn open(path: &Path) -> Result<Self, String> {
        let refused = |reason: String| format!("{}: {reason}", path.display());
        let name = path.file_name().unwrap_or_default().to_os_string();
        if !name.to_string_lossy().starts_with(PREFIX) {
            return Err(refused(format!(
                "the name of an agent's folder begins with {PREFIX}"
            )));
        }
        let path = canonical_parent(path, name).map_err(|error| refused(error.to_string()))?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let descriptor = open(&path, flags, Mode::empty()).map_err(|error| {
            refused(match error {
                Errno::NOENT => "there is no such folder".into(),
                Errno::NOTDIR | Errno::LOOP => "it is no folder".into(),
                _ => format!("it cannot be opened: {error}"),
            })
        })?;
        let found = fstat(&descriptor).map_err(|error| refused(error.to_string()))?;
        if found.st_uid != rustix::process::geteuid().as_raw() {
            return Err(refused("it is another user's".into()));
        }
        let mode = found.st_mode & 0o7777;
        if mode != MODE {
            return Err(refused(format!(
                "its mode is {mode:o}, and should be {MODE:o}"
            )));
        }
        Ok(Self { path, descriptor })
    }

    pub fn create_journal(&self) -> Result<File, String> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.descriptor, JOURNAL, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(File::from(file)),
            Err(Errno::EXIST) => Err(format!(
                "{self} has the journal of another agent; vnetbench-agent restore {self} puts back what that has changed"
            )),
            Err(error) => Err(format!("cannot make a journal in {self}: {error}")),
        }
    }

    /// `None` where there is none.
    pub fn open_journal(&self) -> Result<Option<File>, String> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.descriptor, JOURNAL, flags, Mode::empty()) {
            Ok(file) => Ok(Some(File::from(file))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(format!("cannot open the journal in {self}: {error}")),
        }
    }

    /// Has the kernel write down what is in it.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.descriptor)?)
    }

    /// Removes it with the files in it, and no folder that somebody else has put there.
    pub fn remove(&self) -> Result<(), String> {
        let refused = |error: Errno| format!("{self} cannot be removed: {error}");
        for entry in Dir::read_from(&self.descriptor).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                unlinkat(&self.descriptor, name, AtFlags::empty()).map_err(refused)?;
            }
        }
        unlinkat(rustix::fs::CWD, &self.path, AtFlags::REMOVEDIR).map_err(refused)
    }
}

/// From the root, without a stroke at its end: that would follow a link.
fn canonical_parent(path: &Path, name: OsString) -> io::Result<PathBuf> {
    let whole = std::path::absolute(path)?;
    Ok(whole.parent().unwrap_or(Path::new("/")).join(name))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A folder of this test's own, with one in it that has this name and mode.
    fn folders(test: &str, name: &str, mode: u32) -> (PathBuf, PathBuf) {
        let around = std::env::temp_dir().join(format!("vnetbench-{test}-{}", std::process::id()));
        let folder = around.join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        set_permissions(&folder, Permissions::from_mode(mode)).expect("it is ours");
        (around, folder)
    }

    fn refusal(path: &Path) -> String {
        JournalFolder::open(path)
            .map(drop)
            .expect_err("it is none of ours")
    }

    #[test]
    fn a_folder_goes_with_the_files_in_it() {
        let (around, folder) = folders("files", "vnetbench-u-1", 0o700);
        std::fs::write(folder.join("journal"), "x").expect("a file");
        symlink("/", folder.join("link")).expect("a link");
        let opened = JournalFolder::open(&folder.join(".")).expect("it is ours");
        opened.remove().expect("it is ours");
        assert!(!folder.exists());
        std::fs::remove_dir(around).expect("nothing else is in it");
    }

    #[test]
    fn a_folder_with_another_in_it_stays() {
        let (around, folder) = folders("inner", "vnetbench-u-1", 0o700);
        std::fs::create_dir(folder.join("inner")).expect("a folder");
        let opened = JournalFolder::open(&folder).expect("it is ours");
        assert!(
            opened
                .remove()
                .expect_err("it holds a folder")
                .contains("cannot be removed")
        );
        assert!(folder.join("inner").exists());
        std::fs::remove_dir_all(around).expect("it is ours");
    }

    #[test]
    fn no_other_folder_is_taken_for_one() {
        let (around, folder) = folders("others", "vnetbench-u-1", 0o755);
        assert!(refusal(&folder).contains("its mode is 755"));
        assert!(refusal(&folder.join("..")).contains("begins with vnetbench-"));
        assert!(refusal(Path::new("/")).contains("begins with vnetbench-"));
        assert!(refusal(&around.join("vnetbench-u-2")).contains("no such folder"));
        set_permissions(&folder, Permissions::from_mode(0o700)).expect("it is ours");
        let link = around.join("vnetbench-link");
        symlink(&folder, &link).expect("a link");
        for path in [link.clone(), link.join("")] {
            assert!(refusal(&path).contains("it is no folder"), "{path:?}");
        }
        std::fs::remove_dir_all(around).expect("it is ours");
    }
}
