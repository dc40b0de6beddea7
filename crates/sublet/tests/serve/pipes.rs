//! Named pipes in place of files: without a writer, and with one.

use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::afar;
use crate::daemon::{Daemon, Folder, SUBLET, text};

/// A start never takes longer: 5 s for the pipe, and what a busy machine takes besides.
const REFUSED_WITHIN: Duration = Duration::from_secs(30);

const TENANT: &str = "\
[tenants.known]
listen = [\"tcp:127.0.0.1:0\"]
auth_file = \"FOLDER/users\"
tls_cert = \"FOLDER/tenant-crt\"
tls_key = \"FOLDER/tenant-key\"
tls_ca = \"FOLDER/ca\"
";

/// Every file that such a daemon reads, except for its own.
const FILES: [&str; 7] = [
    "crt",
    "key",
    "token",
    "users",
    "tenant-crt",
    "tenant-key",
    "ca",
];

fn config(folder: &Folder) -> String {
    let admin = afar::config(folder);
    folder.write("users", "ann:secret\n");
    for (name, as_good_as) in [("tenant-crt", "crt"), ("tenant-key", "key"), ("ca", "crt")] {
        std::fs::copy(folder.path(as_good_as), folder.path(name)).expect("copied");
    }
    admin + &TENANT.replace("FOLDER", folder.path("").to_str().expect("text"))
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
}

/// Replaces the folder's file by a pipe. Returns the file's content.
fn pipe_instead(folder: &Folder, name: &str) -> Vec<u8> {
    let path = folder.path(name);
    let said = std::fs::read(&path).unwrap_or_default();
    let _ = std::fs::remove_file(&path);
    pipe(&path);
    said
}

fn is_refused(mut command: Command, name: &str) {
    let began = Instant::now();
    let Output { status, stderr, .. } = command.output().expect("it runs");
    let said = text(&stderr);
    assert!(
        status.code().is_some_and(|code| code != 0),
        "{name}: {said}"
    );
    let is_told = said.contains("named pipe") && said.contains(name);
    assert!(is_told, "{name}: {said}");
    assert!(
        began.elapsed() < REFUSED_WITHIN,
        "{name}: {:?}",
        began.elapsed()
    );
}

#[test]
fn a_pipe_that_nobody_writes_to_ends_the_start_whichever_file_it_is() {
    thread::scope(|scope| {
        for name in FILES {
            scope.spawn(move || {
                let folder = Folder::new();
                let file = folder.write("sublet.toml", &config(&folder));
                pipe_instead(&folder, name);
                is_refused(
                    folder.command(&["--config", file.to_str().expect("text")]),
                    name,
                );
            });
        }
        scope.spawn(|| {
            let folder = Folder::new();
            std::fs::create_dir(folder.path("state")).expect("made");
            pipe(&folder.path("state/live.toml"));
            let listen = format!("unix:{}", folder.path("a.sock").display());
            is_refused(folder.command(&["--listen", &listen]), "live.toml");
        });
        scope.spawn(|| {
            let folder = Folder::new();
            let file = folder.path("sublet.toml");
            pipe(&file);
            is_refused(
                folder.command(&["--config", file.to_str().expect("text")]),
                "sublet.toml",
            );
        });
        scope.spawn(|| {
            let folder = Folder::new();
            let users = folder.path("users");
            pipe(&users);
            let mut command = Command::new(SUBLET);
            command
                .args(["memcached", "-l", "127.0.0.1", "-p", "0", "-Y"])
                .arg(users);
            is_refused(command, "users");
        });
    });
}

#[test]
fn a_pipe_that_somebody_writes_to_is_as_good_as_a_file() {
    let folder = Folder::new();
    let file = folder.write("sublet.toml", &config(&folder));
    for name in FILES.into_iter().chain(["sublet.toml"]) {
        let (path, said) = (folder.path(name), pipe_instead(&folder, name));
        thread::spawn(move || std::fs::write(path, said));
    }
    let daemon = Daemon::start(folder.command(&["--config", file.to_str().expect("text")]));
    assert_eq!(daemon.end().0, Some(0));
}
