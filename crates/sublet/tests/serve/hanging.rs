//! A file system accepts no new file and never says so. A request for one hangs, and nothing else does.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, Folder, SUBLET};
use crate::wait::wait_for;

/// What a request asks for, in FUSE's numbers.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const MKNOD: u32 = 8;
const MKDIR: u32 = 9;
const INIT: u32 = 26;
const CREATE: u32 = 35;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

const NOT_FOUND: i32 = -2;
const INTERRUPTED: i32 = -4;
const NOT_KNOWN: i32 = -38;

/// An empty folder in which nothing can be made. It is unmounted when this is dropped.
struct HungFolder {
    at: PathBuf,
    /// Requests that were never answered are given up when this is closed.
    _device: File,
}

impl HungFolder {
    /// Mounts it. `None` if the user may not mount one.
    fn mount(folder: &Folder) -> Option<HungFolder> {
        let at = folder.path("hanging");
        fs::create_dir(&at).expect("made");
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let mounted = device.ok().filter(|device| {
            let mut command = Command::new("mount");
            command
                .args(["-i", "-t", "fuse", "-o"])
                .arg("fd=0,rootmode=40000,user_id=0,group_id=0,allow_other")
                .arg("hanging")
                .arg(&at)
                .stdin(device.try_clone().expect("a handle"));
            command.status().is_ok_and(|status| status.success())
        });
        let Some(device) = mounted else {
            eprintln!("skipped: nobody may mount a FUSE file system here");
            return None;
        };
        let served = device.try_clone().expect("a handle");
        thread::spawn(move || answer_all(served));
        Some(HungFolder {
            at,
            _device: device,
        })
    }
}

impl Drop for HungFolder {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .args(["-f", "-l"])
            .arg(&self.at)
            .status();
    }
}

/// Answers requests. A process that has to die while it waits may do so.
fn answer_all(mut device: File) {
    let mut request = vec![0; 1 << 18];
    while let Ok(read) = device.read(&mut request) {
        let word = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().expect("four"));
        let (asked, unique) = (word(4), &request[8..16]);
        let (unique, error, body) = match asked {
            _ if read < 40 => return,
            INTERRUPT => (&request[40..48], INTERRUPTED, Vec::new()),
            CREATE | MKNOD | MKDIR | FORGET | BATCH_FORGET => continue,
            INIT => (unique, 0, greeting()),
            GETATTR => (unique, 0, folder_facts()),
            LOOKUP => (unique, NOT_FOUND, Vec::new()),
            _ => (unique, NOT_KNOWN, Vec::new()),
        };
        let mut answer = Vec::from(((16 + body.len()) as u32).to_le_bytes());
        answer.extend(i32::to_le_bytes(error));
        answer.extend(unique);
        answer.extend(body);
        // An interrupted request may have had its answer meanwhile.
        let _ = device.write_all(&answer);
    }
}

/// The greeting of FUSE 7.31, without any of its options.
fn greeting() -> Vec<u8> {
    let words: [u32; 4] = [7, 31, 0, 0];
    let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    body.extend([0; 4]);
    body.extend(4096_u32.to_le_bytes());
    body.resize(64, 0);
    body
}

fn folder_facts() -> Vec<u8> {
    let mut body = vec![0; 16 + 60];
    body[16] = 1; // its number
    body.extend(0o040_755_u32.to_le_bytes());
    body.extend(2_u32.to_le_bytes());
    body.resize(16 + 88, 0);
    body
}

/// A command that waits until this is dropped.
struct WaitingCommand(Child);

