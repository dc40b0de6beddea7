mod cluster;
mod disks;
mod lending;
mod versions;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use sublet_types::{Bytes, TenantName, Weight};

use super::*;

fn read(text: &str) -> Result<Config, ConfigFaults> {
    let mut written = WrittenConfig::defaults();
    written.read(Path::new("t.toml"), text)?;
    written.add_default_tenant();
    written.resolve()
}

fn complaint(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

fn name(text: &str) -> TenantName {
    text.parse().expect(text)
}

const WEB: &str = "[tenants.web]\nlisten = [\"tcp:127.0.0.1:1\"]\n";

/// What a wrong value for a knob of either kind leads to.
fn set_in_table(table: &str, key: &str, value: &str) -> String {
    match table {
        "tenants.NAME" => format!("[tenants.web]\n{key} = {value}\n"),
        "disks.NAME" => format!("[disks.db]\n{key} = {value}\n"),
        table => format!("[{table}]\n{key} = {value}\n"),
    }
}

#[test]
fn the_default_file_means_what_no_file_means() {
    assert_eq!(read(&default_file()), read(""));
}

#[test]
fn every_line_of_the_default_file_may_be_taken_out_of_its_comment() {
    let setting = |line: &str| {
        line.split_once(" = ")
            .is_some_and(|(key, _)| !key.contains(' '))
    };
    let file = default_file();
    let bare = file.lines().map(|line| match line.strip_prefix("# ") {
        Some(rest) if setting(rest) || rest.starts_with('[') => rest,
        _ => line,
    });
    let text = bare.collect::<Vec<_>>().join("\n");
    let count = text.lines().filter(|line| setting(line)).count();
    let daemon = DAEMON_KNOBS.len() + LENDING_KNOBS.len();
    let all = daemon + TENANT_KNOBS.len() + DISK_KNOBS.len();
    assert_eq!(count, all);
    WrittenConfig::defaults()
        .read(Path::new("t.toml"), &text)
        .expect(&text);
}

#[test]
fn every_knob_has_its_own_place_and_says_why_its_default() {
    let mut seen = BTreeSet::new();
    let mut flags = BTreeSet::new();
    let daemon = DAEMON_KNOBS
        .iter()
        .map(|k| (k.table, k.name, k.why, k.help, k.flag));
    let tenant = TENANT_KNOBS
        .iter()
        .map(|k| (k.table, k.name, k.why, k.help, k.flag));
    let lending = LENDING_KNOBS
        .iter()
        .map(|k| (k.table, k.name, k.why, k.help, k.flag));
    for (table, name, why, help, flag) in daemon.chain(lending).chain(tenant) {
        assert!(seen.insert((table, name)), "{table}.{name} twice");
        assert!(!why.is_empty() && !help.is_empty(), "{table}.{name}");
        assert!(
            !help.ends_with('.') && !why.ends_with('.'),
            "{table}.{name}"
        );
        assert!(flag.is_none_or(|flag| flags.insert(flag)), "{flag:?} twice");
    }
    for knob in DISK_KNOBS {
        let (name, said) = (knob.name, [knob.help, knob.why]);
        assert!(seen.insert((knob.table, name)), "disks.{name} twice");
        assert!(
            said.iter()
                .all(|text| !text.is_empty() && !text.ends_with('.'))
        );
        let flag = name.replace('_', "-");
        assert!(knob.flag.is_none_or(|said| said == flag), "{name}");
    }
}

#[test]
fn every_sample_fits_its_knob_and_a_table_fits_none() {
    let daemon = DAEMON_KNOBS.iter().map(|k| (k.table, k.name, k.sample));
    let tenant = TENANT_KNOBS.iter().map(|k| (k.table, k.name, k.sample));
    let disk = DISK_KNOBS.iter().map(|k| (k.table, k.name, k.sample));
    let lending = LENDING_KNOBS.iter().map(|k| (k.table, k.name, k.sample));
    for (table, key, sample) in daemon.chain(lending).chain(tenant).chain(disk) {
        let mut written = WrittenConfig::defaults();
        let right = set_in_table(table, key, sample);
        written.read(Path::new("t.toml"), &right).expect(&right);
        let wrong = set_in_table(table, key, "{ a = 1.5 }");
        let faults = written
            .read(Path::new("t.toml"), &wrong)
            .expect_err(&wrong)
            .to_string();
        assert!(
            faults.starts_with("t.toml:2: ") && faults.contains(key),
            "{faults}"
        );
    }
}

#[test]
fn a_wrong_key_is_named_with_its_line_and_the_nearest_right_one() {
    for (text, expected) in [
        (
            "[arena]\n\ncieling = 1",
            "t.toml:3: unknown key `cieling` in [arena]; did you mean `ceiling`?",
        ),
        (
            "[tenants.web]\nwieght = 1",
            "t.toml:2: unknown key `wieght` in [tenants.web]; did you mean `weight`?",
        ),
        (
            "[arean]",
            "t.toml:1: no table is called [arean]; did you mean `arena`?",
        ),
        (
            "[tenant.web]",
            "t.toml:1: no table is called [tenant]; did you mean `tenants`?",
        ),
        (
            "ceiling = 1",
            "t.toml:1: no table is called [ceiling]; it belongs in [arena]",
        ),
        (
            "[arena]\nweight = 1",
            "t.toml:2: unknown key `weight` in [arena]; it belongs in [tenants.NAME]",
        ),
        (
            "arena = 3",
            "t.toml:1: `arena` must be a table; write [arena]",
        ),
        (
            "[tenants]\nweb = 3",
            "t.toml:2: `tenants.web` must be a table; write [tenants.web]",
        ),
    ] {
        assert_eq!(complaint(text), expected, "{text}");
    }
}

#[test]
fn a_wrong_value_is_named_with_its_line_and_what_fits() {
    for (text, expected) in [
        (
            "[arena]\nceiling = \"2 furlongs\"",
            "t.toml:2: `arena.ceiling` unknown unit \"furlongs\"; use B, KiB, MiB, GiB or TiB",
        ),
        (
            "[arena]\nfloor = -1",
            "t.toml:2: `arena.floor` no number; write an amount such as 512MiB or 2GiB",
        ),
        (
            "[daemon]\nthreads = 0",
            "t.toml:2: `daemon.threads` must be 1 to 64",
        ),
        (
            "[daemon]\nthreads = -2",
            "t.toml:2: `daemon.threads` must be 1 to 64",
        ),
        (
            "[daemon]\nlog_format = \"jsn\"",
            "t.toml:2: `daemon.log_format` \"jsn\" is none of text, json; did you mean \"json\"?",
        ),
        (
            "[metrics]\nlisten = \"9119\"",
            "t.toml:2: `metrics.listen` \"9119\" is none of tcp:HOST:PORT, unix:PATH and ring:PATH",
        ),
        (
            "[tenants.\"-x\"]",
            "t.toml:1: \"-x\" is no name for a tenant: use 1 to 64 letters, digits, '-', '_' or '.', beginning with a letter or digit",
        ),
        (
            "[tenants.web]\nmode = \"rw\"",
            "t.toml:2: `tenants.web.mode` \"rw\" is no file mode; write it in octal, such as \"0600\"",
        ),
        (
            "[tenants.web]\nlisten = []",
            "t.toml:2: `tenants.web.listen` is empty",
        ),
        (
            "[tenants.web]\nitem_max = 1",
            "t.toml:2: `tenants.web.item_max` must be 1.00 KiB to 1.00 GiB",
        ),
        (
            "[daemon]\nlog = \"inof\"",
            "t.toml:2: `daemon.log` \"inof\" is none of error, warn, info, debug, trace, off; did you mean \"info\"?",
        ),
    ] {
        assert_eq!(complaint(text), expected, "{text}");
    }
}

#[test]
fn what_contradicts_itself_is_named() {
    for (text, expected) in [
        (
            "[arena]\nceiling = \"1GiB\"\nfloor = \"2GiB\"",
            "t.toml:3: `arena.floor` is above `arena.ceiling`".to_owned(),
        ),
        (
            "[arena]\nceiling = \"1MiB\"",
            "t.toml:2: `arena.ceiling` is less than the smallest arena, 16.0 MiB".into(),
        ),
        (
            &format!("[arena]\nceiling = \"1GiB\"\n{WEB}floor = \"2GiB\""),
            "t.toml:2: the tenants' floors are 2.00 GiB together, more than `arena.ceiling`".into(),
        ),
        (
            &format!("{WEB}ceiling = 10"),
            "t.toml:3: `tenants.web.ceiling`: 10 B is less than a block, 2.00 MiB; did you mean 10GiB?".into(),
        ),
        (
            "[tenants.web]\nweight = 3",
            "t.toml:1: tenant `web` listens nowhere; give it `listen = [\"tcp:127.0.0.1:11211\"]`"
                .into(),
        ),
        (
            &format!("{WEB}users = [\"ann\"]"),
            "t.toml:3: `tenants.web.users` needs `auth_file` beside it".into(),
        ),
        (
            &format!("{WEB}tls_key = \"k\""),
            "t.toml:3: `tenants.web.tls_key` needs `tls_cert` beside it".into(),
        ),
        (
            &format!("{WEB}floor = \"4MiB\"\nceiling = \"2MiB\""),
            "t.toml:3: `tenants.web.floor` is above `ceiling`".into(),
        ),
        (
            &format!("{WEB}{}", WEB.replace("web", "wiki")),
            "t.toml:4: `tenants.wiki.listen`: tcp:127.0.0.1:1 is listed already, at t.toml:2"
                .into(),
        ),
        (
            "[admin]\nsocket = \"tcp:127.0.0.1:1\"",
            "t.toml:2: `admin.socket` wants a path (the interface over TCP is `admin.tcp`), not text".into(),
        ),
        (
            "[admin]\ntcp = \"unix:/x\"",
            "t.toml:2: `admin.tcp` must be tcp:HOST:PORT".into(),
        ),
    ] {
        assert_eq!(complaint(text), expected, "{text}");
    }
    let faults = complaint("[admin]\ntcp = \"tcp:127.0.0.1:1\"");
    assert_eq!(faults.lines().count(), 3, "{faults}");
}

#[test]
fn all_faults_are_told_at_once_and_syntax_has_its_line() {
    let faults = complaint("[arena]\nfloor = \"x\"\nceiling = \"y\"\n[daemon]\nlgo = 1\n");
    assert_eq!(faults.lines().count(), 3, "{faults}");
    assert!(complaint("[arena]\nfloor = \n").starts_with("t.toml:2: not TOML: "));
}

#[test]
fn options_stand_over_the_file_and_name_themselves() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("c.toml");
    fs::write(&file, "[arena]\nceiling = \"1GiB\"\n").expect("written");
    let state = ("state", folder.path().display().to_string());
    let flags = [
        state.clone(),
        ("ceiling", "2GiB".to_owned()),
        ("listen", "tcp:127.0.0.1:7".to_owned()),
    ];
    let loaded = load(Some(&file), &flags).expect("loads");
    assert_eq!(loaded.config.arena.ceiling, Some(Bytes::gib(2)));
    assert_eq!(
        loaded.config.tenants[0].listen,
        ["tcp:127.0.0.1:7".parse().expect("a place")]
    );
    let wrong = load(Some(&file), &[state, ("threads", "many".to_owned())]).expect_err("refused");
    assert_eq!(
        wrong.to_string(),
        "--threads: `--threads` wants a number, not text"
    );
}

