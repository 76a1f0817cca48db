//! How often and for how long a control group's quota of CPU time kept this process from running, by cpu.stat
//! (Documentation/scheduler/sched-bwc.rst, Documentation/admin-guide/cgroup-v2.rst): of its group and those around it, each
//! with a quota of its own, of the one that did so longest.

use std::path::{Path, PathBuf};

use crate::proc_file::ProcFile;
use crate::reading::{CounterSource, CounterValue, Reading};

pub struct CgroupQuota {
    /// Those that have one, the nearest first.
    groups: Vec<Group>,
    /// What was counted since they were opened.
    sum: Throttling,
}

struct Group {
    file: ProcFile,
    last: Throttling,
}

/// What a quota has come to, since it was set or between two readings.
#[derive(Debug, Clone, Copy, Default)]
struct Throttling {
    periods: u64,
    throttled_periods: u64,
    throttled_nanos: u64,
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

impl CgroupQuota {
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
                Self::open_at(&groups, &mounts, &seen_by.join("root"))
            })
    }

    fn open_at(groups: &str, mounts: &str, root: &Path) -> Option<Self> {
        let mut trees = mounts.lines().filter_map(parse_mount);
        let groups = trees.find_map(|tree| {
            let group = group_path(groups, tree.version)?;
            let inside = Path::new(group).strip_prefix(&tree.root).ok()?;
            let top = root.join(tree.mount.strip_prefix("/").ok()?);
            let folders = inside.ancestors().map(|group| top.join(group));
            let limited = folders.filter(|folder| has_quota(folder, tree.version));
            let groups: Vec<_> = limited.filter_map(|folder| Group::open(&folder)).collect();
            (!groups.is_empty()).then_some(groups)
        })?;
        Some(Self {
            groups,
            sum: Throttling::default(),
        })
    }
}

impl CounterSource for CgroupQuota {
    fn read(&mut self, into: &mut Reading) {
        let moved = self.groups.iter_mut().map(Group::read);
        // Of those that are alike, the nearest.
        let most =
            moved.reduce(
                |nearer, outer| match outer.throttled_nanos > nearer.throttled_nanos {
                    true => outer,
                    false => nearer,
                },
            );
        let most = most.expect("there is one at least");
        let sum = &mut self.sum;
        sum.periods += most.periods;
        sum.throttled_periods += most.throttled_periods;
        sum.throttled_nanos += most.throttled_nanos;
        for (name, amount) in [
            ("cgroup_periods", CounterValue::Count(sum.periods)),
            (
                "cgroup_throttled_periods",
                CounterValue::Count(sum.throttled_periods),
            ),
            (
                "cgroup_throttled_s",
                CounterValue::Nanos(sum.throttled_nanos),
            ),
        ] {
            into.counters.push(name, amount);
        }
    }
}

impl Group {
    fn open(folder: &Path) -> Option<Self> {
        let mut file = ProcFile::open(folder.join("cpu.stat").to_str()?)?;
        let last = Throttling::parse(file.text())?;
        Some(Self { file, last })
    }

    /// Since this was asked last; nothing where the group is gone.
    fn read(&mut self) -> Throttling {
        let now = Throttling::parse(self.file.text()).unwrap_or(self.last);
        let then = std::mem::replace(&mut self.last, now);
        Throttling {
            periods: now.periods.saturating_sub(then.periods),
            throttled_periods: now.throttled_periods.saturating_sub(then.throttled_periods),
            throttled_nanos: now.throttled_nanos.saturating_sub(then.throttled_nanos),
        }
    }
}

impl Throttling {
    /// Of cpu.stat.
    fn parse(text: &str) -> Option<Self> {
        // Version 1 in nanoseconds, version 2 in microseconds.
        let nanos = read_number(text, "throttled_time");
        let throttled_nanos =
            nanos.or_else(|| Some(read_number(text, "throttled_usec")? * 1000))?;
        Some(Self {
            periods: read_number(text, "nr_periods")?,
            throttled_periods: read_number(text, "nr_throttled")?,
            throttled_nanos,
        })
    }
}

fn read_number(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, number) = lines.find(|(name, _)| *name == key)?;
    number.trim().parse().ok()
}

