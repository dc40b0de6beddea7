//! What a load needs of this machine.

use std::path::{Path, PathBuf};

use sublet_types::Bytes;

use super::super::super::cgroup::BenchCgroup;

/// A program, and Debian's package of it.
pub(super) type PackagedProgram = (&'static str, &'static str);

/// Kernel devices that a file system on a disk needs.
const DEVICES: [&str; 2] = ["/dev/fuse", "/dev/loop-control"];

/// The apt command that installs what is missing of `programs`, if any is not on the PATH.
pub(super) fn packages(programs: &[PackagedProgram]) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let is_there = |program: &str| folders.iter().any(|at| at.join(program).is_file());
    packages_of(programs, is_there)
}

fn packages_of(programs: &[PackagedProgram], is_there: impl Fn(&str) -> bool) -> Option<String> {
    let absent = programs.iter().filter(|(program, _)| !is_there(program));
    let mut packages: Vec<&str> = absent.map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    (!packages.is_empty()).then(|| format!("apt-get install {}", packages.join(" ")))
}

/// What prevents this process from mounting a disk and from limiting its users.
pub(super) fn rights() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root may mount a disk".to_owned());
    }
    if let Some(device) = DEVICES.iter().find(|device| !Path::new(device).exists()) {
        return Some(format!("this kernel has no {device}"));
    }
    let group = BenchCgroup::make("tried", Bytes::mib(64));
    let refused = group.err()?;
    Some(format!("no cgroup with a limit can be made: {refused}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_once_and_only_where_a_program_is_missing() {
        let programs = [
            ("losetup", "mount"),
            ("nbdfuse", "libnbd-bin"),
            ("umount", "mount"),
        ];
        let with = |there: &[&str]| packages_of(&programs, |program| there.contains(&program));
        assert_eq!(with(&["losetup", "nbdfuse", "umount"]), None);
        assert_eq!(with(&["nbdfuse"]), Some("apt-get install mount".to_owned()));
        let all = "apt-get install libnbd-bin mount".to_owned();
        assert_eq!(with(&[]), Some(all));
    }
}
