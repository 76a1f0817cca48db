//! How often and for how long a control group's quota of CPU time kept this process from running: cpu.stat of the nearest
//! group that has one (Documentation/scheduler/sched-bwc.rst, Documentation/admin-guide/cgroup-v2.rst).

use std::path::{Path, PathBuf};

use super::proc_file::ProcFile;
use super::{Amount, Reading, Source};

pub struct Quota {
    file: ProcFile,
}

/// A hierarchy of groups as the system has it mounted.
#[derive(Debug, PartialEq)]
struct Tree {
    /// The group that is seen at the mount point.
    root: PathBuf,
    mount: PathBuf,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Version {
    One,
    Two,
}

impl Quota {
    /// `None` where no quota is set, or none can be seen.
    pub fn open() -> Option<Self> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        // `ip netns exec` leaves no groups in /sys: then they are looked for where the parent sees them.
        let parent = format!("/proc/{}", std::os::unix::process::parent_id());
        [Path::new("/proc/self"), Path::new(&parent)]
            .iter()
            .find_map(|seen_by| {
                let mounts = std::fs::read(seen_by.join("mountinfo")).ok()?;
                let mounts = String::from_utf8_lossy(&mounts);
                Self::nearest(&groups, &mounts, &seen_by.join("root"))
            })
    }

    fn nearest(groups: &str, mounts: &str, root: &Path) -> Option<Self> {
        let mut trees = mounts.lines().filter_map(tree_of);
        let folder = trees.find_map(|tree| {
            let group = group_in(groups, tree.version)?;
            let inside = Path::new(group).strip_prefix(&tree.root).ok()?;
            let top = root.join(tree.mount.strip_prefix("/").ok()?);
            let mut folders = inside.ancestors().map(|group| top.join(group));
            folders.find(|folder| has_quota(folder, tree.version))
        })?;
        Some(Self {
            file: ProcFile::open(folder.join("cpu.stat").to_str()?)?,
        })
    }
}

impl Source for Quota {
    fn read(&mut self, into: &mut Reading) {
        let text = self.file.text();
        let counters = &mut into.counters;
        for (key, name, amount) in KEYS {
            if let Some(number) = number_of(text, key) {
                counters.push(name, amount(number));
            }
        }
    }
}

type Made = fn(u64) -> Amount;

const KEYS: [(&str, &str, Made); 4] = [
    ("nr_periods", "cgroup_periods", Amount::Count),
    ("nr_throttled", "cgroup_throttled_periods", Amount::Count),
    // Version 1 in nanoseconds, version 2 in microseconds.
    ("throttled_time", "cgroup_throttled_s", Amount::Nanos),
    ("throttled_usec", "cgroup_throttled_s", |us| {
        Amount::Nanos(us * 1000)
    }),
];

fn number_of(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, number) = lines.find(|(name, _)| *name == key)?;
    number.trim().parse().ok()
}

/// Of a line of mountinfo (proc(5)), where that is of a hierarchy that may limit CPU time.
fn tree_of(mount: &str) -> Option<Tree> {
    let (place, kind) = mount.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, mount) = (unescaped(place.next()?), unescaped(place.next()?));
    let mut kind = kind.split(' ');
    let version = match kind.next()? {
        "cgroup2" => Version::Two,
        "cgroup" if kind.nth(1)?.split(',').any(|option| option == "cpu") => Version::One,
        _ => return None,
    };
    Some(Tree {
        root,
        mount,
        version,
    })
}

