//! Save files, through the command: out of one daemon and into another.

use std::path::Path;

use sublet_client::ring::{Client, GetOutcome, Key, PutOutcome, Refusal};
use sublet_types::{Bytes, ObjectId, PageIndex, PoolFlags, PoolId};

use crate::daemon::{Daemon, Folder, text};

const PERSISTENT: PoolFlags = PoolFlags {
    persistent: true,
    shared: false,
    keeping: false,
};

const PAGES: u32 = 700;

/// Starts a daemon whose tenant `web` has a ring and a spill folder. `bare` has only a ring, `wiki` has none.
fn start(folder: &Folder) -> Daemon {
    start_with(folder, "8MiB")
}

fn start_with(folder: &Folder, spill_size: &str) -> Daemon {
    let shown = |name: &str| folder.path(name).display().to_string();
    folder.serve_config(&format!(
        "[tenants.web]\nlisten = [\"ring:{}\"]\nspill = \"{}\"\nspill_size = \"{spill_size}\"\n\
         [tenants.bare]\nlisten = [\"ring:{}\"]\n\
         [tenants.wiki]\nlisten = [\"tcp:127.0.0.1:0\"]\n",
        shown("ring"),
        shown("spill"),
        shown("bare")
    ))
}

fn key(pool: PoolId, index: u32) -> Key {
    Key {
        pool,
        object: ObjectId(u64::from(index % 3)),
        index: PageIndex(index),
    }
}

fn page(index: u32) -> [u8; 4096] {
    let mut page = [index as u8; 4096];
    page[..4].copy_from_slice(&index.to_le_bytes());
    page
}

/// A client with a persistent pool of `PAGES` pages.
fn with_pages(folder: &Folder) -> (Client, PoolId) {
    let mut client = Client::connect(folder.path("ring")).expect("let in");
    let pool = client.create_pool(PERSISTENT, None).expect("a pool");
    for index in 0..PAGES {
        let put = client.put(key(pool, index), &page(index));
        assert_eq!(put, Ok(PutOutcome::Stored));
    }
    (client, pool)
}