impl Drop for WaitingCommand {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_command(folder: &Folder, words: &[&str]) -> WaitingCommand {
    let mut command = Command::new(SUBLET);
    command
        .args(words)
        .env("SUBLET_ADMIN", folder.path("admin.sock"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    WaitingCommand(command.spawn().expect("it runs"))
}

/// Returns when `calls` threads of the daemon wait for the file system, or for the thread that holds its folder.
fn wait_until_hung(daemon: &Daemon, calls: usize) {
    let waits = |task: PathBuf| {
        let waits_for = fs::read_to_string(task.join("wchan")).unwrap_or_default();
        ["request_wait", "rwsem", "openat", "component"]
            .iter()
            .any(|place| waits_for.contains(place))
    };
    let hung = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", daemon.pid())).expect("it lives");
        tasks.flatten().filter(|task| waits(task.path())).count()
    };
    wait_for(|| match hung() {
        count if count >= calls => Ok(()),
        count => Err(count),
    });
}

/// Asserts that everything else is answered before the hanging calls would give up.
fn assert_all_answer(folder: &Folder) {
    let begun = Instant::now();
    for words in [
        &["status"][..],
        &["tenants", "list"],
        &["disk", "list"],
        &["policy", "list"],
        &["release", "2MiB"],
    ] {
        folder.sublet_ok(words);
    }
    for page in ["GET /metrics", "GET /v1/health", "GET /v1/settings"] {
        assert!(
            folder.http(page, "").0.starts_with("HTTP/1.1 200"),
            "{page}"
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(8), "somebody waited");
}

/// The number of items to send. An arena that still grows may displace some of them.
const ITEMS: usize = 12;

const ITEM_BYTES: usize = 900_000;

/// How many of them fit under a ceiling of 2 MiB. An arena that follows a busy host may displace others meanwhile.
const FIT_2_MIB: usize = 2;

fn store_items(client: &mut UnixStream) {
    for key in 0..ITEMS {
        write!(client, "set k{key} 0 0 {ITEM_BYTES}\r\n").expect("sent");
        client.write_all(&[b'x'; ITEM_BYTES]).expect("sent");
        client.write_all(b"\r\n").expect("sent");
        client.read_exact(&mut [0; 8]).expect("STORED");
    }
}

/// How many of the items are there.
fn items(client: &mut UnixStream) -> usize {
    client.write_all(b"stats\r\n").expect("sent");
    let mut lines = BufReader::new(client).lines().map_while(Result::ok);
    let count = lines.find_map(|line| Some(line.strip_prefix("STAT curr_items ")?.to_owned()));
    lines.find(|line| line == "END").expect("all of it");
    count.expect("a count").parse().expect("a number")
}

#[test]
fn a_state_folder_that_hangs_keeps_its_own_callers_only_and_the_daemon_ends() {
    let folder = Folder::new();
    let daemon;
    let Some(hanging) = HungFolder::mount(&folder) else {
        return;
    };
    let (socket, backing) = (folder.path("web.sock"), folder.write("db.img", ""));
    fs::write(&backing, vec![0; 1 << 20]).expect("written");
    let config = format!(
        "[disk]\nallow = [{:?}]\n[tenants.web]\nlisten = [\"unix:{}\"]\n",
        folder.path(""),
        socket.display()
    );
    let file = folder.write("sublet.toml", &config);
    let words = ["--config", file.to_str().expect("text")];
    daemon = Daemon::start(folder.command_with(&hanging.at, &words));

    // A change, a save, and a disk whose socket is made there.
    let save = hanging.at.join("web.save").display().to_string();
    let listen = format!("unix:{}", hanging.at.join("db.sock").display());
    let backing = backing.display().to_string();
    let disk = [
        "disk",
        "add",
        "db",
        "--tenant",
        "web",
        "--backing",
        &backing,
        "--listen",
        &listen,
        "--temporary",
    ];
    let mut client = UnixStream::connect(&socket).expect("it listens");
    store_items(&mut client);
    let stored = items(&mut client);
    assert!(
        stored > FIT_2_MIB,
        "a ceiling of 2 MiB would show: {stored}"
    );
    let _waiting = [
        start_command(&folder, &["tenants", "set", "web", "--ceiling", "2MiB"]),
        start_command(&folder, &["tenants", "save", "web", &save]),
        start_command(&folder, &disk),
    ];
    wait_until_hung(&daemon, 3);
    assert!(items(&mut client) > FIT_2_MIB, "nothing holds yet");
    assert_all_answer(&folder);

    let refused = wait_for(|| {
        let set = folder.sublet(&["tenants", "set", "web", "--weight", "8"]);
        let said = String::from_utf8_lossy(&set.stderr).into_owned();
        match said.contains("does not answer") {
            true => Ok(said),
            false => Err(said),
        }
    });
    assert!(
        refused.contains(&hanging.at.display().to_string()),
        "{refused}"
    );
    assert!(items(&mut client) > FIT_2_MIB, "it was refused");
    folder.sublet_ok(&["tenants", "set", "web", "--weight", "9", "--temporary"]);
    assert!(folder.sublet_ok(&["tenants", "show", "web"]).contains('9'));
    assert_all_answer(&folder);

    daemon.terminate();
    let (code, log) = daemon.ended();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn a_state_folder_that_hangs_keeps_a_swap_disk_closed_and_the_daemon_starts_and_ends() {
    let folder = Folder::new();
    let daemon;
    let Some(hanging) = HungFolder::mount(&folder) else {
        return;
    };
    let backing = folder.path("swap.img");
    fs::write(&backing, vec![0; 1 << 20]).expect("written");
    let at = |name: &str| format!("unix:{}", folder.path(name).display());
    let (web, swap) = (at("web.sock"), at("swap.sock"));
    let config = format!(
        "[tenants.web]\nlisten = [{web:?}]\n[disks.swap]\nkind = \"swap\"\ntenant = \"web\"\nbacking = {backing:?}\nlisten = [{swap:?}]\n"
    );
    let file = folder.write("sublet.toml", &config);
    let words = ["--config", file.to_str().expect("text")];
    daemon = Daemon::start(folder.command_with(&hanging.at, &words));
    let shown = folder.sublet_ok(&["disk", "show", "swap"]);
    let silent = format!("{} does not answer", hanging.at.display());
    assert!(shown.contains(&silent), "{shown}");
    daemon.terminate();
    let (code, log) = daemon.ended();
    assert_eq!(code, Some(0), "{log}");
}
