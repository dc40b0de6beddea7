//! Serves disks in memory by NBD, to try clients against:
//!
//! ```text
//! cargo run --release -p sublet-frontends --example nbd_memory -- unix:/tmp/m.sock 1GiB
//! nbdinfo --list nbd+unix:///?socket=/tmp/m.sock
//! fio --name=t --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/m.sock' --rw=randread --bs=4k --iodepth=16
//! ```
//!
//! After the size may stand `late` (the disk answers when it likes, in any order), `full` (every byte is written at
//! the start), `several` (three disks: `memory`, `late`, `fixed`) and `tls:FOLDER` (with the PEM files `server.pem`,
//! `server.key` and `ca.pem` in it; clients must have a certificate). It ends with its standard input.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sublet_frontends::backend::Backend;
use sublet_frontends::block::{self, Buffer, Disk, Outcome, Outcomes, Request, Shape, Verb};
use sublet_frontends::doors::{
    ClientCertificate, Endpoint, Tls, TlsSettings, TlsVersion, Transport, bind,
};
use sublet_frontends::nbd::serve::{BACKLOG, Group, start};
use sublet_frontends::nbd::{Exports, Settings};
use sublet_frontends::tenancy::{self, Clock, Ledger};
use sublet_store::{PageSettings, Store, StoreSettings};
use sublet_types::Bytes;

use self::fake_disk::{FakeDisk, Mood};

#[path = "../tests/fake_disk/mod.rs"]
mod fake_disk;

type Wrong = Box<dyn std::error::Error>;

fn main() -> Result<(), Wrong> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [place, size, wishes @ ..] = &words[..] else {
        return Err(
            "unix:PATH or tcp:HOST:PORT, a size in bytes, perhaps late, full, several, tls:FOLDER"
                .into(),
        );
    };
    let wants = |wish: &str| wishes.iter().any(|word| word == wish);
    let threads = wishes.iter().find_map(|word| word.strip_prefix("threads:"));
    let exports = Arc::new(Exports::default());
    for disk in disks(size_of(size)?, &wants) {
        exports.add(disk)?;
    }
    let tls = wishes.iter().find_map(|word| word.strip_prefix("tls:"));
    let tls = tls.map(|folder| tls_of(folder.into())).transpose()?;
    let settings = Settings {
        connections_max: 2000,
        ..Settings::default()
    };
    let group = Arc::new(Group::new(exports, settings, tls.map(Arc::new)));
    let threads = threads.map_or(Ok(1), str::parse)?;
    let running = start(threads, &backend()?, Arc::new(|| std::process::exit(1)))?;
    for listener in bind(&[endpoint(place)?], BACKLOG)? {
        println!("{}", listener.address());
        running.add(listener, Arc::clone(&group))?;
    }
    io::copy(&mut io::stdin(), &mut io::sink())?;
    running.stop();
    for (name, figure) in group.figures.named() {
        println!("{name} {figure}");
    }
    Ok(())
}

fn disks(bytes: u64, wants: &dyn Fn(&str) -> bool) -> Vec<Arc<dyn Disk>> {
    let mood = if wants("late") {
        Mood::Late
    } else {
        Mood::Prompt
    };
    let memory = FakeDisk::new("memory", bytes, mood);
    if wants("full") {
        fill(&*memory);
    }
    let mut disks: Vec<Arc<dyn Disk>> = vec![memory];
    if wants("several") {
        let fixed = Shape {
            bytes,
            read_only: true,
            trims: false,
        };
        disks.push(FakeDisk::new("late", bytes, Mood::Late));
        disks.push(FakeDisk::shaped("fixed", fixed, Mood::Prompt, None));
    }
    disks
}

/// Hears of outcomes, and does nothing.
struct Deaf;

impl Outcomes for Deaf {
    fn done(&self, _: Outcome) {}
}

fn fill(disk: &dyn Disk) {
    const PIECE: u64 = 1 << 20;
    let to: Arc<dyn Outcomes> = Arc::new(Deaf);
    for at in (0..disk.shape().bytes).step_by(PIECE as usize) {
        let len = PIECE.min(disk.shape().bytes - at);
        let mut buffer = Buffer::zeroed(len as usize);
        buffer.fill((at / PIECE) as u8 | 1);
        disk.start(Request {
            verb: Verb::Write { lasting: false },
            at,
            len,
            buffer,
            to: Arc::clone(&to),
            token: 0,
        });
    }
}

fn size_of(size: &str) -> Result<u64, Wrong> {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in units {
        if let Some(count) = size.strip_suffix(unit) {
            return Ok(count.parse::<u64>()? << shift);
        }
    }
    Ok(size.parse()?)
}

fn endpoint(place: &str) -> Result<Endpoint, Wrong> {
    if let Some(path) = place.strip_prefix("unix:") {
        return Ok(Endpoint::Unix {
            path: path.into(),
            mode: 0o600,
        });
    }
    let address = place
        .strip_prefix("tcp:")
        .and_then(|rest| rest.rsplit_once(':'));
    let (host, port) = address.ok_or("unix:PATH or tcp:HOST:PORT")?;
    Ok(Endpoint::Tcp {
        host: Some(host.to_owned()),
        port: port.parse()?,
        transport: Transport::Plain,
    })
}

fn tls_of(folder: PathBuf) -> Result<Tls, Wrong> {
    Ok(Tls::load(TlsSettings {
        chain: folder.join("server.pem"),
        key: Some(folder.join("server.key")),
        client_ca: Some(folder.join("ca.pem")),
        client_certificate: ClientCertificate::Required,
        min_version: TlsVersion::V12,
        resumes: true,
    })?)
}

fn backend() -> Result<Backend, Wrong> {
    let store = Store::new(StoreSettings {
        capacity: Bytes::mib(64),
        limit: Bytes::mib(64),
        item_max: Bytes::mib(1),
        seed: 1,
        evicts: true,
        pages: PageSettings::default(),
    })?;
    Ok(Backend {
        store,
        clock: Clock::start(),
        ledger: Arc::new(Ledger::default()),
    })
}