#[test]
fn an_eviction_that_is_misspelt_is_told_its_name() {
    let wrong = complaint("[tenants.web]\nlisten = [\"tcp:127.0.0.1:0\"]\neviction = \"s3fofi\"");
    assert!(
        wrong.starts_with("t.toml:3: `tenants.web.eviction` \"s3fofi\" is none of "),
        "{wrong}"
    );
    assert!(wrong.ends_with("did you mean \"s3fifo\"?"), "{wrong}");
}

#[test]
fn an_eviction_of_the_simulator_is_refused_with_the_nearest() {
    for (name, nearest) in [("fifo", "s3fifo"), ("clock", "lru"), ("sieve", "s3fifo")] {
        assert_eq!(
            complaint(&format!(
                "[tenants.web]\nlisten = [\"tcp:127.0.0.1:0\"]\neviction = \"{name}\""
            )),
            format!(
                "t.toml:3: `tenants.web.eviction` \"{name}\" is only in the simulator; the nearest is \"{nearest}\""
            )
        );
    }
}

fn kept(live: LiveChanges) -> LiveChanges {
    live.write().expect("kept");
    live
}

#[test]
fn a_tenant_of_whom_nothing_is_changed_has_no_table_in_the_live_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let live = LiveChanges::none(Some(folder.path().to_owned()));
    let nothing = live.with_change(name("web"), &TenantChange::default());
    assert!(nothing.is_same_as(&live));
    let live = kept(nothing);
    let text = fs::read_to_string(live.path().expect("a path")).expect("readable");
    assert!(!text.contains("[tenants"), "{text}");
    // An earlier daemon may have left an empty table.
    let flags = [("state", folder.path().display().to_string())];
    fs::write(folder.path().join("live.toml"), "[tenants.web]\n").expect("written");
    load(None, &flags).expect("loads");
}

