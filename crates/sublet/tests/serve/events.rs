//! Events tell what happens, at once and as it comes.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{geteuid, getpid};
use sublet_client::messages::{Event, EventActor, EventObject, EventsQuery};
use sublet_client::ring::{Client, Key};
use sublet_types::{ObjectId, PageIndex, PoolFlags, PoolId};

use crate::ailing;
use crate::content::page_of;
use crate::daemon::{Folder, SUBLET, text};
use crate::wait::{wait_for, wait_until};

const PATIENCE: Duration = Duration::from_secs(20);

/// Everything that happened so far.
fn all(folder: &Folder) -> Vec<Event> {
    let asked = EventsQuery::default();
    folder.admin().events(&asked).expect("answered").events
}

fn find_event(folder: &Folder, id: &str, reason: &str) -> Option<Event> {
    let mut all = all(folder).into_iter();
    all.find(|event| event.id == id && event.reason == reason)
}

/// An event of that id, for that reason, once it is there.
fn event(folder: &Folder, id: &str, reason: &str) -> Event {
    wait_for(|| {
        find_event(folder, id, reason)
            .ok_or_else(|| format!("no {id} ({reason}) among {:#?}", all(folder)))
    })
}

fn tenant(event: &Event) -> &str {
    let object = event.object.as_ref().expect("to somebody");
    object.tenant().expect("a tenant").as_str()
}

/// A tenant that puts pages on its ring.
struct RingTenant(Client, PoolId);

impl RingTenant {
    fn at(ring: &Path) -> RingTenant {
        let mut client = Client::connect(ring).expect("let in");
        let pool = client.create_pool(PoolFlags::default(), None);
        RingTenant(client, pool.expect("a pool"))
    }

    fn put(&mut self, mib: u32) {
        for index in (0..mib * 256).step_by(64) {
            let key = Key {
                pool: self.1,
                object: ObjectId(1),
                index: PageIndex(index),
            };
            let _ = self.0.put_run(key, &[page_of(3); 64]);
        }
    }
}

fn ring(folder: &Folder, name: &str) -> String {
    let ring = folder.path(&format!("{name}.ring"));
    format!("[tenants.{name}]\nlisten = [\"ring:{}\"]\n", ring.display())
}

