//! The programs that run virtual machines here. The doctor checks whether their disks wait for a daemon that restarts.

use std::fmt;
use std::process::Command;

use super::finding::Finding;

/// Programs of libvirt on the host. One of them tells its version.
const LIBVIRT: [&str; 4] = [
    "/usr/sbin/libvirtd",
    "/usr/sbin/virtqemud",
    "libvirtd",
    "virtqemud",
];
/// The paths of QEMU in distributions.
const QEMU: [&str; 4] = [
    "qemu-system-x86_64",
    "qemu-system-aarch64",
    "/usr/libexec/qemu-kvm",
    "qemu-kvm",
];

/// The first libvirt that keeps `<reconnect delay>` of an NBD disk.
const LIBVIRT_MIN: ProgramVersion = ProgramVersion(9, 1);
/// The first QEMU whose NBD client reconnects.
const QEMU_MIN: ProgramVersion = ProgramVersion(4, 2);

/// A program's version: its first two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProgramVersion(pub(super) u32, pub(super) u32);

impl fmt::Display for ProgramVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The programs that run virtual machines here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GuestPrograms {
    pub(super) libvirt: Option<ProgramVersion>,
    pub(super) qemu: Option<ProgramVersion>,
}

impl GuestPrograms {
    pub(super) fn here() -> GuestPrograms {
        GuestPrograms {
            libvirt: LIBVIRT.into_iter().find_map(installed),
            qemu: QEMU.into_iter().find_map(installed),
        }
    }
}

pub(super) fn libvirt(guests: &GuestPrograms) -> Finding {
    let why =
        "it drops <reconnect delay> of NBD disks: when Sublet restarts, guests see I/O errors";
    let remedy = "sublet disk show NAME   # and paste the lines for libvirt of any version";
    match guests.libvirt {
        None => Finding::ok("libvirt", "none"),
        Some(old) if old < LIBVIRT_MIN => Finding::ok("libvirt", old.to_string()).warn(why, remedy),
        Some(version) => Finding::ok("libvirt", version.to_string()),
    }
}

pub(super) fn qemu(guests: &GuestPrograms) -> Finding {
    let why = "it does not know reconnect-delay: when Sublet restarts, guests see I/O errors";
    let remedy = "apt-get install qemu-system   # 4.2 or later, or serve the disk by vhost-user";
    match guests.qemu {
        None => Finding::ok("QEMU", "none"),
        Some(old) if old < QEMU_MIN => Finding::ok("QEMU", old.to_string()).warn(why, remedy),
        Some(version) => Finding::ok("QEMU", version.to_string()),
    }
}

fn installed(program: &str) -> Option<ProgramVersion> {
    let output = Command::new(program).arg("--version").output().ok()?;
    version_in(&String::from_utf8_lossy(&output.stdout))
}

/// The first word that consists of numbers with points between them.
fn version_in(text: &str) -> Option<ProgramVersion> {
    text.split_whitespace().find_map(|word| {
        let mut numbers = word.split('.').map(|number| number.parse().ok());
        Some(ProgramVersion(numbers.next()??, numbers.next()??))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_the_programs_say_them() {
        let text = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright (c) 2003-2022\n";
        assert_eq!(version_in(text), Some(ProgramVersion(7, 2)));
        assert_eq!(
            version_in("libvirtd (libvirt) 9.0.0\n"),
            Some(ProgramVersion(9, 0))
        );
        assert_eq!(
            version_in("QEMU emulator version 10.0.2"),
            Some(ProgramVersion(10, 0))
        );
        assert_eq!(version_in("no such program"), None);
    }

    #[test]
    fn whose_disks_do_not_wait_is_told() {
        let checked = |libvirt, qemu| {
            let guests = GuestPrograms {
                libvirt: Some(libvirt),
                qemu: Some(qemu),
            };
            let lines = [super::libvirt(&guests), super::qemu(&guests)];
            lines.map(|finding| finding.why.is_empty())
        };
        assert_eq!(
            checked(ProgramVersion(9, 0), ProgramVersion(7, 2)),
            [false, true]
        );
        assert_eq!(
            checked(ProgramVersion(9, 1), ProgramVersion(4, 1)),
            [true, false]
        );
        assert_eq!(
            checked(ProgramVersion(10, 0), ProgramVersion(10, 0)),
            [true, true]
        );
    }
}
