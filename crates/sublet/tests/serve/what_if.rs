//! What-if questions about other memory, more hits or another policy, to a daemon whose tenants are known.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use sublet_client::messages::{WhatIf, WhatIfQuery, WhatIfTenant};
use sublet_client::ring::{Client, Key};
use sublet_types::{Bytes, ObjectId, PageIndex, PoolFlags, PoolId};

use crate::content::page_of;
use crate::daemon::{Daemon, Folder, text};
use crate::wait::wait_for;

/// One client of a ring.
struct Tenant {
    client: Client,
    pool: PoolId,
}

impl Tenant {
    fn at(ring: &Path) -> Tenant {
        let mut client = Client::connect(ring).expect("let in");
        let pool = client.create_pool(PoolFlags::default(), None);
        let pool = pool.expect("a pool");
        Tenant { client, pool }
    }

    /// Asks for `mib` MiB of pages in order, and puts them all.
    fn read_through(&mut self, begin: u64, mib: u64) {
        for object in begin..begin + mib * 4 {
            let key = Key {
                pool: self.pool,
                object: ObjectId(object),
                index: PageIndex(0),
            };
            let mut pages = [[0; 4096]; 64];
            self.client.get_run(key, &mut pages).expect("answered");
            self.client.put_run(key, &[page_of(3); 64]).expect("put");
        }
    }
}

/// Starts a daemon with 64 MiB for two tenants: web goes round and round 40 MiB, and db reads everything once.
fn of_a_loop_and_a_scan(folder: &Folder) -> (Daemon, [Tenant; 2]) {
    let ring = |name: &str| folder.path(&format!("{name}.ring"));
    let table = |name: &str| {
        let place = ring(name);
        format!(
            "[tenants.{name}]\nlisten = [\"ring:{}\"]\n",
            place.display()
        )
    };
    let daemon = folder.serve_config(&["web", "db", "new"].map(table).concat());
    let (mut web, mut db) = (Tenant::at(&ring("web")), Tenant::at(&ring("db")));
    for turn in 0..6 {
        db.read_through(turn * 1000, 40);
        web.read_through(0, 40);
    }
    (daemon, [web, db])
}

/// The answer as soon as `suits` accepts it: the manager looks once per second.
fn once(folder: &Folder, asked: &WhatIfQuery, suits: impl Fn(&WhatIf) -> bool) -> WhatIf {
    wait_for(|| match folder.admin().what_if(asked) {
        Ok(told) if suits(&told) => Ok(told),
        told => Err(format!("{told:?}")),
    })
}

fn of<'a>(told: &'a WhatIf, name: &str) -> &'a WhatIfTenant {
    let tenant = told
        .tenants
        .iter()
        .find(|tenant| tenant.name.as_str() == name);
    tenant.expect("there")
}

#[track_caller]
fn adds_up(told: &WhatIf) {
    let before: Bytes = told.tenants.iter().map(|tenant| tenant.memory_before).sum();
    let after: Bytes = told.tenants.iter().map(|tenant| tenant.memory_after).sum();
    assert_eq!(
        before + told.free_before,
        after + told.free_after,
        "{told:?}"
    );
}

