//! Disks of a daemon that has reached a limit of the system.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit};

use crate::content::page_of;
use crate::daemon::{Daemon, Folder, text};
use crate::guest::Guest;
use crate::keeper::{keeper_of, signal};

/// A cgroup that limits the number of tasks. It is removed when this is dropped, after the daemon.
struct TaskLimit(PathBuf);

impl TaskLimit {
    /// Makes one. `None` if the user may not.
    fn make() -> Option<TaskLimit> {
        let name = format!("sublet-test-{}", std::process::id());
        let tops = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"];
        let mut folders = tops.iter().map(|top| PathBuf::from(top).join(&name));
        let made = folders.find(|folder| {
            let made = fs::create_dir(folder).is_ok();
            let limits = made && folder.join("pids.max").exists();
            if made && !limits {
                let _ = fs::remove_dir(folder);
            }
            limits
        });
        if made.is_none() {
            eprintln!("skipped: nobody may make a cgroup that bounds tasks here");
        }
        made.map(TaskLimit)
    }

    fn enter(&self, daemon: &Daemon) {
        let pid = daemon.pid().to_string();
        fs::write(self.0.join("cgroup.procs"), pid).expect("it enters");
    }

    fn bound(&self, tasks: &str) {
        fs::write(self.0.join("pids.max"), tasks).expect("bounded");
    }
}

impl Drop for TaskLimit {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// io_uring makes threads as it needs them, and returns `ECANCELED` if it may not.
#[test]
fn a_daemon_that_may_make_no_more_threads_answers_its_guests_all_the_same() {
    let Some(limit) = TaskLimit::make() else {
        return;
    };
    let folder = Folder::new();
    let image = folder.write("disk.img", "");
    fs::write(&image, vec![0; 1 << 20]).expect("written");
    let daemon = folder.serve_config(&format!(
        "[disks.db]\ntenant = \"t\"\nbacking = {image:?}\nlisten = [\"unix:{}\"]\n",
        folder.path("db.sock").display()
    ));
    limit.enter(&daemon);
    limit.bound("1");
    let mut guest = Guest::of(&folder.path("db.sock"), "db");
    for page in 0..8 {
        assert_eq!(guest.write_page(page, page as u8), 0);
        assert_eq!(guest.flush(), 0, "it needs a thread");
    }
    assert!(guest.read_page(5) == page_of(5));
    folder.sublet_ok(&["release", "2MiB"]);
    let change = ["tenants", "set", "t", "--weight", "3"];
    let refused = folder.sublet(&change);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        text(&refused.stderr).contains("cannot make a thread"),
        "{refused:?}"
    );
    limit.bound("max");
    folder.sublet_ok(&change);
    assert_eq!(daemon.end().0, Some(0));
}

/// `ulimit -f`: the kernel refuses a write beyond it, and kills a process that does not handle its signal.
#[test]
fn a_write_beyond_the_limit_of_a_file_is_an_error_and_no_death() {
    let folder = Folder::new();
    let image = folder.write("disk.img", "");
    fs::write(&image, vec![0; 4 << 20]).expect("written");
    let daemon = folder.serve_config(&format!(
        "[disks.db]\ntenant = \"t\"\nbacking = {image:?}\nlisten = [\"unix:{}\"]\n",
        folder.path("db.sock").display()
    ));
    let pid = Pid::from_raw(daemon.pid() as i32);
    let limit = Rlimit {
        current: Some(2 << 20),
        maximum: Some(2 << 20),
    };
    rustix::process::prlimit(pid, Resource::Fsize, limit).expect("limited");
    let mut guest = Guest::of(&folder.path("db.sock"), "db");
    const ENOSPC: u32 = 28; // as the protocol numbers it
    assert_eq!(guest.write_page(1000, 1), ENOSPC);
    assert_eq!(guest.write_page(5, 5), 0);
    assert!(guest.read_page(5) == page_of(5));
    let refused = folder.sublet(&["disk", "resize", "db", "8MiB"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("too large"), "{refused:?}");
    assert_eq!(daemon.end().0, Some(0));
}

/// `ulimit -f` below the size of the stage, which is a file for the kernel.
#[test]
fn a_swap_disk_whose_stage_is_larger_than_a_file_may_be_is_written_through() {
    let folder = Folder::new();
    let swap = folder.write("swap.img", "");
    fs::write(&swap, vec![0; 1 << 20]).expect("written");
    let config = format!(
        "[disks.swap]\nkind = \"swap\"\ntenant = \"t\"\nbacking = {swap:?}\nlisten = [\"unix:{}\"]\n",
        folder.path("swap.sock").display()
    );
    let file = folder.write("sublet.toml", &config);
    let serve = folder.command(&["--config", file.to_str().expect("text")]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 2048; exec \"$@\"", "sh"]); // 1 MiB; in some shells 2 MiB
    limited.arg(serve.get_program()).args(serve.get_args());
    let daemon = Daemon::start(limited);
    let shown = folder.sublet_ok(&["disk", "show", "swap"]);
    for words in [
        "there is no stage",
        "RLIMIT_FSIZE",
        "LimitFSIZE=",
        "dirty_max",
        "write-through for now (its durability is write-behind)",
    ] {
        assert!(shown.contains(words), "{shown}");
    }
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    assert_eq!(guest.write_page(7, 5), 0);
    assert_eq!(
        fs::read(&swap).expect("there")[7 * 4096 + 1],
        5,
        "it is there"
    );
    assert!(keeper_of(&folder).is_none());
    // Nobody mistakes its pages for lost ones.
    daemon.kill();
    let _unlimited = folder.serve_config(&config);
    let shown = folder.sublet_ok(&["disk", "show", "swap"]);
    assert!(
        !shown.contains("stage") && !shown.contains("for now"),
        "{shown}"
    );
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    assert!(guest.read_page(7) == page_of(5));
}