#[test]
fn live_changes_survive_a_restart_and_stand_over_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("c.toml");
    fs::write(&file, WEB).expect("written");
    let flags = [("state", folder.path().join("deep/er").display().to_string())];
    let mut loaded = load(Some(&file), &flags).expect("loads");
    let weight = TenantChange {
        weight: Some(Weight(7)),
        ..TenantChange::default()
    };
    loaded.live = kept(loaded.live.with_change(name("web"), &weight));
    let ceiling = TenantChange {
        ceiling: Some(Some(Bytes::gib(1))),
        ..TenantChange::default()
    };
    loaded.live = kept(loaded.live.with_change(name("web"), &ceiling));
    let added = TenantChange {
        listen: Some(vec!["unix:/tmp/\"quoted\"".parse().expect("a place")]),
        ..TenantChange::default()
    };
    loaded.live = kept(loaded.live.with_change(name("new.er"), &added));

    let again = load(Some(&file), &flags).expect("loads");
    let web = again
        .config
        .tenants
        .iter()
        .find(|t| t.settings.name == name("web"))
        .expect("web");
    assert_eq!(web.settings.weight, Weight(7));
    assert_eq!(web.settings.ceiling, Some(Bytes::gib(1)));
    assert_eq!(again.written.tenants[0].settings.weight, Weight(100));
    assert!(
        again
            .config
            .tenants
            .iter()
            .any(|t| t.settings.name == name("new.er"))
    );
    assert_eq!(
        again.live.change(&name("web")),
        loaded.live.change(&name("web"))
    );
}

