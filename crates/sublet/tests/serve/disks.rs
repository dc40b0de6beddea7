//! Disks, as their owner adds, sees and removes them.

use std::path::Path;

use sublet_client::messages::{DiskList, DiskState, DiskStatus, Status};
use sublet_types::{Bytes, DiskKind};

use crate::daemon::{Daemon, Folder, text};

/// Starts a daemon that accepts disks whose backings lie in the folder `vm`.
fn serve(folder: &Folder, more: &str) -> Daemon {
    let vm = folder.path("vm");
    std::fs::create_dir_all(&vm).expect("made");
    folder.serve_config(&format!(
        "[disk]\nallow = [{vm:?}]\n[tenants.web]\nlisten = [\"unix:{}\"]\n{more}",
        folder.path("web.sock").display()
    ))
}

fn image(folder: &Folder, name: &str) -> String {
    let path = folder.path(name);
    let file = std::fs::File::create(&path).expect("made");
    file.set_len(1 << 20).expect("grown");
    path.display().to_string()
}

fn listen(folder: &Folder, name: &str) -> String {
    format!("unix:{}", folder.path(name).display())
}

/// The config of a disk.
fn config(folder: &Folder, name: &str) -> String {
    let place = listen(folder, &format!("{name}.sock"));
    format!(
        "[disks.{name}]\ntenant = \"guests\"\nkind = \"swap\"\nsize = \"1MiB\"\nlisten = [{place:?}]\n"
    )
}

fn add_db(folder: &Folder, backing: &str, more: &[&str]) -> std::process::Output {
    let place = listen(folder, "db.sock");
    let mut args = vec![
        "disk",
        "add",
        "db",
        "--tenant",
        "db",
        "--backing",
        backing,
        "--listen",
        &place,
    ];
    args.extend(more);
    folder.sublet(&args)
}

fn names(folder: &Folder) -> Vec<String> {
    let all: DiskList =
        serde_json::from_str(&folder.sublet_ok(&["disk", "list", "--json"])).expect("JSON");
    all.disks
        .iter()
        .map(|disk| disk.settings.name.to_string())
        .collect()
}

#[test]
fn a_disk_that_was_added_is_shown_everywhere_and_is_there_after_a_restart() {
    let folder = Folder::new();
    let daemon = serve(&folder, "");
    assert_eq!(
        folder.sublet_ok(&["disk", "list"]),
        "no disks; sublet disk add makes one\n"
    );
    let backing = image(&folder, "vm/db.img");
    let added = add_db(
        &folder,
        &backing,
        &["--listen", "tcp:127.0.0.1:0", "--slow", "4ms"],
    );
    assert!(added.status.success(), "{added:?}");
    assert!(text(&added.stdout).starts_with("db: disk of "), "{added:?}");

    let page = folder.sublet_ok(&["disk", "show", "db"]);
    for expected in [
        &backing,
        "-blockdev driver=nbd,",
        "<source protocol='nbd' name='db'>",
        "nbd-client -unix ",
    ] {
        assert!(page.contains(expected), "{expected} in {page}");
    }
    let status = folder.admin().status().expect("answered");
    assert_eq!(status.disks.len(), 1);
    assert_eq!(status.disks[0].settings.kind, DiskKind::Disk);
    assert!(
        status
            .tenants
            .iter()
            .any(|tenant| tenant.name.as_str() == "db")
    );
    assert_eq!(status.changed, status.disks[0].differences);
    let page = folder.sublet_ok(&["status"]);
    assert!(page.contains("\ndisk  kind  tenant  state"), "{page}");
    assert!(
        page.contains("disks.db is added; the config says none (kept)"),
        "{page}"
    );
    let metrics = folder.admin().metrics().expect("answered");
    assert!(
        metrics.contains("sublet_disk_serving{disk=\"db\"} 1"),
        "{metrics}"
    );
    let settings = folder.admin().settings().expect("answered").settings;
    assert_eq!(settings["disks.db.slow"], "4ms");
    folder.sublet_ok(&["tenants", "set", "db", "--weight", "7"]);
    assert_eq!(daemon.end().0, Some(0));

    let again = serve(&folder, "");
    assert!(
        again.greeting.contains("\ndisk      db: disk of "),
        "{}",
        again.greeting
    );
    assert_eq!(names(&folder), ["db"]);
    let tenant = folder
        .admin()
        .tenant(&"db".parse().expect("a name"))
        .expect("there");
    assert_eq!((tenant.weight.0, tenant.listen.len()), (7, 0));
    folder.sublet_ok(&["disk", "flush", "db"]);
    folder.sublet_ok(&["disk", "remove", "db"]);
    drop(again);

    let _last = serve(&folder, "");
    assert_eq!(names(&folder), Vec::<String>::new());
}

