//! The CPUs that the process's cgroups grant it: `cpu.max` of version 2, `cpu.cfs_quota_us` of version 1.
//!
//! ```text
//!   /proc/self/cgroup           which group the process is in       0::/shop/web   or   4:cpu,cpuacct:/web
//!   /proc/self/mountinfo        where the groups are mounted, and which part of them
//!   …/shop/web/cpu.max          quota and period in µs              150000 100000  or   max 100000
//!   …/shop/cpu.max              the same of the group around it     the smallest quota counts
//! ```
//!
//! A fraction of a CPU is rounded down, but to one at least, as the standard library does. With one worker
//! more, the system would stop all threads for a part of each period.
//!
//! Nothing here fails: a file that is missing, or makes no sense, sets no limit.
//!
//! # Invariants
//!
//! - A quota is at least one CPU.
//! - A controller that is in a hierarchy of version 1 is not in version 2: if both kinds are there, the
//!   group of version 1 that names `cpu` decides.

use std::path::{Component, Path, PathBuf};

/// Returns how many whole CPUs the cgroups of this process grant; `None` if they set no limit. `root` is the
/// folder in which `proc` and `sys` are: `/`, except in tests.
#[must_use]
pub fn quota(root: &Path) -> Option<usize> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let groups = read("proc/self/cgroup")?;
    let mounts = read("proc/self/mountinfo").unwrap_or_default();
    let (version, group) = group_of(&groups)?;
    let mount = Hierarchy::of(version, &mounts).unwrap_or_else(|| Hierarchy::usual(version));
    let mut folder = mount.folder(root, group);
    let top = root.join(relative(&mount.at));
    let mut least: Option<usize> = None;
    // The group itself, then those around it.
    while folder.starts_with(&top) {
        least = version.quota(&folder).into_iter().chain(least).min();
        if !folder.pop() {
            break;
        }
    }
    least
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Finds the group of the process that limits its CPUs in the lines of `/proc/self/cgroup`.
fn group_of(lines: &str) -> Option<(Version, &str)> {
    let mut two = None;
    for line in lines.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
            continue;
        };
        if controllers.split(',').any(|controller| controller == "cpu") {
            return Some((Version::One, group));
        }
        if controllers.is_empty() {
            two = Some((Version::Two, group));
        }
    }
    two
}

impl Version {
    /// The quota of one group, without those around it.
    fn quota(self, folder: &Path) -> Option<usize> {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        let (quota, period) = match self {
            Self::Two => {
                let text = read("cpu.max")?;
                let mut words = text.split_ascii_whitespace();
                // `max`, or -1 in version 1, is no number: no limit.
                (words.next()?.parse::<u64>().ok()?, words.next()?.parse().ok()?)
            }
            Self::One => {
                let number = |name| read(name)?.trim().parse::<u64>().ok();
                (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
            }
        };
        let cpus = quota.checked_div(period)?;
        Some(usize::try_from(cpus).unwrap_or(usize::MAX).max(1))
    }
}

/// A place where groups are mounted.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    /// The folder.
    at: PathBuf,
    /// The group that is seen there, which has the others in it.
    of: PathBuf,
}

impl Hierarchy {
    /// Where systems mount it if `mountinfo` cannot be read.
    fn usual(version: Version) -> Self {
        let at = match version {
            Version::One => "/sys/fs/cgroup/cpu",
            Version::Two => "/sys/fs/cgroup",
        };
        let (at, of) = (at.into(), "/".into());
        Self { at, of }
    }

