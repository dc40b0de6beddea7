//! A separate `sublet memcached` for a test, and a small client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than anything that works ever takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running process. It ends with the test.
pub(crate) struct MemcachedProcess {
    pub(crate) process: Child,
    pub(crate) folder: TempDir,
    pub(crate) ports: Vec<u16>,
}

/// Runs `sublet memcached` to its end.
pub(crate) fn run(options: &[&str]) -> Output {
    command(options).output().expect("sublet runs")
}

pub(crate) fn command(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sublet"));
    command.arg("memcached").args(options);
    if rustix::process::geteuid().is_root() {
        command.args(["-u", "root"]);
    }
    command
}

/// Starts a process on a free port, with `options` besides.
pub(crate) fn start(options: &[&str]) -> MemcachedProcess {
    let mut all = vec!["-p", "-1", "-l", "127.0.0.1"];
    all.extend(options);
    start_as(&all)
}

/// Starts a process with exactly these options. Waits until it listens on TCP.
pub(crate) fn start_as(options: &[&str]) -> MemcachedProcess {
    let folder = tempfile::tempdir().expect("a folder");
    let port_file = folder.path().join("ports");
    let process = command(options)
        .env("MEMCACHED_PORT_FILENAME", &port_file)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sublet starts");
    wait_for("its port file", || port_file.exists());
    let ports = read_ports(&port_file);
    MemcachedProcess {
        process,
        folder,
        ports,
    }
}

/// Starts a process on a Unix socket.
pub(crate) fn start_unix(options: &[&str]) -> (MemcachedProcess, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let mut all = vec!["-s", path.to_str().expect("a plain path")];
    all.extend(options);
    let process = command(&all)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sublet starts");
    wait_for("its socket", || UnixStream::connect(&path).is_ok());
    let started = MemcachedProcess {
        process,
        folder,
        ports: Vec::new(),
    };
    (started, path)
}

pub(crate) fn read_ports(path: &Path) -> Vec<u16> {
    let text = std::fs::read_to_string(path).expect("a port file");
    let number = |line: &str| line.rsplit(' ').next().and_then(|port| port.parse().ok());
    text.lines().filter_map(number).collect()
}

/// Waits until `happened` returns true, for a long time if need be.
pub(crate) fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl MemcachedProcess {
    pub(crate) fn connect(&self) -> Client<TcpStream> {
        Client::tcp(self.ports[0])
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).expect("a signal is sent");
    }

    /// Waits for its end. Returns what it wrote to stderr.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let began = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("a child") {
                let mut said = String::new();
                if let Some(mut stderr) = self.process.stderr.take() {
                    stderr.read_to_string(&mut said).expect("text");
                }
                return (status, said);
            }
            assert!(began.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Resident memory of the process, in KiB.
    pub(crate) fn rss_kib(&self) -> u64 {
        proc_figure(self.pid(), "VmRSS:")
    }

    /// Resident memory once the blocks that are populated ahead of use are there.
    pub(crate) fn calm_rss_kib(&self) -> u64 {
        let mut last = 0;
        loop {
            let now = self.rss_kib();
            if now == last {
                return now;
            }
            last = now;
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
    }

    pub(crate) fn stat(&self, name: &str) -> u64 {
        self.connect().stat(name)
    }
}

impl Drop for MemcachedProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn proc_figure(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with(name));
    let words = line.expect("a figure").split_whitespace().nth(1);
    words.expect("a value").parse().expect("a number")
}

/// One connection.
pub(crate) struct Client<S: Read + Write> {
    pub(crate) stream: BufReader<S>,
}

impl Client<TcpStream> {
    pub(crate) fn tcp(port: u16) -> Client<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream.set_nodelay(true).expect("no delay");
        Client::over(stream)
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S) -> Client<S> {
        Client {
            stream: BufReader::new(stream),
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .get_mut()
            .write_all(bytes.as_ref())
            .expect("it takes what is sent");
    }

    /// The next line, without its end. It is empty at the end of the connection.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.stream
            .read_until(b'\n', &mut line)
            .expect("an answer in time");
        let text = String::from_utf8_lossy(&line);
        text.trim_end_matches("\r\n").to_owned()
    }

    pub(crate) fn request(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n"));
        self.line()
    }

    pub(crate) fn set(&mut self, key: &str, value: &[u8]) {
        self.send(format!("set {key} 0 0 {}\r\n", value.len()));
        self.send(value);
        self.send("\r\n");
        assert_eq!(self.line(), "STORED");
    }

    pub(crate) fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        let head = self.request(&format!("get {key}"));
        if head == "END" {
            return None;
        }
        let length = head.rsplit(' ').next().and_then(|n| n.parse().ok());
        let mut value = vec![0; length.expect("a length")];
        self.stream.read_exact(&mut value).expect("the value");
        assert_eq!((self.line(), self.line()), (String::new(), "END".into()));
        Some(value)
    }

    pub(crate) fn stat(&mut self, name: &str) -> u64 {
        self.send("stats\r\n");
        let mut found = None;
        loop {
            let line = self.line();
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("STAT"), Some(n), Some(value)) if n == name => found = value.parse().ok(),
                (Some("END"), ..) => break,
                (Some("STAT"), ..) => {}
                _ => panic!("stats says {line:?}"),
            }
        }
        found.unwrap_or_else(|| panic!("no figure {name}"))
    }

    /// Whether the other side closed the connection, with or without a last message.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}
