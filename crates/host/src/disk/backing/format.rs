//! Images that are not raw disks. If the daemon served one as it is, a guest would take the image's tables for its own.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The offset of a format's mark, the mark, and the format's name.
const MARKS: &[(u64, &[u8], &str)] = &[
    (0, b"QFI\xfb", "qcow2"),
    (0, b"QED\0", "QED"),
    (0, b"KDMV", "VMDK"),
    (0, b"COWD", "VMDK"),
    (0, b"# Disk DescriptorFile", "VMDK"),
    (0, b"conectix", "VHD"),
    (0, b"vhdxfile", "VHDX"),
    (0x40, b"\x7f\x10\xda\xbe", "VDI"),
    (0, b"WithoutFreeSpace", "Parallels"),
    (0, b"WithouFreSpacExt", "Parallels"),
    (0, b"Bochs Virtual HD Image", "Bochs"),
];

/// The format of an image, if it is a known one.
pub(super) fn recognised(file: &File) -> io::Result<Option<&'static str>> {
    let mut head = [0; 128];
    let mut filled = 0;
    while filled < head.len() {
        match file.read_at(&mut head[filled..], filled as u64)? {
            0 => break,
            bytes => filled += bytes,
        }
    }
    let is_it = |(at, mark, _): &&(u64, &[u8], &str)| {
        let at = *at as usize;
        head[..filled].get(at..at + mark.len()) == Some(*mark)
    };
    Ok(MARKS.iter().find(is_it).map(|(_, _, format)| *format))
}