    /// Finds it in the lines of `/proc/self/mountinfo`: `36 35 98:0 /of /at options tags - type source
    /// options`.
    fn of(version: Version, lines: &str) -> Option<Self> {
        lines.lines().find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut after = after.split(' ');
            let (kind, options) = (after.next()?, after.nth(1).unwrap_or_default());
            let is_it = match version {
                Version::One => kind == "cgroup" && options.split(',').any(|option| option == "cpu"),
                Version::Two => kind == "cgroup2",
            };
            if !is_it {
                return None;
            }
            let mut before = before.split(' ').skip(3);
            let (of, at) = (unescaped(before.next()?), unescaped(before.next()?));
            Some(Self { at, of })
        })
    }

    /// Returns the folder of a group. One that is not seen here is taken as the whole of what is: in a
    /// container, the path may be that of the host.
    fn folder(&self, root: &Path, group: &str) -> PathBuf {
        let group = Path::new(group);
        let inside = group.strip_prefix(&self.of).unwrap_or(Path::new(""));
        let top = root.join(relative(&self.at));
        // `/../web` is a group outside of what this process sees.
        if inside.components().any(|part| part == Component::ParentDir) {
            return top;
        }
        top.join(inside)
    }
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Spaces and the like are octal in `mountinfo`.
fn unescaped(field: &str) -> PathBuf {
    let text = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    let plain = |field: String, (octal, plain): (&str, &str)| field.replace(octal, plain);
    text.into_iter().fold(field.to_owned(), plain).into()
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::quota;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::{env, fs, process};

    /// A folder with files in the place of `/`.
    struct Root(PathBuf);

    impl Root {
        fn new(files: &[(&str, &str)]) -> Self {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            let root = Self(env::temp_dir().join(format!("warpweft-cgroup-{}-{next}", process::id())));
            files.iter().for_each(|(path, text)| root.write(path, text));
            root
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().expect("in the root")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            // Without files it was never made.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const TWO: (&str, &str) = (
        "proc/self/mountinfo",
        "24 1 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
         30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
    );
    const ONE: (&str, &str) = (
        "proc/self/mountinfo",
        "31 24 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
         32 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n",
    );

    /// A process in the group `/shop/web` of version 2.
    fn of_two(files: &[(&str, &str)]) -> Option<usize> {
        let root = Root::new(&[("proc/self/cgroup", "0::/shop/web\n"), TWO]);
        files.iter().for_each(|(path, text)| root.write(path, text));
        quota(&root.0)
    }

    #[test]
    fn the_smallest_quota_on_the_way_to_the_root_counts() {
        let (web, shop) = ("sys/fs/cgroup/shop/web/cpu.max", "sys/fs/cgroup/shop/cpu.max");
        assert_eq!(of_two(&[(web, "400000 100000\n")]), Some(4));
        assert_eq!(
            of_two(&[(web, "400000 100000\n"), (shop, "200000 100000\n")]),
            Some(2)
        );
        assert_eq!(
            of_two(&[(web, "100000 100000\n"), (shop, "200000 100000\n")]),
            Some(1)
        );
        assert_eq!(
            of_two(&[(web, "max 100000\n"), (shop, "300000 100000\n")]),
            Some(3)
        );
        assert_eq!(of_two(&[(web, "max 100000\n"), (shop, "max 100000\n")]), None);
        let (root, other) = ("sys/fs/cgroup/cpu.max", "sys/fs/cgroup/bank/cpu.max");
        assert_eq!(
            of_two(&[(web, "max 100000\n"), (root, "500000 100000\n")]),
            Some(5)
        );
        assert_eq!(of_two(&[(other, "100000 100000\n")]), None, "a group beside it");
        // Not every group has the controller.
        assert_eq!(of_two(&[(shop, "200000 100000\n")]), Some(2));
    }

    #[test]
    fn fractions_are_rounded_down_but_to_one_at_least() {
        let of = |text| of_two(&[("sys/fs/cgroup/shop/web/cpu.max", text)]);
        assert_eq!(of("150000 100000\n"), Some(1));
        assert_eq!(of("299999 100000\n"), Some(2));
        assert_eq!(of("1000 100000\n"), Some(1));
        assert_eq!(of("50000 20000\n"), Some(2));
        assert_eq!(of("18446744073709551615 1\n"), Some(usize::MAX));
    }

    #[test]
    fn what_makes_no_sense_sets_no_limit() {
        let of = |text| of_two(&[("sys/fs/cgroup/shop/web/cpu.max", text)]);
        for text in [
            "",
            "\n",
            "200000",
            "a b",
            "-1 100000",
            "200000 0",
            "200000 ten",
            "1e5 100000",
            "\u{0}",
        ] {
            assert_eq!(of(text), None, "{text:?}");
        }
        assert_eq!(quota(Path::new("/no/such/folder")), None);
        for groups in ["", "0:\n", "nonsense", "0::\n", "3:memory:/web\n"] {
            let limit = ("sys/fs/cgroup/web/cpu.max", "100000 100000\n");
            let root = Root::new(&[("proc/self/cgroup", groups), TWO, limit]);
            assert_eq!(quota(&root.0), None, "{groups:?}");
        }
    }

    #[test]
    fn version_one_has_two_files_and_its_own_mount() {
        let of = |quota_us, period_us| {
            let folder = "sys/fs/cgroup/cpu,cpuacct/web";
            let root = Root::new(&[("proc/self/cgroup", "5:cpuset:/\n4:cpu,cpuacct:/web\n"), ONE]);
            root.write(&format!("{folder}/cpu.cfs_quota_us"), quota_us);
            root.write(&format!("{folder}/cpu.cfs_period_us"), period_us);
            root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
            root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
            quota(&root.0)
        };
        assert_eq!(of("200000\n", "100000\n"), Some(2));
        assert_eq!(of("25000\n", "100000\n"), Some(1));
        assert_eq!(of("-1\n", "100000\n"), None);
        assert_eq!(of("many\n", "100000\n"), None);
    }

    /// Where both versions are mounted, `cpu` belongs to one of them.
    #[test]
    fn in_a_hybrid_version_one_decides_if_it_has_the_controller() {
        let one = "sys/fs/cgroup/cpu,cpuacct/web";
        let both = format!(
            "{}30 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            ONE.1
        );
        let files: &[(&str, &str)] = &[
            (ONE.0, &both),
            (&format!("{one}/cpu.cfs_quota_us"), "300000\n"),
            (&format!("{one}/cpu.cfs_period_us"), "100000\n"),
            ("sys/fs/cgroup/unified/web/cpu.max", "100000 100000\n"),
        ];
        for (groups, cpus) in [
            ("0::/web\n4:cpu,cpuacct:/web\n", 3),
            ("4:cpu,cpuacct:/web\n0::/web\n", 3),
            ("4:cpuset:/web\n0::/web\n", 1),
        ] {
            let root = Root::new(files);
            root.write("proc/self/cgroup", groups);
            assert_eq!(quota(&root.0), Some(cpus), "{groups:?}");
        }
    }

    /// A container whose path is that of the host, and one that is mounted elsewhere.
    #[test]
    fn a_group_is_found_where_it_is_mounted() {
        let limit = ("groups of all/cpu.max", "200000 100000\n");
        for (of, group) in [
            ("/", "/"),
            ("/host/box", "/host/box"),
            ("/", "/../box"),
            ("/a", "/b"),
        ] {
            let mounts = format!("30 24 0:26 {of} /groups\\040of\\040all rw - cgroup2 cgroup2 rw\n");
            let groups = format!("0::{group}\n");
            let root = Root::new(&[
                ("proc/self/cgroup", &groups),
                ("proc/self/mountinfo", &mounts),
                limit,
            ]);
            assert_eq!(quota(&root.0), Some(2), "{of} {group}");
        }
        // What cannot be found out is where it usually is.
        let usual = ("sys/fs/cgroup/web/cpu.max", "300000 100000\n");
        let root = Root::new(&[("proc/self/cgroup", "0::/web\n"), usual]);
        assert_eq!(quota(&root.0), Some(3));
    }

    /// The standard library reads the same files.
    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_as_many_as_the_standard_library_says() {
        let allowed = crate::affinity::allowed().map_or(usize::MAX, |allowed| allowed.len());
        let cpus = allowed.min(quota(Path::new("/")).unwrap_or(usize::MAX));
        assert_eq!(cpus, std::thread::available_parallelism().map_or(1, usize::from));
    }
}
