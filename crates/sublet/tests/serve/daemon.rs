//! A real daemon in a separate folder, for one test.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use sublet_client::{Admin, AdminEndpoint};
use tempfile::TempDir;

/// The command under test.
pub(crate) const SUBLET: &str = env!("CARGO_BIN_EXE_sublet");

/// A folder with everything that a daemon needs.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    /// Runs `sublet …`, which asks the daemon of this folder.
    pub(crate) fn sublet(&self, args: &[&str]) -> Output {
        let mut command = Command::new(SUBLET);
        command
            .args(args)
            .env("SUBLET_ADMIN", self.path("admin.sock"));
        command.output().expect("it runs")
    }

    /// Runs `sublet …`, which must succeed. Returns its output.
    pub(crate) fn sublet_ok(&self, args: &[&str]) -> String {
        let output = self.sublet(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        text(&output.stdout)
    }

    /// The command `sublet serve …`, with sockets and state in this folder and a ceiling.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_with(&self.path("state"), args)
    }

    /// The same command with another folder's state.
    pub(crate) fn command_with(&self, state: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(SUBLET);
        command
            .args(["serve", "--ceiling", "64MiB", "--admin"])
            .arg(self.path("admin.sock"))
            .arg("--state")
            .arg(state)
            .args(args);
        command
    }

    /// Starts a daemon that serves one tenant on a Unix socket.
    pub(crate) fn serve(&self) -> Daemon {
        let listen = format!("unix:{}", self.path("default.sock").display());
        Daemon::start(self.command(&["--listen", &listen]))
    }

    /// Starts a daemon with this config.
    pub(crate) fn serve_config(&self, config: &str) -> Daemon {
        let file = self.write("sublet.toml", config);
        Daemon::start(self.command(&["--config", file.to_str().expect("text")]))
    }

    pub(crate) fn admin(&self) -> Admin {
        Admin::at(AdminEndpoint::Unix(self.path("admin.sock"))).expect("a handle")
    }

    /// Sends one HTTP request to the admin socket. Returns head and body of the answer.
    pub(crate) fn http(&self, request: &str, body: &str) -> (String, String) {
        http(&self.path("admin.sock"), request, body)
    }
}

pub(crate) fn http(socket: &Path, request: &str, body: &str) -> (String, String) {
    let mut stream = UnixStream::connect(socket).expect("connected");
    let head = format!(
        "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nCache-Control: no-cache\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    // A daemon that refuses a large body may close before it has read all of it.
    let _ = stream.write_all(body.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = text(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    (head.to_owned(), body.to_owned())
}

/// A daemon that has reported that it serves.
pub(crate) struct Daemon {
    child: Child,
    /// Its output at the start.
    pub(crate) greeting: String,
}

impl Daemon {
    pub(crate) fn start(mut command: Command) -> Daemon {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut greeting = String::new();
        while let Some(Ok(line)) = lines.next() {
            greeting.push_str(&line);
            greeting.push('\n');
            if line.starts_with("then ") {
                return Daemon { child, greeting };
            }
        }
        let ended = child.wait_with_output().expect("ended");
        panic!("the daemon ended at once: {}", text(&ended.stderr));
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Makes it read its files again, as a service manager would.
    pub(crate) fn hang_up(&self) {
        signal(self.pid(), rustix::process::Signal::HUP);
    }

    /// Asks it to end, as a service manager would.
    pub(crate) fn terminate(&self) {
        signal(self.pid(), rustix::process::Signal::TERM);
    }

    /// Ends it as a service manager would. Returns its exit code and its log.
    pub(crate) fn end(self) -> (Option<i32>, String) {
        self.terminate();
        self.ended()
    }

    /// Waits for its end. Returns its exit code and its log.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("ended");
        let mut log = String::new();
        let _ = self
            .child
            .stderr
            .take()
            .expect("piped")
            .read_to_string(&mut log);
        (status.code(), log)
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }
}

/// The daemon ends properly. A killed one leaves the process behind that keeps the pages of its swap.
impl Drop for Daemon {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let pid = rustix::process::Pid::from_raw(self.child.id() as i32);
            let term = rustix::process::Signal::TERM;
            let _ = pid.map(|pid| rustix::process::kill_process(pid, term));
            let until = Instant::now() + Duration::from_secs(10);
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
    rustix::process::kill_process(pid, signal).expect("sent");
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
