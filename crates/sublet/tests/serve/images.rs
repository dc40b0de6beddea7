//! Images that are made for disks, and the folders where backings may lie.

use std::fs;
use std::os::unix::fs::MetadataExt;

use sublet_client::messages::{AllowFolder, ChangeLifetime};

use crate::content::page_of;
use crate::daemon::{Daemon, Folder, text};
use crate::guest::Guest;

const README: &str = include_str!("../../../../README.md");

/// Starts a daemon on a host where the folder for images does not exist.
fn serve(folder: &Folder) -> Daemon {
    folder.serve_config(&format!(
        "[disk]\nallow = [{:?}]\n[tenants.t]\nlisten = [\"unix:{}\"]\n",
        folder.path("vm"),
        folder.path("t.sock").display()
    ))
}

fn listen(folder: &Folder) -> String {
    format!("unix:{}", folder.path("db.sock").display())
}

/// The commands run as printed, except for the folder of the sockets and the size of the swap.
#[test]
fn the_readmes_first_disks_work_as_printed() {
    let folder = Folder::new();
    let _daemon = serve(&folder);
    let lines = README
        .lines()
        .filter_map(|line| line.strip_prefix("$ sublet disk "));
    let mut done = 0;
    for line in lines {
        let line = line.split('#').next().unwrap_or_default();
        let line = line.replace("/run/sublet/", &format!("{}/", folder.path("").display()));
        let line = line.replace("4GiB", "4MiB");
        let words: Vec<&str> = ["disk"]
            .into_iter()
            .chain(line.split_whitespace())
            .collect();
        folder.sublet_ok(&words);
        done += 1;
    }
    assert!(done >= 3, "the README makes disks");
    let image = fs::metadata(folder.path("vm/db.img")).expect("an image");
    assert_eq!((image.len(), image.mode() & 0o777), (20 << 30, 0o600));
    let mut guest = Guest::of(&folder.path("db.sock"), "db");
    assert_eq!(guest.write_page(9, 9), 0);
}

#[test]
fn an_image_that_was_made_comes_back_and_none_stays_of_a_disk_that_was_not_added() {
    let folder = Folder::new();
    let daemon = serve(&folder);
    let listen = listen(&folder);
    let create = ["disk", "create", "db", "--size", "1MiB", "--tenant", "t"];
    let create = [&create[..], &["--listen", &listen]].concat();
    let said = folder.sublet_ok(&create);
    assert!(said.contains("vm/db.img"), "{said}");
    assert_eq!(Guest::of(&folder.path("db.sock"), "db").write_page(7, 7), 0);
    assert_eq!(daemon.end().0, Some(0));

    let _next = serve(&folder);
    assert!(Guest::of(&folder.path("db.sock"), "db").read_page(7) == page_of(7));
    folder.sublet_ok(&["disk", "remove", "db"]);
    let refused = folder.sublet(&create);
    assert!(
        text(&refused.stderr).contains("exists already"),
        "{refused:?}"
    );
    let nowhere = [
        "disk", "create", "other", "--size", "1MiB", "--tenant", "t", "--listen",
    ];
    let refused = folder.sublet(&[&nowhere[..], &["unix:/no/such/folder.sock"]].concat());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(!folder.path("vm/other.img").exists());
    assert!(folder.path("vm/db.img").exists(), "what was there stays");
}

#[test]
fn a_folder_that_is_allowed_live_needs_no_restart_and_outlasts_one() {
    let folder = Folder::new();
    let daemon = serve(&folder);
    let (listen, images) = (listen(&folder), folder.path("images"));
    let image = images.join("a.img");
    let (images, image) = (images.display().to_string(), image.display().to_string());
    let add = [
        "disk",
        "add",
        "db",
        "--tenant",
        "t",
        "--listen",
        &listen,
        "--backing",
        &image,
    ];
    let refused = folder.sublet(&add);
    let why = text(&refused.stderr);
    assert!(why.contains("lies in none of the folders"), "{why}");
    assert!(why.contains("vm (which is not there)"), "{why}");
    assert!(
        why.contains("sublet disk allow") && !why.contains("restart"),
        "{why}"
    );
    let refused = folder.sublet(&["disk", "allow", &images]);
    assert!(
        text(&refused.stderr).contains("No such file"),
        "{refused:?}"
    );

    fs::create_dir(&images).expect("made");
    let said = folder.sublet_ok(&["disk", "allow", &images]);
    assert!(said.contains(&images), "{said}");
    let refused = folder.sublet(&add);
    assert!(
        text(&refused.stderr).contains("No such file"),
        "{refused:?}"
    );
    fs::write(&image, vec![0; 1 << 20]).expect("written");
    folder.sublet_ok(&add);
    assert_eq!(daemon.end().0, Some(0));

    let _next = serve(&folder);
    assert!(Guest::of(&folder.path("db.sock"), "db").read_page(7) == [0; 4096]);
    let again = AllowFolder {
        folder: images.clone(),
        lasts: ChangeLifetime::Always,
    };
    let all = folder.admin().allow_folder(&again).expect("allowed");
    assert_eq!(
        all.folders.len(),
        2,
        "once, and the config's stays: {all:?}"
    );
    let status = folder.sublet_ok(&["status"]);
    assert!(status.contains("disk.allow"), "{status}");
}
