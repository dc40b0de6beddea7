//! Disks in files, in requests and in live changes.

use sublet_types::{DiskKind, DiskName, DiskSettings, Durability};

use super::*;

const DB: &str = "[disks.db]\ntenant = \"db\"\nbacking = \"/var/lib/vm/db.img\"\nlisten = [\"unix:/run/db.sock\"]\n";

const SWAP: &str = "[disks.web]\ntenant = \"web\"\nkind = \"swap\"\nsize = \"4GiB\"\nlisten = [\"vhost-user:/run/w\"]\n";

fn disk(text: &str) -> DiskName {
    text.parse().expect(text)
}

/// A folder with a config file and a state folder, and the way to load both.
struct ConfigFixture(tempfile::TempDir);

impl ConfigFixture {
    fn with(config: &str) -> ConfigFixture {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("c.toml"), config).expect("written");
        ConfigFixture(folder)
    }

    fn load(&self) -> LoadedConfig {
        let state = self.0.path().join("state").display().to_string();
        load(Some(&self.0.path().join("c.toml")), &[("state", state)]).expect("loads")
    }
}

fn swap() -> DiskSettings {
    let said = [
        ("tenant", RawValue::Text("guests".into())),
        ("kind", RawValue::Text("swap".into())),
        ("size", RawValue::Text("1GiB".into())),
        (
            "listen",
            RawValue::List(vec!["unix:/run/\"quoted\"".into(), "tcp:[::1]:0".into()]),
        ),
        ("mode", RawValue::Text("0660".into())),
        ("durability", RawValue::Text("memory".into())),
        ("slow", RawValue::Text("250us, 1.5MB/s".into())),
        ("queues", RawValue::Number(4)),
        ("tls_cert", RawValue::Text("/c".into())),
        ("tls_key", RawValue::Text("/k".into())),
        ("tls_client_ca", RawValue::Text("/a".into())),
    ];
    let said = said.map(|(key, said)| (key.to_owned(), said));
    parse_requested_disk(&disk("swap.1"), said).expect("right")
}

/// NBD tells disks apart by their names. A disk that is added at another's place while the daemon runs is there after a
/// restart.
#[test]
fn disks_may_share_a_place_of_nbd() {
    let swap = SWAP.replace("vhost-user:/run/w", "unix:/run/db.sock");
    let config = read(&format!("{DB}{swap}")).expect("right");
    assert_eq!(config.disks[0].listen, config.disks[1].listen);
    let both = |text: &str| text.replace("vhost-user:/run/w", "vhost-user:/run/db.sock");
    let shared = DB.replace("unix:/run/db.sock", "vhost-user:/run/db.sock");
    let told = read(&format!("{shared}{}", both(SWAP))).expect_err("one disk a socket");
    assert!(told.to_string().contains("is listed already"), "{told}");
}

