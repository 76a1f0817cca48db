//! Throttling of this process by CPU quotas of control groups, from cpu.stat (Documentation/scheduler/sched-bwc.rst,
//! Documentation/admin-guide/cgroup-v2.rst).
//!
//! The process's group and each ancestor can have a quota. Each reading counts the group that throttled longest.

use std::path::{Path, PathBuf};

use crate::proc_file::ProcFile;
use crate::reading::{CounterSource, CounterValue, Reading};

/// Counts the throttling of this process.
pub struct CpuThrottlingReader {
    /// Groups with a quota, the nearest first.
    groups: Vec<ThrottledGroup>,
    /// Throttling since the groups were opened.
    sum: Throttling,
}

struct ThrottledGroup {
    file: ProcFile,
    last: Throttling,
}

/// Throttling by a quota, in total or between two readings.
#[derive(Debug, Clone, Copy, Default)]
struct Throttling {
    periods: u64,
    throttled_periods: u64,
    throttled_nanos: u64,
}

/// A mounted hierarchy of control groups.
#[derive(Debug, PartialEq)]
struct CpuCgroupMount {
    /// The group that is visible at the mount point.
    root: PathBuf,
    mount_point: PathBuf,
    version: CgroupVersion,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum CgroupVersion {
    One,
    Two,
}

impl CpuThrottlingReader {
    /// Opens the groups that have a quota. Returns `None` if no quota is set or visible.
    pub fn open() -> Option<Self> {
        let cgroup_file_text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        // `ip netns exec` hides the groups in /sys, so the parent's mounts are searched too.
        let parent = format!("/proc/{}", std::os::unix::process::parent_id());
        [Path::new("/proc/self"), Path::new(&parent)]
            .iter()
            .find_map(|process| {
                let mounts = std::fs::read(process.join("mountinfo")).ok()?;
                let mounts = String::from_utf8_lossy(&mounts);
                Self::open_at(&cgroup_file_text, &mounts, &process.join("root"))
            })
    }