/// Manual changes: each event names who made the change, as the kernel tells it.
#[test]
fn what_is_changed_by_hand_is_told_with_who_asked() {
    let folder = Folder::new();
    let room = folder.path("");
    let _daemon = folder.serve_config(&format!("[disk]\nallow = [{room:?}]\n"));
    let image = folder.write("db.img", "");
    std::fs::write(&image, vec![0; 1 << 20]).expect("written");
    let (image, other) = (image.display().to_string(), folder.path("other"));
    std::fs::create_dir(&other).expect("made");
    let socket = format!("unix:{}", folder.path("db.sock").display());
    let commands: &[&[&str]] = &[
        &["tenants", "add", "web"],
        &["tenants", "set", "web", "--weight", "7", "--temporary"],
        &["tenants", "freeze", "web"],
        &["tenants", "thaw", "web"],
        &["policy", "set", "greedy", "--temporary"],
        &[
            "disk",
            "add",
            "db",
            "--tenant",
            "vm",
            "--backing",
            &image,
            "--listen",
            &socket,
        ],
        &["disk", "remove", "db"],
        &["disk", "allow", other.to_str().expect("text")],
        &["release", "2MiB"],
        &["tenants", "remove", "web"],
    ];
    for command in commands {
        // A release of nothing ends with 1, but is a release all the same.
        folder.sublet(command);
    }
    for (id, reason) in [
        ("tenant.added", "kept"),
        ("tenant.changed", "until-restart"),
        ("tenant.frozen", "until-restart"),
        ("tenant.thawed", "until-restart"),
        ("policy.changed", "until-restart"),
        ("tenant.added", "for-disk"),
        ("disk.added", "kept"),
        ("disk.removed", "kept"),
        ("disk.allowed", "kept"),
        ("release.ordered", "by-hand"),
        ("tenant.removed", "kept"),
    ] {
        let event = event(&folder, id, reason);
        let EventActor::Caller { uid, pid } = event.actor else {
            panic!("by nobody: {event:?}");
        };
        assert_eq!(uid, geteuid().as_raw());
        assert!(pid.is_some_and(|pid| pid > 0), "{event:?}");
    }
    let added = event(&folder, "disk.added", "kept");
    assert_eq!(tenant(&added), "vm");
    let said = event(&folder, "tenant.changed", "until-restart").said;
    assert!(said.contains("weight 7"), "{said}");

    let weight = r#"{"weight": 9, "lasts": "until-restart"}"#;
    let (head, _) = folder.http("PATCH /v1/tenants/vm", weight);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut changes = all(&folder).into_iter();
    let change = changes.find(|event| event.id == "tenant.changed" && tenant(event) == "vm");
    let us = EventActor::Caller {
        uid: geteuid().as_raw(),
        pid: Some(getpid().as_raw_nonzero().get()),
    };
    assert_eq!(change.expect("told").actor, us);

    let metrics = folder.http("GET /metrics", "").1;
    let counted = "sublet_events_total{id=\"tenant.added\",reason=\"kept\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    let never = "sublet_events_total{id=\"release.fast\",reason=\"host\"} 0";
    assert!(metrics.contains(never), "{metrics}");
    assert!(metrics.contains("sublet_events_lost_total 0"), "{metrics}");
}

/// The event tells what the release took from whom, as `policy explain` does, under any policy.
#[test]
fn a_release_by_hand_is_told_with_its_right_number() {
    for policy in ["weights", "static-alloc"] {
        let folder = Folder::new();
        let config = format!("[policy]\nname = {policy:?}\n{}", ring(&folder, "web"));
        let daemon = folder.serve_config(&config);
        RingTenant::at(&folder.path("web.ring")).put(40);
        folder.sublet_ok(&["policy", "set", policy]);
        folder.sublet_ok(&["release", "16MiB", "--tenant", "web"]);
        let released = all(&folder).into_iter();
        let mut released = released.filter(|event| event.id.starts_with("release."));
        let released = released.find(|event| event.reason == "by-hand");
        let released = released.expect("it is told at once");
        assert_eq!(
            (released.amount, tenant(&released)),
            (Some(16 << 20), "web")
        );
        let squeezed = event(&folder, "tenant.squeezed", "by-hand");
        assert_eq!(squeezed.amount, Some(16 << 20), "{squeezed:?}");
        assert!(matches!(squeezed.actor, EventActor::Caller { .. }));
        let said = folder.sublet_ok(&["policy", "explain", "--tenant", "web"]);
        let line = said.lines().find(|line| line.contains("by hand"));
        let line = line.unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains("lost 16.0 MiB of "), "{line}");
        assert!(line.contains(": 16.0 MiB were released by hand"), "{line}");
        assert!(line.contains("; 16.0 MiB to the host"), "{line}");
        let (_, log) = daemon.end();
        let told = log.lines().filter(|line| line.contains("event=\"release."));
        assert_eq!(told.count(), 1, "{log}");
    }
}

#[test]
fn what_tenants_suffer_is_told() {
    let folder = Folder::new();
    let config = [ring(&folder, "web"), ring(&folder, "wiki")].concat();
    let _daemon = folder.serve_config(&config);
    let mut web = RingTenant::at(&folder.path("web.ring"));
    web.put(80);
    let evicted = event(&folder, "tenant.evicted", "pages");
    assert_eq!(tenant(&evicted), "web");
    assert_eq!(evicted.unit.as_deref(), Some("pages"));
    // The manager looks once per second, and first sees what web filled.
    thread::sleep(Duration::from_millis(1500));
    RingTenant::at(&folder.path("wiki.ring")).put(30);
    let squeezed = event(&folder, "tenant.squeezed", "gave-way");
    assert_eq!(tenant(&squeezed), "web");
    let weights = EventActor::Policy {
        name: "weights".to_owned(),
    };
    assert_eq!(squeezed.actor, weights);
    assert!(squeezed.said.contains(" to wiki"), "{}", squeezed.said);

    folder.sublet_ok(&["tenants", "freeze", "web"]);
    web.put(1);
    let refused = event(&folder, "tenant.refused", "pages");
    assert_eq!(refused.amount, Some(refused.count));

    let shown = folder.sublet_ok(&["events", "--tenant", "wiki"]);
    assert!(!shown.contains("tenant web"), "{shown}");
    let shown = folder.sublet_ok(&["events", "--tenant", "web", "--since", "1h"]);
    let line = shown.lines().find(|line| line.contains("tenant.squeezed"));
    assert!(
        line.is_some_and(|line| line.contains("gave-way, by policy weights")),
        "{shown}"
    );
    let json = folder.sublet_ok(&["events", "--json"]);
    let each = json.lines().map(serde_json::from_str::<Event>);
    let each: Vec<Event> = each.collect::<Result<_, _>>().expect("JSON");
    let seqs: Vec<u64> = each.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<u64>>());
    assert!(each.iter().any(|event| event.id == "daemon.started"));
}