#[test]
fn what_a_loop_needs_whom_it_costs_and_what_cannot_be() {
    let folder = Folder::new();
    let _daemon = of_a_loop_and_a_scan(&folder);
    let asked = WhatIfQuery {
        tenant: Some("web".to_owned()),
        hits: Some(0.5),
        ..WhatIfQuery::default()
    };
    let mib = |bytes: Bytes| bytes.0 as f64 / f64::from(1 << 20);
    let suits = |told: &WhatIf| mib(of(told, "web").memory_after) > 36.0;
    let told = once(&folder, &asked, suits);
    let [web, db, new] = ["web", "db", "new"].map(|name| of(&told, name));
    assert!(mib(web.memory_after) < 44.0, "{web:?}");
    assert!(
        web.hits_before < Some(0.5) && web.hits_after >= Some(0.5),
        "{web:?}"
    );
    assert!(db.memory_after < db.memory_before, "{db:?}");
    assert_eq!(db.hits_counted, Some(0.0), "{db:?}");
    assert_eq!((new.hits_before, new.hits_counted), (None, None), "{new:?}");
    adds_up(&told);

    let what_if = ["policy", "what-if", "--tenant", "web"];
    let ask = |more: &[&str]| folder.sublet(&[&what_if[..], more].concat());
    let said = text(&ask(&["--hits", "50%"]).stdout);
    for part in [
        "web needs ",
        " for 50 % hits; it has ",
        "  db would pay ",
        "for good: sublet tenants set web --floor ",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let less = text(&ask(&["--memory", "8MiB"]).stdout);
    assert!(less.starts_with("web would have "), "{less}");
    assert!(less.contains("with 8.00 MiB; it has "), "{less}");

    let refused = |args: &[&str], part: &str| {
        let output = ask(args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains(part), "{part} in {said}");
    };
    refused(
        &["--hits", "100%"],
        "web cannot have 100.0 % hits: at most ",
    );
    refused(
        &["--memory", "1GiB"],
        "if all others fell to their floors it could have ",
    );
    folder.sublet_ok(&["tenants", "set", "web", "--ceiling", "20MiB", "--temporary"]);
    folder.sublet_ok(&["policy", "set", "weights", "--temporary"]); // whoever sets a policy has the manager look
    refused(
        &["--hits", "50%"],
        "and its ceiling is 20.0 MiB: with that at most ",
    );
    let new = folder.sublet(&["policy", "what-if", "--tenant", "new", "--hits", "9%"]);
    assert!(
        text(&new.stderr).contains("new is not measured yet"),
        "{new:?}"
    );
}

/// Asks for 5,000 items of 8 KiB in order, fifty at a time, and stores them all again.
fn go_round(stream: &mut BufReader<UnixStream>) {
    let value = [b'v'; 8192];
    for first in (0..5000).step_by(50) {
        let keys: Vec<String> = (first..first + 50).map(|n| format!("k{n}")).collect();
        write!(stream.get_mut(), "get {}\r\n", keys.join(" ")).expect("sent");
        let mut line = Vec::new();
        while !line.starts_with(b"END") {
            line.clear();
            stream.read_until(b'\n', &mut line).expect("answered");
        }
        for key in keys {
            let to = stream.get_mut();
            write!(to, "set {key} 0 0 8192 noreply\r\n").expect("sent");
            to.write_all(&value).expect("sent");
            to.write_all(b"\r\n").expect("sent");
        }
    }
}

/// What its segments hold beside the items, dead and free, counts as needed.
#[test]
fn what_a_tenant_of_items_needs_is_weighed_by_their_bytes() {
    let folder = Folder::new();
    let place = folder.path("web.sock");
    let listen = format!("[tenants.web]\nlisten = [\"unix:{}\"]\n", place.display());
    let _daemon = folder.serve_config(&listen);
    let asked = WhatIfQuery {
        tenant: Some("web".to_owned()),
        hits: Some(0.5),
        ..WhatIfQuery::default()
    };
    let stream = UnixStream::connect(&place).expect("let in");
    let mut stream = BufReader::new(stream);
    (0..5).for_each(|_| go_round(&mut stream));
    let mib = |bytes: Bytes| bytes.0 as f64 / f64::from(1 << 20);
    let told = once(&folder, &asked, |told| {
        (36.0..64.0).contains(&mib(of(told, "web").memory_after))
    });
    let web = of(&told, "web");
    assert!(
        web.hits_after >= Some(0.5) && web.hits_counted > Some(0.3),
        "{web:?}"
    );
    adds_up(&told);
}

#[test]
fn a_policy_is_replayed_beside_the_one_in_force() {
    let folder = Folder::new();
    let _daemon = of_a_loop_and_a_scan(&folder);
    let asked = WhatIfQuery {
        policy: Some("mrc".to_owned()),
        knobs: Some("floor=10".to_owned()),
        ..WhatIfQuery::default()
    };
    let told = once(&folder, &asked, |told| told.hits_after > Some(0.25));
    assert_eq!(
        (told.policy.as_str(), told.other.as_str()),
        ("weights", "mrc")
    );
    assert!(told.hits_after > told.hits_before, "{told:?}");
    assert!(of(&told, "web").hits_after > Some(0.5), "{told:?}");
    adds_up(&told);
    let same = WhatIfQuery {
        policy: Some("weights".to_owned()),
        ..WhatIfQuery::default()
    };
    let same = folder.admin().what_if(&same).expect("answered");
    assert_eq!(same.hits_before, same.hits_after, "one model: {same:?}");

    let page = folder.sublet_ok(&["policy", "what-if", "--policy", "mrc", "floor=10"]);
    assert!(
        page.contains("mrc instead of weights, which decides now"),
        "{page}"
    );
    assert!(page.contains("not measured yet"), "{page}");
    let wrong: [(&[&str], i32, &str); 6] = [
        (&["--policy", "mcr"], 1, "did you mean mrc?"),
        (&["--policy", "mrc", "gian=3"], 1, "did you mean gain?"),
        (
            &["--tenant", "nobody", "--hits", "9%"],
            1,
            "no tenant is called nobody",
        ),
        (&["--tenant", "web"], 2, "required"),
        (&["--hits", "95%"], 2, "--tenant"),
        (&["--tenant", "web", "--hits", "0.95"], 2, "write 95%"),
    ];
    for (args, code, part) in wrong {
        let output = folder.sublet(&[&["policy", "what-if"], args].concat());
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        let said = text(&output.stderr);
        assert!(said.contains(part), "{part} in {said}");
    }
    for query in [
        "",
        "?hits=0.5",
        "?tenant=web&hits=1.5",
        "?tenant=web&hits=0.5&memory=4GiB",
        "?what=1",
    ] {
        let (head, said) = folder.http(&format!("GET /v1/policy/what-if{query}"), "");
        assert!(head.starts_with("HTTP/1.1 4"), "{query}: {head} {said}");
    }
}