/// A path as it is: mountinfo has what would end a word there by its number, and so the backslash (systemd's groups have
/// some: `/system-a\x2db.slice`).
fn unescaped(path: &str) -> PathBuf {
    let written = [
        (r"\040", " "),
        (r"\011", "\t"),
        (r"\012", "\n"),
        (r"\134", r"\"),
    ];
    let path = written
        .iter()
        .fold(path.to_owned(), |path, (by_number, itself)| {
            path.replace(by_number, itself)
        });
    path.into()
}

/// The group of a process in such a hierarchy, by its lines `4:cpu,cpuacct:/group` and `0::/group` of version 2.
fn group_in(groups: &str, version: Version) -> Option<&str> {
    let mut lines = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    let (_, group) = lines.find(|(controllers, _)| match version {
        Version::One => controllers.split(',').any(|name| name == "cpu"),
        Version::Two => controllers.is_empty(),
    })?;
    Some(group)
}

fn has_quota(folder: &Path, version: Version) -> bool {
    let (file, none) = match version {
        Version::One => ("cpu.cfs_quota_us", "-1"),
        Version::Two => ("cpu.max", "max"),
    };
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.split_ascii_whitespace()
        .next()
        .is_some_and(|quota| quota != none)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 /box /groups/cpu rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /groups/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /groups/unified rw,relatime - cgroup2 cgroup2 rw
";

    /// A root folder with such files in its groups, removed when it is dropped.
    struct Root(PathBuf);

    impl Root {
        fn with(name: &str, files: &[(&str, &str)]) -> Self {
            let name = format!("vnetbench-cgroup-{name}-{}", std::process::id());
            let root = std::env::temp_dir().join(name);
            for (path, text) in files {
                let path = root.join("groups").join(path);
                fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
                fs::write(path, text).expect("a file");
            }
            Self(root)
        }

        fn counters(&self, groups: &str) -> Option<String> {
            let mut quota = Quota::nearest(groups, MOUNTS, &self.0)?;
            let mut reading = Reading::default();
            quota.read(&mut reading);
            Some(serde_json::to_string(&reading.counters).expect("serializes"))
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("it is ours");
        }
    }

    const OWN: &str = "9:name=systemd:/\n3:cpu,cpuacct:/box/vm/a1\n0::/box/vm/a1\n";

    #[test]
    fn the_nearest_group_with_a_quota_counts_in_version_1() {
        let root = Root::with(
            "one",
            &[
                ("cpu/vm/a1/cpu.cfs_quota_us", "-1\n"),
                ("cpu/vm/cpu.cfs_quota_us", "50000\n"),
                (
                    "cpu/vm/cpu.stat",
                    "nr_periods 40\nnr_throttled 30\nthrottled_time 1500000000\nnr_bursts 0\n",
                ),
                ("cpu/cpu.cfs_quota_us", "70000\n"),
                ("cpu/cpu.stat", "nr_periods 1\n"),
            ],
        );
        let counted =
            r#"{"cgroup_periods":40,"cgroup_throttled_periods":30,"cgroup_throttled_s":1.5}"#;
        assert_eq!(root.counters(OWN).as_deref(), Some(counted));
        // One whose groups begin elsewhere than what is mounted here cannot be seen.
        assert_eq!(root.counters("3:cpu,cpuacct:/other/vm\n"), None);
    }

    #[test]
    fn a_quota_of_version_2_counts_its_microseconds() {
        let root = Root::with(
            "two",
            &[
                ("cpu/vm/a1/cpu.cfs_quota_us", "-1\n"),
                ("unified/box/vm/a1/cpu.max", "50000 100000\n"),
                (
                    "unified/box/vm/a1/cpu.stat",
                    "usage_usec 9\nnr_periods 4\nnr_throttled 3\nthrottled_usec 250000\n",
                ),
            ],
        );
        let counted =
            r#"{"cgroup_periods":4,"cgroup_throttled_periods":3,"cgroup_throttled_s":0.25}"#;
        assert_eq!(root.counters(OWN).as_deref(), Some(counted));
    }

    #[test]
    fn what_mountinfo_writes_by_its_number_is_read_as_it_is() {
        let mount = r"41 31 0:38 /a\134x2db /my\040groups rw - cgroup2 cgroup2 rw";
        let tree = tree_of(mount).expect("a hierarchy");
        assert_eq!(
            (tree.root, tree.mount),
            (r"/a\x2db".into(), "/my groups".into())
        );
    }

    #[test]
    fn without_a_quota_there_are_no_counters() {
        let root = Root::with(
            "none",
            &[
                ("cpu/vm/a1/cpu.cfs_quota_us", "-1\n"),
                ("cpu/vm/a1/cpu.stat", "nr_periods 0\n"),
                ("unified/box/vm/a1/cpu.max", "max 100000\n"),
                ("unified/box/vm/a1/cpu.stat", "nr_periods 0\n"),
            ],
        );
        assert_eq!(root.counters(OWN), None);
    }
}