#[test]
fn certificates_are_for_tcp() {
    let told = read(&format!("{DB}tls_cert = \"/c\"\ntls_key = \"/k\"\n"));
    let told = told.expect_err("a Unix socket").to_string();
    let expected = "t.toml:5: `disks.db.tls_cert` is for NBD over TCP, and the disk listens at no `tcp:` place";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn disks_that_nobody_writes_may_share_a_backing() {
    let db = format!("{DB}read_only = true\n");
    let second = db
        .replace("disks.db", "disks.dd")
        .replace("db.sock", "dd.sock");
    assert!(read(&format!("{db}{second}")).is_ok());
}

#[test]
fn a_disk_of_a_file_has_the_defaults_of_the_table_and_its_tenant_is_made() {
    let config = read(&format!("{DB}{SWAP}")).expect("right");
    let [db, web] = &config.disks[..] else {
        panic!("two disks: {:?}", config.disks)
    };
    assert_eq!((db.kind, db.mode, db.queues), (DiskKind::Disk, 0o600, 1));
    assert_eq!(db.durability(), Durability::WriteThrough);
    assert_eq!(
        (web.kind, web.durability()),
        (DiskKind::Swap, Durability::WriteBehind)
    );
    assert_eq!(web.size, Some(Bytes::gib(4)));
    assert_eq!(config.disk.dirty_max, Bytes::mib(256));
    let tenants: Vec<&str> = config
        .tenants
        .iter()
        .map(|t| t.settings.name.as_str())
        .collect();
    assert_eq!(tenants, ["db", "web"], "nobody is served who was not named");
    assert!(config.tenants.iter().all(|tenant| tenant.listen.is_empty()));
    assert_eq!(read("").expect("right").disks, []);
}

#[test]
fn a_tenant_of_a_disk_may_be_granted_things_without_a_listener() {
    let config = read(&format!("{DB}[tenants.db]\nweight = 7\n")).expect("right");
    assert_eq!(config.tenants[0].settings.weight, Weight(7));
}

#[test]
fn what_is_wrong_with_a_disk_is_named_with_its_line() {
    for (text, expected) in [
        (
            "[disks.db]\nbakcing = 1".to_owned(),
            "t.toml:2: unknown key `bakcing` in [disks.db]; did you mean `backing`?",
        ),
        (
            "[disks.db]\nweight = 1".into(),
            "t.toml:2: unknown key `weight` in [disks.db]; it belongs in [tenants.NAME]",
        ),
        (
            "[disk]\nbacking = \"/x\"".into(),
            "t.toml:2: unknown key `backing` in [disk]; it belongs in [disks.NAME]",
        ),
        (
            "[disk]\nallow = \"vm\"".into(),
            "t.toml:2: `disk.allow` \"vm\" does not begin with /",
        ),
        (
            "[disks]\ndb = 3".into(),
            "t.toml:2: `disks.db` must be a table; write [disks.db]",
        ),
        (
            "[disks.\"-x\"]".into(),
            "t.toml:1: \"-x\" is no name for a disk: use 1 to 64 letters, digits, '-', '_' or '.', beginning with a letter or digit",
        ),
        (
            format!("{DB}kind = \"swpa\""),
            "t.toml:5: `disks.db.kind` \"swpa\" is none of disk, swap; did you mean \"swap\"?",
        ),
        (
            format!("{DB}size = 4097"),
            "t.toml:5: `disks.db.size` must be 64.0 KiB to 16.0 TiB",
        ),
        (
            format!("{DB}size = 65537"),
            "t.toml:5: `disks.db.size` must be whole pages of 4 KiB",
        ),
        (
            format!("{DB}slow = \"slowly\""),
            "t.toml:5: `disks.db.slow` \"slowly\" does not say how slow: write a latency up to 60s, a bandwidth, or both, such as \"4ms, 100MB/s\"",
        ),
        (
            DB.replace("unix:", "nbd:"),
            "t.toml:4: `disks.db.listen` \"nbd:/run/db.sock\" is none of unix:PATH, tcp:HOST:PORT and vhost-user:PATH",
        ),
        (
            DB.replace("\"/var", "\"var"),
            "t.toml:3: `disks.db.backing` \"var/lib/vm/db.img\" does not begin with /",
        ),
        (
            DB.replace("tenant", "#"),
            "t.toml:1: disk `db` names no tenant; give it one: `tenant = \"db\"`",
        ),
        (
            DB.replace("listen", "#"),
            "t.toml:1: disk `db` listens nowhere; give it `listen = [\"unix:/run/sublet/db.sock\"]`",
        ),
        (
            DB.replace("backing", "#"),
            "t.toml:1: disk `db` has no backing; name its file or block device: `backing = \"/var/lib/vm/db.img\"`",
        ),
        (
            SWAP.replace("size", "#"),
            "t.toml:1: swap disk `web` has neither a backing nor a size; give it one: `size = \"4GiB\"`",
        ),
        (
            format!("{DB}durability = \"memory\""),
            "t.toml:5: `disks.db.durability` is for swap: what is written to a disk always goes to its backing first (write-through)",
        ),
        (
            format!("{SWAP}fill = \"miss\""),
            "t.toml:6: `disks.web.fill` is for disks, and this one is swap",
        ),
        (
            format!("{SWAP}windows = \"whole\""),
            "t.toml:6: `disks.web.windows` is for disks, and this one is swap",
        ),
        (
            format!("{DB}tls_client_ca = \"/ca\""),
            "t.toml:5: `disks.db.tls_client_ca` needs `tls_cert` beside it",
        ),
        (
            format!(
                "{DB}{}mode = \"0660\"\n",
                SWAP.replace("vhost-user:/run/w", "unix:/run/db.sock")
            ),
            "t.toml:9: `disks.web.listen`: unix:/run/db.sock is shared with the disk at t.toml:4, so both need the same mode",
        ),
        (
            format!(
                "{}{}tls_cert = \"/c\"\ntls_key = \"/k\"\n",
                DB.replace("unix:/run/db.sock", "tcp:127.0.0.1:10809"),
                SWAP.replace("vhost-user:/run/w", "tcp:127.0.0.1:10809")
            ),
            "t.toml:9: `disks.web.listen`: tcp:127.0.0.1:10809 is shared with the disk at t.toml:4, so both need the same tls_cert, tls_key and tls_client_ca",
        ),
        (
            DB.replace("sock\"", "sock\", \"unix:/run/db.sock\""),
            "t.toml:4: `disks.db.listen`: unix:/run/db.sock is listed already, at t.toml:4",
        ),
        (
            DB.replace("sock\"", "sock\", \"vhost-user:/run/db.sock\""),
            "t.toml:4: `disks.db.listen`: vhost-user:/run/db.sock is listed already, at t.toml:4",
        ),
        (
            format!(
                "{DB}{}",
                DB.replace("disks.db", "disks.dd")
                    .replace("db.sock", "dd.sock")
            ),
            "t.toml:7: `disks.dd.backing`: /var/lib/vm/db.img is another disk's already, at t.toml:3",
        ),
    ] {
        assert_eq!(complaint(&text), expected, "{text}");
    }
}

#[test]
fn a_request_is_told_all_that_is_wrong_with_it() {
    let ask = |said: &[(&str, &str)]| {
        let said = said.iter();
        let said = said.map(|(key, text)| ((*key).to_owned(), RawValue::Text((*text).to_owned())));
        parse_requested_disk(&disk("db"), said).map_err(|faults| faults.to_string())
    };
    let wrong = ask(&[("splice", "true")]).expect_err("retired").to_string();
    assert!(
        wrong.contains("`disks.db.splice` is a retired knob"),
        "{wrong}"
    );
    let wrong = ask(&[("sise", "4GiB"), ("mode", "rw"), ("removed", "true")]);
    let wrong = wrong.expect_err("wrong");
    let lines: Vec<&str> = wrong.lines().collect();
    assert_eq!(lines.len(), 3, "{wrong}");
    assert_eq!(
        lines[0],
        "unknown key `sise` in [disks.db]; did you mean `size`?"
    );
    assert!(lines[2].starts_with("unknown key `removed`"), "{wrong}");
    assert_eq!(ask(&[]).expect_err("empty").lines().count(), 3);
    let twice = ["unix:/a", "tcp:[::1]:0", "vhost-user:/a", "tcp:[::1]:0"];
    let twice = RawValue::List(twice.map(str::to_owned).to_vec());
    let said = [("tenant", "t"), ("backing", "/b")];
    let said = said.map(|(key, text)| (key.to_owned(), RawValue::Text(text.to_owned())));
    let said = said.into_iter().chain([("listen".to_owned(), twice)]);
    assert_eq!(
        parse_requested_disk(&disk("db"), said)
            .expect_err("wrong")
            .to_string(),
        "`disks.db.listen`: vhost-user:/a is listed twice"
    );
}

#[test]
fn what_the_admin_interface_shows_of_a_disk_can_be_asked_for_again() {
    for shown in [swap(), read(DB).expect("right").disks[0].clone()] {
        let json = serde_json::to_value(&shown).expect("JSON");
        let keys = json.as_object().expect("a table").iter();
        let said = keys.filter(|(key, value)| *key != "name" && !value.is_null());
        let said = said.map(|(key, value)| (key.clone(), RawValue::from_json(value)));
        assert_eq!(parse_requested_disk(&shown.name, said).as_ref(), Ok(&shown));
        assert_eq!(
            serde_json::from_value::<DiskSettings>(json).expect("read"),
            shown
        );
    }
}

#[test]
fn a_disk_that_was_added_live_is_there_after_a_restart_with_all_that_was_said() {
    let home = ConfigFixture::with(WEB);
    let loaded = home.load();
    let added = DiskChange::Added(Box::new(swap()));
    let live = loaded.live.with_disk(disk("swap.1"), Some(added.clone()));
    live.write().expect("kept");
    let before = loaded.config;
    drop((loaded.live, live));
    let again = home.load();
    assert_eq!(again.config.disks, [swap()]);
    assert_eq!(again.live.disk(&disk("swap.1")), Some(&added));
    assert!(
        again
            .config
            .tenants
            .iter()
            .any(|t| t.settings.name == name("guests"))
    );
    assert_eq!(again.written.disks, []);
    assert!(again.orphans.is_empty());

    let live = again.live.with_disk(disk("swap.1"), None);
    live.write().expect("kept");
    assert_eq!(home.load().config, before);
}

#[test]
fn a_disk_of_the_config_that_was_removed_live_stays_removed_until_it_is_added() {
    let home = ConfigFixture::with(&format!("{DB}{SWAP}"));
    let live = home.load().live;
    let live = live.with_disk(disk("db"), Some(DiskChange::Removed));
    let live = live.with_disk(disk("web"), Some(DiskChange::Resized(Bytes::gib(8))));
    live.write().expect("kept");
    let loaded = home.load();
    assert_eq!(loaded.config.disks.len(), 1);
    assert_eq!(loaded.config.disks[0].size, Some(Bytes::gib(8)));
    assert_eq!(loaded.written.disks.len(), 2);
    assert_eq!(loaded.live.disk(&disk("db")), Some(&DiskChange::Removed));

    let mut other = swap();
    other.name = disk("db");
    let added = DiskChange::Added(Box::new(other.clone()));
    let live = live.with_disk(disk("db"), Some(added));
    live.write().expect("kept");
    assert_eq!(home.load().config.disks[0], other, "no mixture of the two");
}

#[test]
fn live_changes_of_disks_that_are_gone_are_told() {
    let home = ConfigFixture::with(WEB);
    let live = home.load().live;
    let live = live.with_disk(disk("gone"), Some(DiskChange::Resized(Bytes::gib(8))));
    let live = live.with_disk(disk("away"), Some(DiskChange::Removed));
    live.write().expect("kept");
    let loaded = home.load();
    assert_eq!(loaded.orphans, ["disks.away", "disks.gone"]);
    assert_eq!(loaded.config, loaded.written);
}

/// Live disks are there beside the config's, which may change.
#[test]
fn a_folder_that_was_allowed_live_is_allowed_beside_those_of_the_config() {
    let home = ConfigFixture::with(&format!("[disk]\nallow = [\"/a\"]\n{WEB}"));
    let mut live = home.load().live;
    for folder in ["/b", "/b", "/c \"d\""] {
        live = live.with_folder(folder.into());
    }
    live.write().expect("kept");
    drop(live);
    let loaded = home.load();
    let all = ["/a", "/b", "/c \"d\""].map(std::path::PathBuf::from);
    assert_eq!(loaded.config.disk.allow, all);
    assert_eq!(loaded.written.disk.allow, all[..1]);
    assert_eq!(loaded.live.folders(), &all[1..]);
}

/// What a daemon wrote down itself is no reason not to start. It goes with the next change.
#[test]
fn a_retired_knob_of_an_older_daemon_is_passed_over() {
    let home = ConfigFixture::with(WEB);
    let loaded = home.load();
    let added = DiskChange::Added(Box::new(swap()));
    let live = loaded.live.with_disk(disk("swap.1"), Some(added));
    live.write().expect("kept");
    let path = live.path().expect("a folder");
    drop((loaded.live, live));
    let text = fs::read_to_string(&path).expect("text");
    let older = text.replace("queues = 4", "queues = 4\nsplice = true");
    assert_ne!(older, text);
    fs::write(&path, older).expect("written");
    let again = home.load();
    assert_eq!(again.config.disks, [swap()]);
    again.live.write().expect("kept");
    assert_eq!(fs::read_to_string(&path).expect("text"), text);
}

#[test]
fn a_retired_knob_is_refused_in_a_sentence() {
    assert_eq!(
        complaint("[disks.db]\nsplice = true"),
        "t.toml:2: `disks.db.splice` is a retired knob; leave it out: large replies over NBD are always copied"
    );
}
