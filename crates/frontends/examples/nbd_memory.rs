//! Serves disks in memory over NBD, to try clients against:
//!
//! ```text
//! cargo run --release -p sublet-frontends --example nbd_memory -- unix:/tmp/m.sock 1GiB
//! nbdinfo --list nbd+unix:///?socket=/tmp/m.sock
//! fio --name=t --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/m.sock' --rw=randread --bs=4k --iodepth=16
//! ```
//!
//! More words may follow the size. The program ends when its standard input ends.
//!
//! - `late`: the disk answers when it likes, in any order.
//! - `full`: the program writes every byte at the start.
//! - `several`: there are three disks, `memory`, `late` and `fixed`.
//! - `tls:FOLDER`: the folder has the PEM files `server.pem`, `server.key` and `ca.pem`, and clients must have a
//!   certificate.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sublet_frontends::backend::Backend;
use sublet_frontends::block_device::{
    self, Buffer, Disk, DiskOperation, DiskOutcome, DiskRequest, DiskShape, Fua, OutcomeSink,
};
use sublet_frontends::listeners::{
    ClientCertificateDemand, Endpoint, TlsCertificates, TlsSettings, TlsVersion, Transport, bind,
};
use sublet_frontends::nbd::serve::{BACKLOG, Group, start};
use sublet_frontends::nbd::{Exports, Settings};
use sublet_frontends::tenancy::{self, Clock, Ledger};
use sublet_store::{PageSettings, Store, StoreSettings};
use sublet_types::Bytes;

use self::fake_disk::{AnswerMode, FakeDisk};

#[path = "../tests/fake_disk/mod.rs"]
mod fake_disk;

type AnyError = Box<dyn std::error::Error>;

fn main() -> Result<(), AnyError> {
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
        AnswerMode::Late
    } else {
        AnswerMode::Prompt
    };
    let memory = FakeDisk::new("memory", bytes, mood);
    if wants("full") {
        fill(&*memory);
    }
    let mut disks: Vec<Arc<dyn Disk>> = vec![memory];
    if wants("several") {
        let fixed = DiskShape {
            bytes,
            read_only: true,
            trims: false,
        };
        disks.push(FakeDisk::new("late", bytes, AnswerMode::Late));
        disks.push(FakeDisk::shaped("fixed", fixed, AnswerMode::Prompt, None));
    }
    disks
}

/// Takes outcomes and does nothing with them.
struct IgnoreOutcomes;

impl OutcomeSink for IgnoreOutcomes {
    fn deliver(&self, _: DiskOutcome) {}
}

fn fill(disk: &dyn Disk) {
    const PIECE: u64 = 1 << 20;
    let to: Arc<dyn OutcomeSink> = Arc::new(IgnoreOutcomes);
    for at in (0..disk.shape().bytes).step_by(PIECE as usize) {
        let len = PIECE.min(disk.shape().bytes - at);
        let mut buffer = Buffer::zeroed(len as usize);
        buffer.fill((at / PIECE) as u8 | 1);
        disk.submit(DiskRequest {
            operation: DiskOperation::Write { fua: Fua::Off },
            at,
            len,
            buffer,
            outcomes: Arc::clone(&to),
            token: 0,
        });
    }
}

fn size_of(size: &str) -> Result<u64, AnyError> {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in units {
        if let Some(count) = size.strip_suffix(unit) {
            return Ok(count.parse::<u64>()? << shift);
        }
    }
    Ok(size.parse()?)
}

fn endpoint(place: &str) -> Result<Endpoint, AnyError> {
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

fn tls_of(folder: PathBuf) -> Result<TlsCertificates, AnyError> {
    Ok(TlsCertificates::load(TlsSettings {
        chain: folder.join("server.pem"),
        key: Some(folder.join("server.key")),
        client_ca: Some(folder.join("ca.pem")),
        client_certificate: ClientCertificateDemand::Required,
        min_version: TlsVersion::V12,
        resumes: true,
    })?)
}

fn backend() -> Result<Backend, AnyError> {
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