/// Runs `sublet …`, which must fail with this exit code. Returns its message.
fn refused(folder: &Folder, code: i32, args: &[&str]) -> String {
    let output = folder.sublet(args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    said
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn pages_go_from_one_daemon_to_another() {
    let (from, to) = (Folder::new(), Folder::new());
    let _from = start(&from);
    let (mut client, pool) = with_pages(&from);
    let frozen = from.sublet_ok(&["tenants", "freeze", "web"]);
    assert!(frozen.contains("frozen: new pages are refused"), "{frozen}");
    let new = client.put(key(pool, PAGES), &page(PAGES));
    assert_eq!(new, Ok(PutOutcome::Refused(Refusal::Frozen)));
    let file = from.path("web.save");
    let granted = ["--weight", "150", "--floor", "2MiB", "--ceiling", "40MiB"];
    from.sublet_ok(&[&["tenants", "set", "web"][..], &granted].concat());
    let saved = from.sublet_ok(&["tenants", "save", "web", path_text(&file)]);
    assert!(saved.contains("700 pages of 1 pool saved in"), "{saved}");
    from.sublet_ok(&["tenants", "thaw", "web"]);
    let new = client.put(key(pool, PAGES), &page(PAGES));
    assert_eq!(new, Ok(PutOutcome::Stored), "it goes on after the save");

    let _to = start(&to);
    let restored = to.sublet_ok(&["tenants", "restore", "web", path_text(&file), "--json"]);
    let report: serde_json::Value = serde_json::from_str(&restored).expect("JSON");
    assert_eq!(
        (&report["pools"], &report["pages"]),
        (&1.into(), &700.into())
    );
    assert_eq!(report["frozen"], true, "as it was saved");
    let web = "web".parse().expect("a name");
    let status = to.admin().tenant(&web).expect("a status");
    assert_eq!(status.weight.0, 150, "as it was granted");
    assert_eq!(status.floor, Some(Bytes::mib(2)));
    assert_eq!(status.ceiling, Some(Bytes::mib(40)));
    let ring = status.ring.expect("it has a ring");
    assert_eq!(ring.pools_waiting, 1);

    let mut client = Client::connect(to.path("ring")).expect("let in");
    let other = client.create_pool(PoolFlags::default(), None);
    let mut bytes = [0; 4096];
    let none = client.get(key(other.expect("a pool"), 1), &mut bytes);
    assert_eq!(none, Ok(GetOutcome::Miss), "other flags, another pool");
    let pool = client.create_pool(PERSISTENT, None).expect("the pool");
    for index in 0..PAGES {
        assert_eq!(
            client.get(key(pool, index), &mut bytes),
            Ok(GetOutcome::Hit)
        );
        assert_eq!(bytes, page(index));
    }
    assert_eq!(
        client.get(key(pool, PAGES), &mut bytes),
        Ok(GetOutcome::Miss)
    );
    let second = client.create_pool(PERSISTENT, None).expect("a new one");
    assert_eq!(client.get(key(second, 0), &mut bytes), Ok(GetOutcome::Miss));
}

/// The grants in the file apply if nothing else is said, and only with its pages.
#[test]
fn grants_are_restored_unless_they_are_to_be_kept() {
    let (from, to) = (Folder::new(), Folder::new());
    let _from = start(&from);
    let _pages = with_pages(&from);
    let file = from.path("web.save");
    let set = ["tenants", "set", "web", "--weight", "150"];
    from.sublet_ok(&[&set[..], &["--eviction", "s3fifo"]].concat());
    from.sublet_ok(&["tenants", "save", "web", path_text(&file)]);
    let _to = start(&to);
    let web = || {
        let web = "web".parse().expect("a name");
        to.admin().tenant(&web).expect("a status")
    };
    let weight = || web().weight.0;
    to.sublet_ok(&["tenants", "set", "web", "--weight", "30"]);
    let bad = to.path("bad.save");
    std::fs::write(&bad, &std::fs::read(&file).expect("the file")[..5000]).expect("written");
    refused(&to, 1, &["tenants", "restore", "web", path_text(&bad)]);
    assert_eq!(weight(), 30, "nothing was restored");
    to.sublet_ok(&[
        "tenants",
        "restore",
        "web",
        path_text(&file),
        "--keep-grants",
    ]);
    assert_eq!((weight(), web().eviction), (30, "auto".to_owned()));
    to.sublet_ok(&["tenants", "discard", "web"]);
    to.sublet_ok(&["tenants", "thaw", "web"]);
    to.sublet_ok(&["tenants", "restore", "web", path_text(&file)]);
    assert_eq!((weight(), web().eviction), (150, "s3fifo".to_owned()));
    assert!(
        to.sublet_ok(&["status"])
            .contains("web.eviction is s3fifo; the config says auto (kept)")
    );
}

/// A restore that fails after it made some pages leaves the grants as they were: those that are kept over a restart, and
/// those that are not.
#[test]
fn a_restore_that_finds_no_place_grants_nothing() {
    let (from, to) = (Folder::new(), Folder::new());
    let _from = start(&from);
    let _pages = with_pages(&from);
    let file = from.path("web.save");
    let set = ["tenants", "set", "web", "--weight", "150"];
    from.sublet_ok(&[&set[..], &["--eviction", "s3fifo"]].concat());
    from.sublet_ok(&["tenants", "save", "web", path_text(&file)]);
    let _to = start_with(&to, "2MiB");
    to.sublet_ok(&["tenants", "set", "web", "--weight", "30"]);
    to.sublet_ok(&["tenants", "set", "web", "--weight", "40", "--temporary"]);
    let live = || std::fs::read_to_string(to.path("state/live.toml")).expect("what is kept");
    let before = live();
    let why = refused(&to, 1, &["tenants", "restore", "web", path_text(&file)]);
    assert!(why.contains("spill"), "{why}");
    assert_eq!(live(), before);
    let web = "web".parse().expect("a name");
    let status = to.admin().tenant(&web).expect("a status");
    assert_eq!(status.weight.0, 40);
    assert_eq!(status.ring.expect("it has a ring").pools_waiting, 0);
}

#[test]
fn a_save_file_that_was_cut_or_changed_is_refused_and_harms_nothing() {
    let folder = Folder::new();
    let _daemon = start(&folder);
    let (mut client, pool) = with_pages(&folder);
    let file = folder.path("web.save");
    folder.sublet_ok(&["tenants", "save", "web", path_text(&file)]);
    let good = std::fs::read(&file).expect("the file");
    let bad = folder.path("bad.save");
    let restore = ["tenants", "restore", "web", path_text(&bad)];
    for cut in [0, 7, 21, 50, 5000, good.len() - 1] {
        std::fs::write(&bad, &good[..cut]).expect("written");
        let why = refused(&folder, 1, &restore);
        let expected = format!("{}: the save file ends after {cut} bytes", bad.display());
        assert!(why.contains(&expected), "{why}");
        assert!(why.contains("nothing was restored"), "{why}");
    }
    let mut changed = good.clone();
    changed[5000] ^= 1;
    std::fs::write(&bad, &changed).expect("written");
    let why = refused(&folder, 1, &restore);
    assert!(
        why.contains("the save file is damaged at byte 4208"),
        "{why}"
    );
    std::fs::write(&bad, b"[tenants.web] is no save file").expect("written");
    let why = refused(&folder, 1, &restore);
    assert!(why.contains("this is no save file of Sublet"), "{why}");

    let mut bytes = [0; 4096];
    for index in 0..PAGES {
        assert_eq!(
            client.get(key(pool, index), &mut bytes),
            Ok(GetOutcome::Hit)
        );
        assert_eq!(bytes, page(index));
    }
    let second = client.create_pool(PERSISTENT, None).expect("a new one");
    assert_eq!(client.get(key(second, 0), &mut bytes), Ok(GetOutcome::Miss));
}

#[test]
fn what_cannot_be_saved_or_restored_says_what_to_do() {
    let folder = Folder::new();
    let _daemon = start(&folder);
    let (client, _) = with_pages(&folder);
    let file = folder.path("web.save");
    let (file, none) = (path_text(&file), folder.path("none/x.save"));
    let part = folder.path("web.save.part");
    std::fs::write(&part, "of a daemon that was killed").expect("written");
    let saved = folder.sublet_ok(&["tenants", "save", "web", file]);
    assert!(saved.contains("It was not frozen"), "{saved}");
    assert!(!part.exists(), "it became the file");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(file).expect("the file").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);

    let why = refused(&folder, 1, &["tenants", "save", "web", file]);
    assert!(why.contains("exists already; name another"), "{why}");
    assert!(!part.exists());
    let why = refused(&folder, 1, &["tenants", "save", "web", path_text(&none)]);
    assert!(
        why.contains("cannot write") && why.contains("its state folder"),
        "{why}"
    );
    let why = refused(&folder, 1, &["tenants", "save", "nobody", file]);
    assert!(why.contains("no tenant is called nobody"), "{why}");
    let why = refused(&folder, 1, &["tenants", "restore", "wiki", file]);
    assert!(why.contains("wiki has no ring"), "{why}");
    let why = refused(&folder, 1, &["tenants", "restore", "bare", file]);
    assert!(why.contains("bare has no spill folder"), "{why}");
    let why = refused(&folder, 1, &["tenants", "restore", "web", path_text(&none)]);
    assert!(why.contains("cannot read"), "{why}");
    let why = refused(&folder, 1, &["tenants", "restore", "web", "/"]);
    assert!(why.contains("/ is no file"), "{why}");
    let (head, _) = folder.http("POST /v1/tenants/web/save", "{\"file\": \"x\"}");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");

    folder.sublet_ok(&["tenants", "restore", "web", file]);
    let why = refused(&folder, 1, &["tenants", "restore", "web", file]);
    assert!(
        why.contains("1 restored pools of tenant web still wait"),
        "{why}"
    );
    folder.sublet_ok(&["tenants", "discard", "web"]);
    folder.sublet_ok(&["tenants", "freeze", "web"]);
    let why = refused(&folder, 1, &["tenants", "restore", "web", file]);
    assert!(why.contains("web is frozen"), "{why}");
    drop(client);
}