#[test]
fn bytes_that_are_no_whole_sector_are_told_of_where_a_disk_is_added_and_shown() {
    let folder = Folder::new();
    let _daemon = serve(&folder, "");
    let backing = image(&folder, "vm/db.img");
    let grow = |bytes| {
        let file = std::fs::File::options().write(true).open(&backing);
        file.and_then(|file| file.set_len(bytes)).expect("resized");
    };
    grow(100);
    let refused = add_db(&folder, &backing, &[]);
    assert!(
        text(&refused.stderr).contains("has 100 bytes"),
        "{refused:?}"
    );
    grow(1_000_001);
    let added = add_db(&folder, &backing, &[]);
    assert!(added.status.success(), "{added:?}");
    for said in [
        text(&added.stdout),
        folder.sublet_ok(&["disk", "show", "db"]),
    ] {
        assert!(said.contains("the last 65 bytes of its backing"), "{said}");
    }
}

#[test]
fn what_is_temporary_ends_with_the_daemon() {
    let folder = Folder::new();
    let daemon = serve(&folder, &config(&folder, "swap"));
    let added = add_db(&folder, &image(&folder, "vm/db.img"), &["--temporary"]);
    assert!(added.status.success(), "{added:?}");
    folder.sublet_ok(&["disk", "resize", "swap", "2MiB", "--temporary"]);
    let kept = |status: &Status| status.changed.iter().any(|change| change.kept);
    let status = folder.admin().status().expect("answered");
    assert_eq!(status.changed.len(), 2, "{:?}", status.changed);
    assert!(!kept(&status));
    folder.sublet_ok(&["disk", "remove", "swap", "--temporary"]);
    assert_eq!(names(&folder), ["db"]);
    assert!(!folder.path("state/live.toml").exists());
    drop(daemon);

    let _again = serve(&folder, &config(&folder, "swap"));
    assert_eq!(names(&folder), ["swap"]);
    assert!(
        folder
            .admin()
            .status()
            .expect("answered")
            .changed
            .is_empty()
    );
}

#[test]
fn a_disk_of_the_config_that_was_removed_stays_removed_and_one_of_another_size_keeps_it() {
    let folder = Folder::new();
    let both = format!("{}{}", config(&folder, "one"), config(&folder, "two"));
    let daemon = serve(&folder, &both);
    folder.sublet_ok(&["disk", "remove", "one"]);
    folder.sublet_ok(&["disk", "resize", "two", "3MiB"]);
    drop(daemon);

    let _again = serve(&folder, &both);
    assert_eq!(names(&folder), ["two"]);
    let status = folder.admin().status().expect("answered");
    assert_eq!(status.disks[0].settings.size, Some(Bytes::mib(3)));
    let page = folder.sublet_ok(&["status"]);
    assert!(
        page.contains("disks.one is removed; the config says served (kept)"),
        "{page}"
    );
    assert!(
        page.contains("disks.two.size is 3.00 MiB; the config says 1.00 MiB (kept)"),
        "{page}"
    );
    let place = listen(&folder, "one.sock");
    let again = [
        "disk", "add", "one", "--tenant", "guests", "--kind", "swap", "--size", "1MiB", "--listen",
        &place,
    ];
    folder.sublet_ok(&again);
    assert_eq!(names(&folder), ["one", "two"]);
}

#[test]
fn a_backing_must_lie_where_the_owner_allows_it() {
    let folder = Folder::new();
    let _daemon = serve(&folder, "");
    let outside = image(&folder, "outside.img");
    let inside = folder.path("vm/link.img");
    std::os::unix::fs::symlink(&outside, &inside).expect("linked");
    let inside = inside.display().to_string();
    let around = folder.path("vm/../outside.img").display().to_string();
    for backing in [&outside, &inside, &around, "/etc/passwd", "/nowhere/x"] {
        let refused = add_db(&folder, backing, &[]);
        assert_eq!(refused.status.code(), Some(1), "{backing}");
        assert!(
            text(&refused.stderr).contains("`disk.allow`"),
            "{refused:?}"
        );
    }
    assert!(
        folder
            .admin()
            .status()
            .expect("answered")
            .changed
            .is_empty()
    );
}