#[test]
fn a_live_file_is_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let live = LiveChanges::none(Some(folder.path().to_owned()));
    let weight = |n| TenantChange {
        weight: Some(Weight(n)),
        ..TenantChange::default()
    };
    let live = kept(live.with_change(name("web"), &weight(1)));
    let path = live.path().expect("a path");
    let before = fs::read_to_string(&path).expect("readable");
    // A folder where the new text would be written makes the write fail half-way.
    fs::create_dir(folder.path().join("live.toml.new")).expect("made");
    let next = live.with_change(name("web"), &weight(2));
    next.write().expect_err("cannot be kept");
    assert_eq!(fs::read_to_string(&path).expect("readable"), before);
    assert_eq!(live.change(&name("web")), weight(1));
}

#[test]
fn one_daemon_at_a_time_keeps_changes_in_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let live = || LiveChanges::none(Some(folder.path().to_owned()));
    let change = TenantChange {
        weight: Some(Weight(7)),
        ..TenantChange::default()
    };
    let mut first = kept(live().with_change(name("web"), &change));
    first = kept(first.with_change(name("db"), &change));
    let second = live().with_change(name("mail"), &change);
    let refused = second.write();
    assert!(
        matches!(refused, Err(PersistError::Shared(_))),
        "{refused:?}"
    );
    drop(first);
    second.write().expect("the other ended");
}

