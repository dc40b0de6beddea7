//! The libvirt of this host reads what `sublet disk show` prints for it. Nothing is dropped, and QEMU gets everything.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::daemon::{Folder, text};

/// libvirt's QEMU driver needs a separate account if root runs it.
const NOBODY: u32 = 65_534;

/// The exit code of a script that lacks a program.
const COMMAND_NOT_FOUND: i32 = 127;

const CONFIG: &str = "\
[tenants.web]
listen = [\"unix:FOLDER/web.sock\"]
[disks.db]
tenant = \"web\"
backing = \"FOLDER/db.img\"
listen = [\"unix:FOLDER/db.sock\", \"vhost-user:FOLDER/db.vhost\"]
mode = \"0666\"
[disks.swap]
kind = \"swap\"
size = \"1MiB\"
tenant = \"web\"
listen = [\"unix:FOLDER/swap.sock\"]
mode = \"0666\"
";

/// The lines of a recipe: those that are indented under its heading.
fn recipe(page: &str, heading: &str) -> String {
    let start = page
        .find(heading)
        .unwrap_or_else(|| panic!("{heading} in {page}"));
    let below = page[start..].lines().skip(1);
    let below = below.skip_while(|line| line.trim().is_empty());
    below
        .take_while(|line| !line.trim().is_empty())
        .map(|line| format!("{line}\n"))
        .collect()
}

/// A guest with these devices and QEMU arguments.
fn guest(first: &str, memory: &str, devices: &str, arguments: &str) -> String {
    format!(
        "{}<name>guest</name><memory unit='MiB'>64</memory>{memory}\
         <os><type arch='x86_64'>hvm</type></os><devices>{devices}</devices>{arguments}</domain>",
        first.replace("type='kvm'", "type='qemu'")
    )
}

/// One attribute at a time: `element attribute='value'`.
fn attributes(xml: &str) -> Vec<String> {
    let elements = xml.split('<').filter(|element| !element.starts_with('/'));
    let mut all = Vec::new();
    for element in elements {
        let inside = element
            .split('>')
            .next()
            .unwrap_or_default()
            .trim_end_matches('/');
        let Some((name, mut rest)) = inside.split_once(' ') else {
            continue;
        };
        while let Some((attribute, after)) = rest.split_once("='") {
            let (value, after) = after.split_once('\'').expect("an end");
            // libvirt has its own way to write quotes.
            let value = value.replace("&quot;", "\"");
            all.push(format!("{name} {}='{value}'", attribute.trim()));
            rest = after;
        }
    }
    all
}

fn virsh(root: &Path, commands: &str) -> Option<Output> {
    let mut command = Command::new("virsh");
    let driver = format!("qemu:///embed?root={}", root.display());
    command
        .args(["-q", "-c", &driver, commands])
        .env("HOME", root)
        .env("XDG_RUNTIME_DIR", root);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().ok()
}

/// Asserts that every command succeeded, because virsh's exit code tells of the last one only.
#[track_caller]
fn all_done(output: &Output) {
    assert!(!text(&output.stderr).contains("error:"), "{output:?}");
}

/// A folder for libvirt, if it is installed with its QEMU driver.
fn root(folder: &Folder) -> Option<std::path::PathBuf> {
    let root = folder.path("libvirt");
    fs::create_dir_all(root.join("etc")).expect("made");
    // The guest's output goes to a file at once, not through a daemon of libvirt that may not be installed.
    fs::write(root.join("etc/qemu.conf"), "stdio_handler = \"file\"\n").expect("written");
    for open in [folder.path(""), root.clone(), root.join("etc")] {
        fs::set_permissions(open, Permissions::from_mode(0o777)).expect("set");
    }
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output();
    let listed = virsh(&root, "list").is_some_and(|output| output.status.success());
    let there = listed && qemu.is_ok();
    if !there {
        eprintln!("QEMU, libvirt's client or its QEMU driver is missing: skipped");
    }
    there.then_some(root)
}

/// Makes libvirt start a guest that it knows. QEMU must find room for each device, and reach the disks' daemon.
fn starts(root: &Path, name: &str) {
    let file = root.join(format!("{name}.xml"));
    let commands = format!(
        "define {}; start guest; destroy guest; undefine guest",
        file.display()
    );
    all_done(&virsh(root, &commands).expect("it runs"));
}

/// Makes libvirt define a guest. Returns what it kept of it, and the command line that it would run.
fn taken(root: &Path, name: &str, guest: &str) -> (String, String) {
    let file = root.join(format!("{name}.xml"));
    fs::write(&file, guest).expect("written");
    let validated = Command::new("virt-xml-validate")
        .arg(&file)
        .arg("domain")
        .output();
    match validated {
        Ok(output) if output.status.code() != Some(COMMAND_NOT_FOUND) => {
            assert!(output.status.success(), "{guest}: {output:?}");
        }
        _ => eprintln!("virt-xml-validate or xmllint is missing: the schema is not looked at"),
    }
    let (file, native) = (file.display(), "domxml-to-native qemu-argv --domain guest");
    let commands = format!("define {file}; dumpxml guest; {native}; undefine guest");
    let output = virsh(root, &commands).expect("it runs");
    all_done(&output);
    let said = text(&output.stdout);
    let (kept, run) = said.split_once("</domain>").expect("a guest");
    (kept.to_owned(), run.to_owned())
}

#[track_caller]
fn nothing_is_dropped(given: &str, kept: &str) {
    let kept = attributes(kept);
    for attribute in attributes(given) {
        assert!(
            kept.contains(&attribute),
            "{attribute} is missing in {kept:#?}"
        );
    }
}

#[test]
fn what_disk_show_prints_for_libvirt_is_kept_and_reaches_qemu() {
    let folder = Folder::new();
    let Some(root) = root(&folder) else {
        return;
    };
    fs::write(folder.path("db.img"), vec![0; 1 << 20]).expect("written");
    let config = CONFIG.replace("FOLDER", folder.path("").to_str().expect("text"));
    let _daemon = folder.serve_config(&config);
    let plain = "<domain type='qemu'>";
    for disk in ["db", "swap"] {
        let page = folder.sublet_ok(&["disk", "show", disk]);
        let lines = recipe(&page, "libvirt, of any version");
        let (first, arguments) = lines.split_once('\n').expect("a first line");
        let (kept, run) = taken(&root, disk, &guest(first, "", "", arguments));
        nothing_is_dropped(arguments, &kept);
        assert!(run.contains("reconnect-delay=60"), "{run}");
        starts(&root, disk);
    }
    let page = folder.sublet_ok(&["disk", "show", "db"]);
    let lines = recipe(&page, "libvirt (memoryBacking stands beside devices)");
    let (memory, disk) = lines.split_once("</memoryBacking>").expect("both");
    let memory = format!("{memory}</memoryBacking>");
    let (kept, run) = taken(&root, "vhost", &guest(plain, &memory, disk, ""));
    nothing_is_dropped(&lines, &kept);
    assert!(
        run.contains("\"reconnect\":1")
            || run.contains("reconnect=1")
            || run.contains("reconnect-ms"),
        "{run}"
    );
}

#[test]
fn libvirt_keeps_reconnect_of_an_nbd_disk_from_the_version_on_that_disk_show_names() {
    let folder = Folder::new();
    let Some(root) = root(&folder) else {
        return;
    };
    let version = Command::new("virsh")
        .arg("--version")
        .output()
        .expect("it runs");
    let version = text(&version.stdout);
    let mut numbers = version
        .trim()
        .split('.')
        .map(|number| number.parse::<u32>().expect("a number"));
    let version = (numbers.next(), numbers.next());
    fs::write(folder.path("db.img"), vec![0; 1 << 20]).expect("written");
    let config = CONFIG.replace("FOLDER", folder.path("").to_str().expect("text"));
    let _daemon = folder.serve_config(&config);
    let page = folder.sublet_ok(&["disk", "show", "db"]);
    let disk = recipe(&page, "libvirt 9.1 or later");
    let file = root.join("nbd.xml");
    fs::write(&file, guest("<domain type='qemu'>", "", &disk, "")).expect("written");
    let commands = format!("define {}; dumpxml guest", file.display());
    let kept = text(&virsh(&root, &commands).expect("it runs").stdout);
    match version >= (Some(9), Some(1)) {
        true => nothing_is_dropped(&disk, &kept),
        false => assert!(
            kept.contains("protocol='nbd'") && !kept.contains("reconnect"),
            "{kept}"
        ),
    }
}