#[test]
fn a_disk_that_was_added_and_may_not_be_opened_any_more_is_shown_closed() {
    let folder = Folder::new();
    let daemon = serve(&folder, "");
    assert!(
        add_db(&folder, &image(&folder, "vm/db.img"), &[])
            .status
            .success()
    );
    drop(daemon);
    std::fs::remove_file(folder.path("vm/db.img")).expect("removed");
    std::os::unix::fs::symlink(image(&folder, "other.img"), folder.path("vm/db.img"))
        .expect("linked");

    let again = serve(&folder, "");
    assert!(
        again.greeting.contains("db: closed, "),
        "{}",
        again.greeting
    );
    let shown: DiskStatus =
        serde_json::from_str(&folder.sublet_ok(&["disk", "show", "db", "--json"])).expect("JSON");
    assert_eq!(shown.state, DiskState::Closed);
    assert!(shown.why.contains("`disk.allow`"), "{}", shown.why);
    let told = folder.sublet_ok(&["events"]);
    let closed = told.lines().find(|line| line.contains("disk.closed"));
    assert!(
        closed.is_some_and(|line| line.contains("disk db")),
        "{told}"
    );
    let refused = folder.sublet(&["disk", "open", "db"]);
    assert!(
        text(&refused.stderr).contains("`disk.allow`"),
        "{refused:?}"
    );
    std::fs::remove_file(folder.path("vm/db.img")).expect("removed");
    image(&folder, "vm/db.img");
    let opened = folder.sublet_ok(&["disk", "open", "db"]);
    assert!(opened.starts_with("db: disk of"), "{opened}");
    assert!(opened.trim_end().ends_with("serving"), "{opened}");
    let refused = folder.sublet(&["disk", "open", "db"]);
    assert!(
        text(&refused.stderr).contains("disk db is open"),
        "{refused:?}"
    );
    folder.sublet_ok(&["disk", "remove", "db"]);
    assert_eq!(names(&folder), Vec::<String>::new());
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let folder = Folder::new();
    let _daemon = serve(&folder, &config(&folder, "swap"));
    let place = listen(&folder, "x.sock");
    let usage: [&[&str]; 5] = [
        &["disk", "add", "x", "--tenant", "t"],
        &["disk", "add", "-x", "--tenant", "t", "--listen", &place],
        &["disk", "add", "x", "--tenant", "t", "--listen", "/run/x"],
        &[
            "disk", "add", "x", "--tenant", "t", "--listen", &place, "--size", "5",
        ],
        &["disk", "resize", "swap", "much"],
    ];
    for args in usage {
        assert_eq!(folder.sublet(args).status.code(), Some(2), "{args:?}");
    }
    let refused: [(&[&str], &str); 6] = [
        (
            &["disk", "add", "x", "--tenant", "t", "--listen", &place],
            "no backing",
        ),
        (
            &[
                "disk", "add", "swap", "--tenant", "t", "--kind", "swap", "--size", "1MiB",
                "--listen", &place,
            ],
            "already",
        ),
        (&["disk", "show", "nobody"], "sublet disk list"),
        (&["disk", "remove", "nobody"], "sublet disk list"),
        (&["disk", "flush", "nobody"], "sublet disk list"),
        (&["disk", "resize", "swap", "1"], "64.0 KiB"),
    ];
    for (args, expected) in refused {
        let output = folder.sublet(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(text(&output.stderr).contains(expected), "{output:?}");
    }
    for (request, body, code) in [
        ("GET /v1/disks/nobody", "", "404"),
        ("GET /v1/disks/-x", "", "400"),
        ("DELETE /v1/disks/swap?lasts=soon", "", "400"),
        ("POST /v1/disks", "{}", "400"),
        (
            "POST /v1/disks",
            r#"{"name":"x","tenant":"t","sise":1}"#,
            "400",
        ),
        (
            "POST /v1/disks/swap/resize",
            r#"{"size":"2MiB","now":1}"#,
            "400",
        ),
        ("PUT /v1/disks/swap", "", "405"),
    ] {
        let (head, answer) = folder.http(request, body);
        assert!(head.contains(code), "{request} {body}: {head} {answer}");
        let refusal: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        assert!(
            refusal["error"].is_string() && refusal["hint"].is_string(),
            "{answer}"
        );
    }
    assert_eq!(names(&folder), ["swap"]);
    assert!(!Path::new(&folder.path("state/live.toml")).exists());
}

#[test]
fn a_disk_that_cannot_be_kept_is_not_added() {
    let folder = Folder::new();
    let _daemon = serve(&folder, "");
    // A file stands where the state folder should be.
    let _ = std::fs::remove_dir_all(folder.path("state"));
    folder.write("state", "");
    let backing = image(&folder, "vm/db.img");
    let refused = add_db(&folder, &backing, &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("--temporary"), "{refused:?}");
    assert_eq!(names(&folder), Vec::<String>::new());
    assert_eq!(tenants(&folder), ["web"]);
    assert!(add_db(&folder, &backing, &["--temporary"]).status.success());
}

fn tenants(folder: &Folder) -> Vec<String> {
    let all = folder.admin().tenants().expect("answered").tenants;
    all.iter().map(|tenant| tenant.name.to_string()).collect()
}

#[test]
fn the_file_of_a_swap_disk_is_named_when_it_goes_and_deleted_by_that_word() {
    let folder = Folder::new();
    let _daemon = serve(&folder, "");
    let place = listen(&folder, "s.sock");
    let add = [
        "disk", "add", "s", "--kind", "swap", "--tenant", "t", "--size", "1MiB", "--listen", &place,
    ];
    let file = folder.path("state/disks/s.swap");
    folder.sublet_ok(&add);
    assert_eq!(
        folder.sublet_ok(&["disk", "remove", "s"]),
        format!(
            "s: removed; its file {} stays, and may be deleted\n",
            file.display()
        )
    );
    assert!(file.exists());
    let mut other = add;
    other[6] = "another";
    let refused = folder.sublet(&other);
    assert!(
        text(&refused.stderr).contains("has what tenant t's disk of that name left"),
        "{refused:?}"
    );
    assert_eq!(names(&folder), Vec::<String>::new());
    assert!(file.exists());
    let unnamed = folder.path("state/disks/u.swap");
    std::fs::write(&unnamed, vec![7; 1 << 20]).expect("written");
    other[2] = "u";
    let refused = folder.sublet(&other);
    assert!(
        text(&refused.stderr).contains("does not say whose it is"),
        "{refused:?}"
    );
    assert!(unnamed.exists());
    folder.sublet_ok(&add);
    let both = folder.sublet(&["disk", "remove", "s", "--delete", "--temporary"]);
    assert_eq!(both.status.code(), Some(2), "{both:?}");
    let (head, _) = folder.http("DELETE /v1/disks/s?lasts=until-restart&delete=true", "");
    assert!(head.contains("422"), "{head}");
    assert_eq!(
        folder.sublet_ok(&["disk", "remove", "s", "--delete"]),
        format!("s: removed; its file {} is deleted\n", file.display())
    );
    assert!(!file.exists());

    let backing = image(&folder, "vm/db.img");
    assert!(add_db(&folder, &backing, &[]).status.success());
    let refused = folder.sublet(&["disk", "remove", "db", "--delete"]);
    assert!(
        text(&refused.stderr).contains("was named by its owner"),
        "{refused:?}"
    );
    assert_eq!(names(&folder), ["db"], "nothing was done");
    folder.sublet_ok(&["disk", "remove", "db"]);
    assert!(Path::new(&backing).exists());
}

#[test]
fn of_a_disk_that_could_not_be_added_nothing_stays() {
    let folder = Folder::new();
    let _daemon = serve(&folder, "");
    // A file is in the way of the second listener, and no file system has such a size.
    folder.write("taken.sock", "");
    let (first, taken) = (listen(&folder, "a.sock"), listen(&folder, "taken.sock"));
    let swap = |size: &str, more: &[&str]| {
        let mut args = vec!["disk", "add", "s", "--kind", "swap", "--tenant", "new"];
        args.extend(["--size", size, "--listen", &first]);
        args.extend(more);
        folder.sublet(&args)
    };
    for refused in [swap("1MiB", &["--listen", &taken]), swap("16TiB", &[])] {
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert_eq!(tenants(&folder), ["web"]);
        assert_eq!(names(&folder), Vec::<String>::new());
        assert!(!folder.path("a.sock").exists());
        assert!(!folder.path("state/disks/s.swap").exists());
    }
    // A folder is in the way of the file that records live changes.
    let live = folder.path("state/live.toml");
    std::fs::create_dir_all(live.join("in-the-way")).expect("made");
    let refused = swap("1MiB", &[]);
    assert!(text(&refused.stderr).contains("live.toml"), "{refused:?}");
    assert_eq!(tenants(&folder), ["web"]);
    assert_eq!(names(&folder), Vec::<String>::new());
    assert!(!folder.path("state/disks/s.swap").exists());
    std::fs::remove_dir_all(&live).expect("removed");
    folder.sublet_ok(&["tenants", "set", "web", "--weight", "3"]);
    assert!(swap("1MiB", &[]).status.success());
    let new = folder.admin().tenant(&"new".parse().expect("a name"));
    assert_eq!(new.expect("made anew").pages.pools, 1);
}