/// Of a line of mountinfo (proc(5)), where that is of a hierarchy that may limit CPU time.
fn parse_mount(mount: &str) -> Option<Tree> {
    let (place, kind) = mount.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, mount) = (unescape_path(place.next()?), unescape_path(place.next()?));
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
fn unescape_path(path: &str) -> PathBuf {
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
fn group_path(groups: &str, version: Version) -> Option<&str> {
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
            let root = Self(std::env::temp_dir().join(name));
            root.write(files);
            root
        }

        fn write(&self, files: &[(&str, &str)]) {
            for (path, text) in files {
                let path = self.0.join("groups").join(path);
                fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
                fs::write(path, text).expect("a file");
            }
        }

        fn quota(&self, groups: &str) -> Option<CgroupQuota> {
            CgroupQuota::open_at(groups, MOUNTS, &self.0)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("it is ours");
        }
    }

    fn counters(quota: &mut CgroupQuota) -> String {
        let mut reading = Reading::default();
        quota.read(&mut reading);
        serde_json::to_string(&reading.counters).expect("serializes")
    }

    fn counted(periods: u64, throttled: u64, throttled_s: f64) -> String {
        format!(
            r#"{{"cgroup_periods":{periods},"cgroup_throttled_periods":{throttled},"cgroup_throttled_s":{throttled_s:?}}}"#
        )
    }

    fn of_version_1(periods: u64, throttled: u64, nanos: u64) -> String {
        format!(
            "nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time {nanos}\nnr_bursts 0\n"
        )
    }

    fn of_version_2(periods: u64, throttled: u64, us: u64) -> String {
        format!(
            "usage_usec 9\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {us}\n"
        )
    }

    const OWN: &str = "9:name=systemd:/\n3:cpu,cpuacct:/box/vm/a1\n0::/box/vm/a1\n";

    #[test]
    fn a_quota_of_version_1_counts_its_nanoseconds_from_when_it_was_opened() {
        let root = Root::with(
            "one",
            &[
                ("cpu/vm/a1/cpu.cfs_quota_us", "-1\n"),
                ("cpu/vm/a1/cpu.stat", &of_version_1(0, 0, 0)),
                ("cpu/vm/cpu.cfs_quota_us", "50000\n"),
                ("cpu/vm/cpu.stat", &of_version_1(100, 7, 1_000_000_000)),
            ],
        );
        let mut quota = root.quota(OWN).expect("one is set");
        root.write(&[("cpu/vm/cpu.stat", &of_version_1(140, 37, 2_500_000_000))]);
        assert_eq!(counters(&mut quota), counted(40, 30, 1.5));
        // One whose groups begin elsewhere than what is mounted here cannot be seen.
        assert!(root.quota("3:cpu,cpuacct:/other/vm\n").is_none());
    }

    #[test]
    fn a_quota_of_version_2_counts_its_microseconds() {
        let stat = "unified/box/vm/a1/cpu.stat";
        let root = Root::with(
            "two",
            &[
                ("cpu/vm/a1/cpu.cfs_quota_us", "-1\n"),
                ("unified/box/vm/a1/cpu.max", "50000 100000\n"),
                (stat, &of_version_2(0, 0, 0)),
            ],
        );
        let mut quota = root.quota(OWN).expect("one is set");
        root.write(&[(stat, &of_version_2(4, 3, 250_000))]);
        assert_eq!(counters(&mut quota), counted(4, 3, 0.25));
    }

    #[test]
    fn of_groups_within_each_other_the_one_that_throttled_longest_counts_each_time() {
        let [own, outer] = ["cpu/vm/a1/cpu.stat", "cpu/vm/cpu.stat"];
        let root = Root::with(
            "nested-one",
            &[
                ("cpu/vm/a1/cpu.cfs_quota_us", "200000\n"),
                ("cpu/vm/cpu.cfs_quota_us", "50000\n"),
                (own, &of_version_1(10, 9, 9_000_000_000)),
                (outer, &of_version_1(10, 0, 0)),
            ],
        );
        let mut quota = root.quota(OWN).expect("two are set");
        root.write(&[
            (own, &of_version_1(14, 9, 9_000_000_000)),
            (outer, &of_version_1(15, 5, 500_000_000)),
        ]);
        assert_eq!(counters(&mut quota), counted(5, 5, 0.5));
        root.write(&[(own, &of_version_1(18, 11, 9_250_000_000))]);
        assert_eq!(counters(&mut quota), counted(9, 7, 0.75));
    }

    #[test]
    fn of_groups_of_version_2_within_each_other_it_is_the_same() {
        let [own, outer] = ["unified/box/vm/a1/cpu.stat", "unified/box/cpu.stat"];
        let root = Root::with(
            "nested-two",
            &[
                ("unified/box/vm/a1/cpu.max", "200000 100000\n"),
                ("unified/box/vm/cpu.max", "max 100000\n"),
                ("unified/box/cpu.max", "50000 100000\n"),
                (own, &of_version_2(0, 0, 0)),
                (outer, &of_version_2(0, 0, 0)),
            ],
        );
        let mut quota = root.quota(OWN).expect("two are set");
        root.write(&[(own, &of_version_2(4, 0, 0))]);
        // Without any throttling the nearest counts.
        assert_eq!(counters(&mut quota), counted(4, 0, 0.0));
        root.write(&[(outer, &of_version_2(5, 2, 50_000))]);
        assert_eq!(counters(&mut quota), counted(9, 2, 0.05));
    }

    #[test]
    fn what_mountinfo_writes_by_its_number_is_read_as_it_is() {
        let mount = r"41 31 0:38 /a\134x2db /my\040groups rw - cgroup2 cgroup2 rw";
        let tree = parse_mount(mount).expect("a hierarchy");
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
        assert!(root.quota(OWN).is_none());
    }
}