/// The keeper has the pages, but its socket has another name.
#[test]
fn a_swap_disk_whose_keeper_is_out_of_reach_is_closed_until_it_is_found() {
    let folder = Folder::new();
    let file = folder.write("swap.img", "");
    fs::write(&file, vec![0; 1 << 20]).expect("written");
    let config = format!(
        "[disks.swap]\nkind = \"swap\"\ntenant = \"t\"\nbacking = {file:?}\nlisten = [\"unix:{}\"]\n",
        folder.path("swap.sock").display()
    );
    let daemon = folder.serve_config(&config);
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    assert_eq!(guest.write_page(7, 5), 0);
    daemon.kill();
    let (socket, aside) = (folder.path("admin.stage"), folder.path("aside"));
    fs::rename(&socket, &aside).expect("moved");
    fs::create_dir(&socket).expect("made");
    let _next = folder.serve_config(&config);
    let shown = folder.sublet_ok(&["disk", "show", "swap"]);
    assert!(
        shown.contains("closed") && shown.contains("is not reached"),
        "{shown}"
    );
    // Another disk without a stage does not change that.
    let place = format!("unix:{}", folder.path("other.sock").display());
    let add = ["disk", "add", "other", "--tenant", "t", "--kind", "swap"];
    folder.sublet_ok(&[&add[..], &["--size", "1MiB", "--listen", &place]].concat());
    for gives_up in [
        &["disk", "open", "swap", "--force"][..],
        &["disk", "remove", "swap"],
        &["disk", "remove", "swap", "--force"],
    ] {
        let refused = folder.sublet(gives_up);
        assert_eq!(refused.status.code(), Some(1), "{gives_up:?}");
        let said = text(&refused.stderr);
        assert!(said.contains("is not reached"), "{gives_up:?}: {said}");
    }

    fs::remove_dir(&socket).expect("removed");
    fs::rename(&aside, &socket).expect("moved back");
    folder.sublet_ok(&["disk", "open", "swap"]);
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    assert!(guest.read_page(7) == page_of(5));
}

/// `pkill -USR1 sublet`, as for a daemon that then reopens its log. The keeper gets the signal, too.
#[test]
fn signals_that_are_meant_for_others_end_nobody() {
    let folder = Folder::new();
    let place = format!("unix:{}", folder.path("swap.sock").display());
    let daemon = folder.serve();
    let add = ["disk", "add", "swap", "--tenant", "t", "--kind", "swap"];
    folder.sublet_ok(&[&add[..], &["--size", "1MiB", "--listen", &place]].concat());
    let keeper = keeper_of(&folder).expect("a keeper");
    let strays = [
        "-USR1", "-USR2", "-ALRM", "-VTALRM", "-PROF", "-IO", "-XFSZ", "-PIPE",
    ];
    for pid in [&daemon.pid().to_string(), &keeper] {
        strays.iter().for_each(|stray| signal(stray, pid));
    }
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    assert_eq!(guest.write_page(7, 5), 0);
    assert_eq!(keeper_of(&folder), Some(keeper));
    let (code, log) = daemon.end();
    assert_eq!(code, Some(0));
    for told in ["SIGUSR1", "SIGUSR2"] {
        assert_eq!(log.matches(told).count(), 1, "{log}");
    }
}

/// `ulimit -t` sends SIGXCPU, and LXC halts a container with SIGPWR.
#[test]
fn a_daemon_whose_processor_time_or_power_is_up_ends_cleanly_and_says_so() {
    for (sent, named) in [("-XCPU", "SIGXCPU"), ("-PWR", "SIGPWR")] {
        let folder = Folder::new();
        let place = format!("unix:{}", folder.path("swap.sock").display());
        let daemon = folder.serve();
        let add = ["disk", "add", "swap", "--tenant", "t", "--kind", "swap"];
        folder.sublet_ok(&[&add[..], &["--size", "1MiB", "--listen", &place]].concat());
        let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
        assert_eq!(guest.write_page(7, 5), 0);
        signal(sent, &daemon.pid().to_string());
        let (code, log) = daemon.ended();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains(named), "{log}");
        let backing = fs::read(folder.path("state/disks/swap.swap")).expect("its file");
        assert_eq!(backing[7 * 4096 + 1], 5, "it was drained");
        assert!(keeper_of(&folder).is_none());
    }
}
