//! Public NBD clients, if they are installed: nbdinfo, nbdcopy, qemu-img, qemu-io, fio.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use sublet_frontends::block_device::DiskShape;

use crate::fake_disk::{AnswerMode, FakeDisk};
use crate::node::Node;

const BYTES: u64 = 64 << 20;

/// The program, if this machine has it.
pub(crate) fn installed(program: &'static str) -> Option<&'static str> {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        eprintln!("{program} is missing: skipped");
    }
    there.then_some(program)
}

fn node() -> Node {
    let fixed = DiskShape {
        bytes: BYTES,
        read_only: true,
        trims: false,
    };
    Node::start(vec![
        FakeDisk::new("prompt", BYTES, AnswerMode::Prompt),
        FakeDisk::new("late", BYTES, AnswerMode::Late),
        FakeDisk::shaped("fixed", fixed, AnswerMode::Prompt, None),
    ])
}

pub(crate) fn uri(node: &Node, disk: &str) -> String {
    format!("nbd+unix:///{disk}?socket={}", node.path("nbd").display())
}

/// The output of a program that must succeed.
pub(crate) fn output_of(program: &str, arguments: &[&str]) -> String {
    let run = Command::new(program).args(arguments).output();
    let Output {
        status,
        stdout,
        stderr,
    } = run.expect("it runs");
    let (stdout, stderr) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr),
    );
    assert!(
        status.success(),
        "{program} {arguments:?}: {status}\n{stdout}{stderr}"
    );
    stdout.into_owned()
}

/// A file of half the disk: bytes, a hole, bytes.
pub(crate) fn image(path: &Path) {
    let mut bytes: Vec<u8> = (0..BYTES / 8).map(|n| ((n * n) >> 7) as u8).collect();
    bytes.resize(BYTES as usize * 3 / 8, 0);
    bytes.extend_from_within(..BYTES as usize / 8);
    fs::write(path, &bytes).expect("written");
    let file = fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("there");
    file.set_len(BYTES).expect("it grows");
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn nbdinfo_sees_what_is_there() {
    let Some(nbdinfo) = installed("nbdinfo") else {
        return;
    };
    let node = node();
    let listed = output_of(nbdinfo, &["--list", &uri(&node, "")]);
    for disk in ["prompt", "late", "fixed"] {
        assert!(listed.contains(&format!("export=\"{disk}\"")), "{listed}");
    }
    let fixed = output_of(nbdinfo, &[&uri(&node, "fixed")]);
    for fact in [
        "is_read_only: true",
        "is_rotational: false",
        "can_multi_conn: true",
        "can_trim: false",
    ] {
        assert!(fixed.contains(fact), "{fixed}");
    }
    let map = output_of(nbdinfo, &["--map", &uri(&node, "prompt")]);
    assert!(map.contains("hole,zero"), "{map}");
}

#[test]
fn nbdcopy_copies_both_ways_and_qemu_agrees() {
    let (Some(nbdcopy), Some(qemu_img)) = (installed("nbdcopy"), installed("qemu-img")) else {
        return;
    };
    let node = node();
    let (there, back) = (node.path("there"), node.path("back"));
    image(&there);
    for disk in ["prompt", "late"] {
        let uri = uri(&node, disk);
        output_of(nbdcopy, &[text(&there), &uri]);
        output_of(nbdcopy, &[&uri, text(&back)]);
        assert!(fs::read(&there).expect("there") == fs::read(&back).expect("there"));
        let compared = output_of(
            qemu_img,
            &["compare", "-f", "raw", "-F", "raw", text(&there), &uri],
        );
        assert!(compared.contains("identical"), "{compared}");
        let map = output_of("nbdinfo", &["--map", "--totals", &uri]);
        assert!(map.contains("hole"), "{map}");
    }
}

#[test]
fn qemu_io_writes_zeroes_discards_and_reads_back() {
    let Some(qemu_io) = installed("qemu-io") else {
        return;
    };
    let node = node();
    let commands = [
        "write -P 0xab 1M 3M",
        "read -P 0xab 1M 3M",
        "write -z 2M 1M",
        "read -P 0 2M 1M",
        "write -z -u 1M 64k",
        "read -P 0 1M 64k",
        "discard 4M 4M",
        "flush",
        "write -f -P 7 513k 3k",
        "read -P 7 513k 3k",
        "aio_write -P 9 8M 2M",
        "aio_write -P 9 10M 2M",
        "aio_flush",
        "read -P 9 8M 4M",
    ];
    for disk in ["prompt", "late"] {
        let mut arguments = vec!["-f", "raw"];
        commands
            .iter()
            .for_each(|command| arguments.extend(["-c", *command]));
        let uri = uri(&node, disk);
        arguments.push(&uri);
        let output = output_of(qemu_io, &arguments);
        assert!(!output.contains("failed"), "{output}");
    }
    let fixed = uri(&node, "fixed");
    let refused = Command::new(qemu_io)
        .args(["-f", "raw", "-c", "write 0 4k", &fixed])
        .output();
    assert!(!refused.expect("it runs").status.success());
}

#[test]
fn fio_verifies_what_it_wrote() {
    let Some(fio) = installed("fio") else {
        return;
    };
    if !output_of(fio, &["--enghelp"]).contains("nbd") {
        eprintln!("fio has no nbd engine: skipped");
        return;
    }
    let node = node();
    for disk in ["prompt", "late"] {
        let uri = format!("--uri={}", uri(&node, disk));
        let job = [
            "--name=v",
            "--ioengine=nbd",
            "--rw=randrw",
            "--bsrange=512-128k",
            "--iodepth=32",
        ];
        let check = [
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
            "--verify_backlog=512",
            "--size=48M",
        ];
        let output = output_of(fio, &[&job[..], &check, &[&uri]].concat());
        assert!(output.contains("err= 0"), "{output}");
    }
}