    fn open_at(cgroup_file_text: &str, mountinfo_text: &str, root: &Path) -> Option<Self> {
        let mut trees = mountinfo_text.lines().filter_map(parse_cpu_cgroup_mount);
        let groups = trees.find_map(|tree| {
            let group = find_group_path(cgroup_file_text, tree.version)?;
            let inside = Path::new(group).strip_prefix(&tree.root).ok()?;
            let top = root.join(tree.mount_point.strip_prefix("/").ok()?);
            let folders = inside.ancestors().map(|group| top.join(group));
            let limited = folders.filter(|folder| has_cpu_quota(folder, tree.version));
            let groups: Vec<_> = limited
                .filter_map(|folder| ThrottledGroup::open(&folder))
                .collect();
            (!groups.is_empty()).then_some(groups)
        })?;
        Some(Self {
            groups,
            sum: Throttling::default(),
        })
    }
}

impl CounterSource for CpuThrottlingReader {
    fn read(&mut self, into: &mut Reading) {
        let readings = self.groups.iter_mut().map(ThrottledGroup::read_increase);
        // On a tie, the nearest group counts.
        let longest =
            readings.reduce(
                |nearer, outer| match outer.throttled_nanos > nearer.throttled_nanos {
                    true => outer,
                    false => nearer,
                },
            );
        let longest = longest.expect("the list of groups with a quota has an element");
        let sum = &mut self.sum;
        sum.periods += longest.periods;
        sum.throttled_periods += longest.throttled_periods;
        sum.throttled_nanos += longest.throttled_nanos;
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

impl ThrottledGroup {
    fn open(folder: &Path) -> Option<Self> {
        let mut file = ProcFile::open(folder.join("cpu.stat").to_str()?)?;
        let last = Throttling::parse_cpu_stat(file.read_text())?;
        Some(Self { file, last })
    }

    /// Returns the throttling since the previous call; zero if the group is gone.
    fn read_increase(&mut self) -> Throttling {
        let now = Throttling::parse_cpu_stat(self.file.read_text()).unwrap_or(self.last);
        let earlier = std::mem::replace(&mut self.last, now);
        Throttling {
            periods: now.periods.saturating_sub(earlier.periods),
            throttled_periods: now
                .throttled_periods
                .saturating_sub(earlier.throttled_periods),
            throttled_nanos: now.throttled_nanos.saturating_sub(earlier.throttled_nanos),
        }
    }
}

impl Throttling {
    /// Parses cpu.stat.
    fn parse_cpu_stat(text: &str) -> Option<Self> {
        // Version 1 reports nanoseconds, version 2 microseconds.
        let nanos = parse_named_number(text, "throttled_time");
        let throttled_nanos =
            nanos.or_else(|| Some(parse_named_number(text, "throttled_usec")? * 1000))?;
        Some(Self {
            periods: parse_named_number(text, "nr_periods")?,
            throttled_periods: parse_named_number(text, "nr_throttled")?,
            throttled_nanos,
        })
    }
}

fn parse_named_number(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, number) = lines.find(|(name, _)| *name == key)?;
    number.trim().parse().ok()
}

/// Parses a line of mountinfo (proc(5)). Returns `None` unless it is a hierarchy with the cpu controller.
fn parse_cpu_cgroup_mount(mount: &str) -> Option<CpuCgroupMount> {
    let (fields_before, kind) = mount.split_once(" - ")?;
    let mut fields_before = fields_before.split(' ').skip(3);
    let (root, mount) = (
        unescape_path(fields_before.next()?),
        unescape_path(fields_before.next()?),
    );
    let mut kind = kind.split(' ');
    let version = match kind.next()? {
        "cgroup2" => CgroupVersion::Two,
        "cgroup" if kind.nth(1)?.split(',').any(|option| option == "cpu") => CgroupVersion::One,
        _ => return None,
    };
    Some(CpuCgroupMount {
        root,
        mount_point: mount,
        version,
    })
}

/// Replaces the octal escapes of mountinfo: white space and backslashes (systemd's groups have some:
/// `/system-a\x2db.slice`).
fn unescape_path(path: &str) -> PathBuf {
    let escapes = [
        (r"\040", " "),
        (r"\011", "\t"),
        (r"\012", "\n"),
        (r"\134", r"\"),
    ];
    let path = escapes
        .iter()
        .fold(path.to_owned(), |path, (escape, character)| {
            path.replace(escape, character)
        });
    path.into()
}

/// Returns the process's group from /proc/self/cgroup: `4:cpu,cpuacct:/group`, or `0::/group` in version 2.
fn find_group_path(cgroup_text: &str, version: CgroupVersion) -> Option<&str> {
    let mut lines = cgroup_text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    let (_, group) = lines.find(|(controllers, _)| match version {
        CgroupVersion::One => controllers.split(',').any(|name| name == "cpu"),
        CgroupVersion::Two => controllers.is_empty(),
    })?;
    Some(group)
}

fn has_cpu_quota(folder: &Path, version: CgroupVersion) -> bool {
    let (file, unlimited) = match version {
        CgroupVersion::One => ("cpu.cfs_quota_us", "-1"),
        CgroupVersion::Two => ("cpu.max", "max"),
    };
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.split_ascii_whitespace()
        .next()
        .is_some_and(|quota| quota != unlimited)
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

    /// A temporary folder with the files of control groups.
    struct TestRoot(PathBuf);

    impl TestRoot {
        fn with(name: &str, files: &[(&str, &str)]) -> Self {
            let name = format!("vnetbench-cgroup-{name}-{}", std::process::id());
            let root = Self(std::env::temp_dir().join(name));
            root.write(files);
            root
        }

        fn write(&self, files: &[(&str, &str)]) {
            for (path, text) in files {
                let path = self.0.join("groups").join(path);
                fs::create_dir_all(path.parent().expect("a folder"))
                    .expect("a folder can be created");
                fs::write(path, text).expect("a file");
            }
        }

        fn quota(&self, groups: &str) -> Option<CpuThrottlingReader> {
            CpuThrottlingReader::open_at(groups, MOUNTS, &self.0)
        }
    }

    impl Drop for TestRoot {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("the test can remove its files");
        }
    }

    fn counters(quota: &mut CpuThrottlingReader) -> String {
        let mut reading = Reading::default();
        quota.read(&mut reading);
        serde_json::to_string(&reading.counters).expect("serializes")
    }

    fn expected_counters(periods: u64, throttled: u64, throttled_s: f64) -> String {
        format!(
            r#"{{"cgroup_periods":{periods},"cgroup_throttled_periods":{throttled},"cgroup_throttled_s":{throttled_s:?}}}"#
        )
    }

    fn version_1_stat(periods: u64, throttled: u64, nanos: u64) -> String {
        format!(
            "nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time {nanos}\nnr_bursts 0\n"
        )
    }

    fn version_2_stat(periods: u64, throttled: u64, us: u64) -> String {
        format!(
            "usage_usec 9\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {us}\n"
        )
    }

    const PROCESS_GROUPS: &str = "9:name=systemd:/\n3:cpu,cpuacct:/box/vm/a1\n0::/box/vm/a1\n";

    #[test]
    fn a_version_1_quota_counts_nanoseconds_since_it_was_opened() {
        let root = TestRoot::with(
            "one",
            &[
                ("cpu/vm/a1/cpu.cfs_quota_us", "-1\n"),
                ("cpu/vm/a1/cpu.stat", &version_1_stat(0, 0, 0)),
                ("cpu/vm/cpu.cfs_quota_us", "50000\n"),
                ("cpu/vm/cpu.stat", &version_1_stat(100, 7, 1_000_000_000)),
            ],
        );
        let mut quota = root.quota(PROCESS_GROUPS).expect("one is set");
        root.write(&[("cpu/vm/cpu.stat", &version_1_stat(140, 37, 2_500_000_000))]);
        assert_eq!(counters(&mut quota), expected_counters(40, 30, 1.5));
        // A group outside the mounted part of the hierarchy is not visible.
        assert!(root.quota("3:cpu,cpuacct:/other/vm\n").is_none());
    }

    #[test]
    fn a_version_2_quota_counts_microseconds() {
        let stat = "unified/box/vm/a1/cpu.stat";
        let root = TestRoot::with(
            "two",
            &[
                ("cpu/vm/a1/cpu.cfs_quota_us", "-1\n"),
                ("unified/box/vm/a1/cpu.max", "50000 100000\n"),
                (stat, &version_2_stat(0, 0, 0)),
            ],
        );
        let mut quota = root.quota(PROCESS_GROUPS).expect("one is set");
        root.write(&[(stat, &version_2_stat(4, 3, 250_000))]);
        assert_eq!(counters(&mut quota), expected_counters(4, 3, 0.25));
    }

    #[test]
    fn each_reading_counts_the_nested_group_that_throttled_longest() {
        let [own, outer] = ["cpu/vm/a1/cpu.stat", "cpu/vm/cpu.stat"];
        let root = TestRoot::with(
            "nested-one",
            &[
                ("cpu/vm/a1/cpu.cfs_quota_us", "200000\n"),
                ("cpu/vm/cpu.cfs_quota_us", "50000\n"),
                (own, &version_1_stat(10, 9, 9_000_000_000)),
                (outer, &version_1_stat(10, 0, 0)),
            ],
        );
        let mut quota = root.quota(PROCESS_GROUPS).expect("two are set");
        root.write(&[
            (own, &version_1_stat(14, 9, 9_000_000_000)),
            (outer, &version_1_stat(15, 5, 500_000_000)),
        ]);
        assert_eq!(counters(&mut quota), expected_counters(5, 5, 0.5));
        root.write(&[(own, &version_1_stat(18, 11, 9_250_000_000))]);
        assert_eq!(counters(&mut quota), expected_counters(9, 7, 0.75));
    }

    #[test]
    fn each_reading_counts_the_nested_version_2_group_that_throttled_longest() {
        let [own, outer] = ["unified/box/vm/a1/cpu.stat", "unified/box/cpu.stat"];
        let root = TestRoot::with(
            "nested-two",
            &[
                ("unified/box/vm/a1/cpu.max", "200000 100000\n"),
                ("unified/box/vm/cpu.max", "max 100000\n"),
                ("unified/box/cpu.max", "50000 100000\n"),
                (own, &version_2_stat(0, 0, 0)),
                (outer, &version_2_stat(0, 0, 0)),
            ],
        );
        let mut quota = root.quota(PROCESS_GROUPS).expect("two are set");
        root.write(&[(own, &version_2_stat(4, 0, 0))]);
        // Without throttling, the nearest group counts.
        assert_eq!(counters(&mut quota), expected_counters(4, 0, 0.0));
        root.write(&[(outer, &version_2_stat(5, 2, 50_000))]);
        assert_eq!(counters(&mut quota), expected_counters(9, 2, 0.05));
    }

    #[test]
    fn octal_escapes_of_mountinfo_are_replaced() {
        let mount = r"41 31 0:38 /a\134x2db /my\040groups rw - cgroup2 cgroup2 rw";
        let tree = parse_cpu_cgroup_mount(mount).expect("a hierarchy");
        assert_eq!(
            (tree.root, tree.mount_point),
            (r"/a\x2db".into(), "/my groups".into())
        );
    }

    #[test]
    fn without_a_quota_there_are_no_counters() {
        let root = TestRoot::with(
            "none",
            &[
                ("cpu/vm/a1/cpu.cfs_quota_us", "-1\n"),
                ("cpu/vm/a1/cpu.stat", "nr_periods 0\n"),
                ("unified/box/vm/a1/cpu.max", "max 100000\n"),
                ("unified/box/vm/a1/cpu.stat", "nr_periods 0\n"),
            ],
        );
        assert!(root.quota(PROCESS_GROUPS).is_none());
    }
}