#[test]
fn disks_that_ail_and_recover_are_told_of() {
    let folder = Folder::new();
    let backing = ailing::BreakableBacking::new();
    let _daemon = ailing::serve(&folder, &backing);
    let _guest = ailing::write_pages(&folder, &backing);
    folder.sublet(&["disk", "flush", "swap"]);
    let ailing = event(&folder, "disk.ailing", "write");
    assert_eq!((tenant(&ailing), &*ailing.level), ("guests", "error"));
    let object = EventObject::Disk {
        name: "swap".parse().expect("a name"),
        tenant: Some("guests".parse().expect("a name")),
    };
    assert_eq!(ailing.object, Some(object));

    let other = Folder::new();
    let image = other.path("state/disks/swap.swap");
    let _other = other.serve_config(&format!(
        "[disks.swap]\ntenant = \"guests\"\nkind = \"swap\"\nsize = \"1MiB\"\nlisten = [\"unix:{}\"]\n",
        other.path("swap.sock").display()
    ));
    let away = other.path("away");
    std::fs::rename(&image, &away).expect("moved");
    event(&other, "disk.ailing", "path");
    std::fs::rename(&away, &image).expect("moved back");
    event(&other, "disk.recovered", "path");
    let shown = other.sublet_ok(&["events", "--tenant", "guests"]);
    assert!(shown.contains("disk swap"), "{shown}");
}

#[test]
fn passwords_that_are_read_or_not_are_told_of() {
    let folder = Folder::new();
    let users = folder.write("users", "ann:secret\n");
    let daemon = folder.serve_config(&format!(
        "[tenants.web]\nlisten = [\"unix:{}\"]\nauth_file = {users:?}\n",
        folder.path("web.sock").display(),
    ));
    let first = event(&folder, "credentials.read", "start");
    assert_eq!((tenant(&first), first.amount), ("web", Some(1)));
    daemon.hang_up();
    let read = event(&folder, "credentials.read", "reread");
    assert_eq!(tenant(&read), "web");
    std::fs::remove_file(&users).expect("removed");
    daemon.hang_up();
    let refused = event(&folder, "credentials.refused", "reread");
    assert!(refused.said.contains("users"), "{refused:?}");
    assert_eq!(refused.level, "warn");
}

#[test]
fn who_is_not_let_in_is_told_of() {
    let folder = Folder::new();
    let config = ring(&folder, "web") + "allow_uids = [4242]\n";
    let _daemon = folder.serve_config(&config);
    for _ in 0..3 {
        let refused = Client::connect(folder.path("web.ring"));
        assert!(refused.is_err());
    }
    let refused = event(&folder, "connections.refused", "uid");
    assert_eq!(tenant(&refused), "web");
    assert_eq!(refused.amount, Some(refused.count));
}