/// A daemon that waits for another to end does this.
#[test]
fn what_was_kept_while_the_folder_was_another_s_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = ("state", folder.path().display().to_string());
    let path = folder.path().join("live.toml");
    let mut loaded = load(None, &[state]).expect("loaded");
    loaded.live.state().acquire().expect("free");
    for weight in [Some(Weight(7)), Some(Weight(8)), None] {
        match weight {
            Some(Weight(n)) => fs::write(&path, format!("[tenants.default]\nweight = {n}\n")),
            None => fs::remove_file(&path),
        }
        .expect("changed");
        loaded = loaded.reload().expect("read");
        assert_eq!(loaded.live.change(&name("default")).weight, weight);
        let weight = weight.unwrap_or_default();
        assert_eq!(loaded.config.tenants[0].settings.weight, weight);
    }
    // It is the same claim.
    let other = LiveChanges::none(Some(folder.path().to_owned()));
    assert!(matches!(other.write(), Err(PersistError::Shared(_))));
}

#[test]
fn live_changes_of_tenants_that_are_gone_are_told_and_not_served() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("live.toml"),
        "[tenants.gone]\nweight = 3\n",
    )
    .expect("written");
    let loaded = load(None, &[("state", folder.path().display().to_string())]).expect("loads");
    assert_eq!(loaded.orphans, ["tenants.gone"]);
    assert_eq!(loaded.config, loaded.written);
}

#[test]
fn a_new_tenant_begins_with_the_defaults_of_the_table() {
    let tenant = WrittenTenant::defaults();
    assert_eq!(
        (tenant.weight, tenant.mode, tenant.connections),
        (Weight(100), 0o600, 1024)
    );
    assert_eq!(tenant.item_max, Bytes::mib(1));
}

#[test]
fn the_reference_in_the_docs_is_what_the_table_says() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md");
    let page = fs::read_to_string(docs).expect("docs/config.md");
    assert_eq!(
        page,
        reference(),
        "write it anew: sublet generate config-reference >docs/config.md"
    );
}

#[test]
fn what_is_shown_of_a_config_reads_as_that_config_says_it() {
    let said = [
        ("mode", "0660"),
        ("allow_uids", "1000, 1001"),
        ("spill", "/spill"),
        ("spill_size", "8.00 GiB"),
        ("spill_total", "auto"),
        ("shared", "6f1c2f0e-9d3b-4f7a-8c55-0123456789ab"),
        ("sharers", "web, api"),
        ("weight", "200"),
        ("floor", "none"),
    ];
    let text = "[arena]\nreserve = \"2GiB\"\n[admin]\nsocket = \"/a.sock\"\n[tenants.web]\nmode = \"0660\"\nweight = 200\n\
                allow_uids = [\"1000\", \"1001\"]\nspill = \"/spill\"\nspill_size = \"8GiB\"\nsharers = [\"web\", \"api\"]\n\
                shared = \"6f1c2f0e-9d3b-4f7a-8c55-0123456789ab\"\n[tenants.api]\nlisten = [\"tcp:127.0.0.1:2\"]\n";
    let shown = read(text).expect("a config").key_values();
    for (key, value) in said {
        assert_eq!(shown[&format!("tenants.web.{key}")], value, "{key}");
    }
    assert_eq!(shown["arena.reserve"], "2.00 GiB");
    assert_eq!(shown["policy.shrink"], "active");
    // What a tenant does not have is not shown.
    for key in [
        "spill",
        "spill_size",
        "users",
        "auth_file",
        "sasl",
        "tls_cert",
        "shared",
        "added",
    ] {
        assert!(!shown.contains_key(&format!("tenants.api.{key}")), "{key}");
    }
    let knobs = DAEMON_KNOBS.iter().map(|knob| (knob.table, knob.name));
    let lending = LENDING_KNOBS.iter().map(|knob| (knob.table, knob.name));
    let tenant = TENANT_KNOBS.iter().map(|knob| ("tenants.web", knob.name));
    let known: BTreeSet<String> = knobs
        .chain(lending)
        .chain(tenant)
        .map(|(table, name)| format!("{table}.{name}"))
        .collect();
    let strange = shown
        .keys()
        .find(|key| !known.contains(*key) && !key.starts_with("tenants.api"));
    assert_eq!(strange, None);
}
