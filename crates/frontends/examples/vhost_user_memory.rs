//! Serves a disk over vhost-user-blk, with its bytes in a file.
//!
//! ```text
//! cargo run --release -p sublet-frontends --example vhost_user_memory -- SOCKET FILE [QUEUES]
//! ```
//!
//! It runs until it is killed. If you start it again, it continues where it was.

mod memory_disk;

use std::error::Error;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memory_disk::{DiskBehavior, MemoryDisk, backend};
use sublet_frontends::block_device::DiskShape;
use sublet_frontends::vhost_user::serve::{Settings, start};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, file, queues @ ..] = &arguments[..] else {
        return Err("say SOCKET FILE [QUEUES]".into());
    };
    let file = OpenOptions::new().read(true).write(true).open(file)?;
    let shape = DiskShape {
        bytes: file.metadata()?.len() / 512 * 512,
        read_only: false,
        trims: true,
    };
    let manners = DiskBehavior {
        hits: 4,
        takes_writes: false,
        delay_max: Duration::from_micros(200),
    };
    let mut settings = Settings::default();
    if let [queues, ..] = queues {
        settings.queues = queues.parse()?;
    }
    let (backend, tenant) = backend();
    let disk = MemoryDisk::new("memory", tenant, shape, file, manners);
    let running = start(
        Arc::clone(&disk) as _,
        Path::new(socket),
        0o600,
        &backend,
        settings,
    )?;
    loop {
        std::thread::sleep(Duration::from_secs(5));
        println!("{:?} {:?}", running.figures().named(), disk.counts);
    }
}