/// Over NBD, the daemon hangs up on a client that names a disk that does not exist.
#[test]
fn who_asks_a_listener_for_a_disk_that_is_not_there_is_told_of() {
    const HAVE_OPT: &[u8] = b"IHAVEOPT";
    let folder = Folder::new();
    let socket = folder.path("nbd.sock");
    let _daemon = folder.serve_config(&format!(
        "[disks.swap]\ntenant = \"guests\"\nkind = \"swap\"\nsize = \"1MiB\"\nlisten = [\"unix:{}\"]\n",
        socket.display()
    ));
    for name in ["one", "another"] {
        let mut guest = UnixStream::connect(&socket).expect("connected");
        guest.read_exact(&mut [0; 18]).expect("greeted");
        let name = name.as_bytes();
        let (flags, export_name) = (1_u32.to_be_bytes(), 1_u32.to_be_bytes());
        let len = (name.len() as u32).to_be_bytes();
        let asked = [&flags[..], HAVE_OPT, &export_name, &len, name].concat();
        guest.write_all(&asked).expect("asked");
        let mut answer = Vec::new();
        guest.read_to_end(&mut answer).expect("hung up on");
        assert_eq!(answer, b"");
    }
    let refused = event(&folder, "connections.refused", "no-such-export");
    let object = EventObject::Listener {
        name: format!("unix:{}", socket.display()),
        tenant: Some("guests".parse().expect("a name")),
    };
    assert_eq!(refused.object, Some(object));
    let shown = folder.sublet_ok(&["events", "--tenant", "guests"]);
    assert!(shown.contains("listener unix:"), "{shown}");
}

#[test]
fn what_a_client_and_a_save_do_to_a_tenant_is_told() {
    let folder = Folder::new();
    let socket = folder.path("web.sock");
    let config = format!(
        "[tenants.web]\nlisten = [\"unix:{}\", \"ring:{}\"]\nceiling = \"32MiB\"\n",
        socket.display(),
        folder.path("web.ring").display(),
    );
    let _daemon = folder.serve_config(&config);
    let mut client = UnixStream::connect(&socket).expect("connected");
    client.write_all(b"cache_memlimit 16\r\n").expect("asked");
    let mut answer = [0; 4];
    client.read_exact(&mut answer).expect("answered");
    assert_eq!(&answer, b"OK\r\n");
    let limited = event(&folder, "tenant.limited", "client");
    assert_eq!(
        (limited.amount, limited.actor),
        (Some(16 << 20), EventActor::Client)
    );

    folder.sublet_ok(&["tenants", "freeze", "web"]);
    let file = folder.path("web.save").display().to_string();
    folder.sublet_ok(&["tenants", "save", "web", &file]);
    assert_eq!(tenant(&event(&folder, "tenant.saved", "by-hand")), "web");
    folder.sublet_ok(&["tenants", "thaw", "web"]);
    folder.sublet_ok(&["tenants", "restore", "web", &file]);
    assert_eq!(tenant(&event(&folder, "tenant.restored", "by-hand")), "web");
}

/// A stream of events, as any program may read it.
struct EventStream(BufReader<UnixStream>);

impl EventStream {
    fn open(folder: &Folder, path: &str, last_id: Option<&str>) -> (String, EventStream) {
        let mut stream = UnixStream::connect(folder.path("admin.sock")).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let last_id = last_id.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n{last_id}\r\n");
        stream.write_all(head.as_bytes()).expect("sent");
        let mut stream = EventStream(BufReader::new(stream));
        let status = stream.line();
        while !stream.line().is_empty() {}
        (status, stream)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("more");
        line.trim_end().to_owned()
    }

    /// The next value of a field.
    fn next(&mut self, field: &str) -> String {
        loop {
            let line = self.line();
            if let Some(value) = line.strip_prefix(&format!("{field}: ")) {
                return value.to_owned();
            }
        }
    }

    fn event(&mut self) -> (String, Event) {
        let id = self.next("id");
        let data = self.next("data");
        (id, serde_json::from_str(&data).expect("an event"))
    }
}

