//! A daemon is killed while a frozen file system holds one of its threads in the kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, Folder, SUBLET, text};
use crate::guest::Guest;
use crate::keeper::signal;
use crate::wait::wait_until;

/// A file system in a file that can be frozen. It is thawed and removed when this is dropped.
struct FileSystem(PathBuf);

impl FileSystem {
    /// Mounts it. `None` if the user may not mount one.
    fn mount(folder: &Folder) -> Option<FileSystem> {
        let (image, at) = (folder.write("fs.img", ""), folder.path("frozen"));
        let file = fs::File::options().write(true).open(&image).expect("there");
        file.set_len(16 << 20).expect("it grows");
        fs::create_dir(&at).expect("made");
        let made = run("mkfs.ext4", &["-q"], &image)
            && Command::new("mount")
                .args(["-o", "loop"])
                .args([&image, &at])
                .status()
                .is_ok_and(|status| status.success());
        if !made {
            eprintln!("skipped: nobody may mount a file here");
        }
        made.then_some(FileSystem(at))
    }

    fn freeze(&self) {
        assert!(run("fsfreeze", &["-f"], &self.0));
    }

    fn thaw(&self) -> bool {
        run("fsfreeze", &["-u"], &self.0)
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        self.thaw();
        run("umount", &["-l"], &self.0);
    }
}

fn run(program: &str, words: &[&str], path: &Path) -> bool {
    let output = Command::new(program).args(words).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}

/// The output of a daemon that did not come to serve. If it serves, the test ends it.
fn output_of_who_ends(mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut daemon = command.spawn().expect("it runs");
    let until = Instant::now() + Duration::from_secs(30);
    while daemon.try_wait().expect("a child").is_none() {
        if Instant::now() > until {
            signal("-TERM", &daemon.id().to_string());
            let output = daemon.wait_with_output();
            panic!("it serves: {output:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    daemon.wait_with_output().expect("its output")
}

/// Whether a thread of the process waits in the kernel, and the process itself is in `state`.
fn is_in(pid: u32, state: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let is = |path: PathBuf, state: &str| {
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with(state))
    };
    let waits = tasks.flatten().any(|task| is(task.path(), "D"));
    waits && is(PathBuf::from(format!("/proc/{pid}")), state)
}

/// A config with one socket of each kind that a client can connect to.
fn sockets(folder: &Folder, image: &Path) -> String {
    fs::write(image, vec![0; 1 << 20]).expect("written");
    let at = |kind: &str| folder.path(&format!("{kind}.sock")).display().to_string();
    format!(
        "[tenants.web]\nlisten = [\"unix:{}\", \"ring:{}\"]\n\
         [disks.plain]\ntenant = \"t\"\nbacking = {image:?}\nlisten = [\"unix:{}\", \"vhost-user:{}\"]\n",
        at("web"),
        at("ring"),
        at("nbd"),
        at("vhost")
    )
}

#[test]
fn who_cannot_end_over_a_frozen_backing_is_named_and_another_starts_beside_it() {
    let folder = Folder::new();
    let other = Folder::new();
    let config = |folder: &Folder, image: &Path| {
        format!(
            "[disk]\nallow = [{:?}]\n[disks.db]\ntenant = \"t\"\nbacking = {image:?}\nlisten = [\"unix:{}\"]\n",
            folder.path(""),
            folder.path("db.sock").display()
        )
    };
    // It ends last, when it can.
    let daemon;
    let Some(frozen) = FileSystem::mount(&folder) else {
        return;
    };
    let image = frozen.0.join("db.img");
    fs::write(&image, vec![0; 1 << 20]).expect("written");
    // It has another name, nothing to keep in its state folder, and one socket of each kind.
    let program = folder.path("lender");
    fs::copy(SUBLET, &program).expect("copied");
    let all = config(&folder, &image) + &sockets(&folder, &folder.path("plain.img"));
    let file = folder.write("sublet.toml", &all);
    let served = folder.command(&["--config", file.to_str().expect("text")]);
    let mut renamed = Command::new(&program);
    renamed.args(served.get_args());
    daemon = Daemon::start(renamed);
    frozen.freeze();
    let mut guest = Guest::of(&folder.path("db.sock"), "db");
    guest.send_write(3, 3);
    wait_until("it waits in the kernel", || is_in(daemon.pid(), "S"));
    signal("-9", &daemon.pid().to_string());
    wait_until("it cannot end", || is_in(daemon.pid(), "Z"));

    let named = format!("process {} was told to end and cannot", daemon.pid());
    let refused = |command: Command| {
        let output = output_of_who_ends(command);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains(&named) && said.contains("db.img"), "{said}");
        said
    };
    // It has the same state folder, the same socket, or the same backing.
    let same_state = refused(other.command_with(&folder.path("state"), &[]));
    assert!(same_state.contains("the state folder"), "{same_state}");
    let file = folder.path("sublet.toml").display().to_string();
    let same_socket = folder.command_with(&other.path("state"), &["--config", &file]);
    assert!(refused(same_socket).contains("admin.sock"));
    let file = other.write("same.toml", &config(&other, &image));
    let same_backing = other.command(&["--config", file.to_str().expect("text")]);
    assert!(refused(same_backing).contains("the backing"));

    for kind in ["web", "ring", "nbd", "vhost"] {
        let socket = folder.path(&format!("{kind}.sock"));
        let theirs = sockets(&other, &other.path("plain.img"));
        let ours = other.path(&format!("{kind}.sock"));
        let taken = theirs.replace(&ours.display().to_string(), &socket.display().to_string());
        let file = other.write("taken.toml", &taken);
        let said = refused(other.command(&["--config", file.to_str().expect("text")]));
        assert!(said.contains(&socket.display().to_string()), "{said}");
    }

    let next = other.serve();
    drop(next);
    assert!(frozen.thaw());
    assert_eq!(daemon.ended().0, None, "killed, and gone");
}