#[test]
fn who_follows_and_was_cut_off_goes_on_where_it_was() {
    let folder = Folder::new();
    let daemon = folder.serve();
    let add = |name: &str| folder.sublet_ok(&["tenants", "add", name]);
    add("before");
    let (status, mut stream) = EventStream::open(&folder, "/v1/events", None);
    assert!(status.contains("200"), "{status}");
    let begins = stream.next("id");
    add("first");
    let added = |stream: &mut EventStream| loop {
        let (id, event) = stream.event();
        if event.id == "tenant.added" {
            return (id, tenant(&event).to_owned());
        }
    };
    let (id, name) = added(&mut stream);
    assert_eq!(name, "first", "only what comes");
    drop(stream);
    add("second");
    let (_, mut stream) = EventStream::open(&folder, "/v1/events", Some(&id));
    add("third");
    stream.next("id");
    assert_eq!(added(&mut stream).1, "second");
    assert_eq!(added(&mut stream).1, "third");
    let (_, mut from_the_start) = EventStream::open(&folder, "/v1/events", Some(&begins));
    from_the_start.next("id");
    assert_eq!(added(&mut from_the_start).1, "first");

    // Another run knows no earlier events, and says so.
    assert_eq!(daemon.end().0, Some(0));
    let _daemon = folder.serve();
    let (_, mut stream) = EventStream::open(&folder, "/v1/events", Some(&id));
    assert_eq!(stream.next("event"), "gap");
    assert_eq!(stream.next("data"), r#"{"lost":null}"#);
    let (_, wrong) = folder.http("GET /v1/events?after=here", "");
    assert!(wrong.contains("no place among events"), "{wrong}");
}

#[test]
fn followers_are_bounded_and_the_others_are_answered() {
    let folder = Folder::new();
    let _daemon = folder.serve();
    let follow = || EventStream::open(&folder, "/v1/events", None);
    let mut all: Vec<(String, EventStream)> = (0..8).map(|_| follow()).collect();
    assert!(all.iter().all(|(status, _)| status.contains("200")));
    let (status, _) = follow();
    assert!(status.contains("503"), "{status}");
    folder.sublet_ok(&["status"]);
    all.pop();
    wait_until("a place that was left is free", || {
        follow().0.contains("200")
    });
}

/// `sublet events --follow`. It ends when this is dropped.
struct FollowCommand(Child);

impl FollowCommand {
    fn start(folder: &Folder) -> (FollowCommand, impl Iterator<Item = Event>) {
        let mut command = Command::new(SUBLET);
        command
            .args(["events", "--follow", "--since", "1h", "--json"])
            .env("SUBLET_ADMIN", folder.path("admin.sock"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let events = lines.map(|line| {
            let line = line.expect("a line");
            serde_json::from_str(&line).expect("an event")
        });
        (FollowCommand(child), events)
    }
}

impl Drop for FollowCommand {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_command_follows_from_one_daemon_to_the_next() {
    let folder = Folder::new();
    let daemon = folder.serve();
    let (mut command, mut events) = FollowCommand::start(&folder);
    let mut until = |id: &str| {
        let found = events.find(|event| event.id == id);
        found.unwrap_or_else(|| panic!("it ended before {id}"))
    };
    until("daemon.started");
    folder.sublet_ok(&["tenants", "add", "web", "--temporary"]);
    assert_eq!(tenant(&until("tenant.added")), "web");
    assert_eq!(daemon.end().0, Some(0));
    let _daemon = folder.serve();
    until("daemon.started");
    folder.sublet_ok(&["tenants", "add", "wiki", "--temporary"]);
    assert_eq!(tenant(&until("tenant.added")), "wiki");
    let mut said = String::new();
    let errors = command.0.stderr.take();
    let _ = command.0.kill();
    let _ = errors.expect("piped").read_to_string(&mut said);
    assert!(said.contains("started anew"), "{said}");
}

#[test]
fn what_repeats_is_one_event_a_second_with_its_count() {
    let folder = Folder::new();
    let _daemon = folder.serve();
    let began = Instant::now();
    for weight in 1..=60 {
        let weight = format!(r#"{{"weight": {weight}, "lasts": "until-restart"}}"#);
        let (head, _) = folder.http("PATCH /v1/tenants/default", &weight);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    }
    let secs = began.elapsed().as_secs();
    wait_for(|| {
        let all = all(&folder).into_iter();
        let changes: Vec<Event> = all.filter(|event| event.id == "tenant.changed").collect();
        let count: u64 = changes.iter().map(|event| event.count).sum();
        assert!(changes.len() as u64 <= secs + 2, "{changes:#?}");
        if count == 60 {
            let last = &changes.last().expect("the last").said;
            assert!(last.contains("weight 60,"), "{last}");
            return Ok(());
        }
        Err(count)
    });
}

#[test]
fn without_a_daemon_the_command_says_so() {
    let folder = Folder::new();
    for args in [&["events"][..], &["events", "--follow"]] {
        let output = folder.sublet(args);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    }
    let output = folder.sublet(&["events", "--since", "soon"]);
    assert_eq!(output.status.code(), Some(2));
}
