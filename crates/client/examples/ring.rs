//! Stores pages with a daemon and fetches them again: `cargo run -p sublet-client --example ring -- SOCKET`.

use std::error::Error;
use std::process::ExitCode;

use sublet_client::ring::{Client, GetOutcome, Key, Page, PutOutcome};
use sublet_types::{ObjectId, PageIndex, PoolFlags};

/// Pages of the batch, as many as a read-ahead of 128 KiB.
const PAGES: u32 = 32;

fn main() -> ExitCode {
    let Some(socket) = std::env::args_os().nth(1) else {
        eprintln!("usage: ring SOCKET");
        return ExitCode::from(2);
    };
    match show(socket.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ring: {error}");
            ExitCode::FAILURE
        }
    }
}

fn show(socket: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let mut client = Client::connect(socket)?;
    let pool = client.create_pool(PoolFlags::default(), None)?;
    let key = |index| Key {
        pool,
        object: ObjectId(7),
        index: PageIndex(index),
    };
    alone(&mut client, key(0))?;
    together(&mut client, key)?;
    client.flush_object(pool, ObjectId(7))?;
    client.destroy_pool(pool)?;
    Ok(())
}

/// Stores one page and fetches it. An ephemeral pool's hit takes the page.
fn alone(client: &mut Client, key: Key) -> Result<(), Box<dyn Error>> {
    let mut page: Page = [42; 4096];
    match client.put(key, &page)? {
        PutOutcome::Stored | PutOutcome::Replaced => println!("put: stored"),
        PutOutcome::Refused(why) => println!("put: refused, {why}"),
    }
    page.fill(0);
    let first = client.get(key, &mut page)?;
    println!("get: {first:?}, its first byte is {}", page[0]);
    println!("get again: {:?}", client.get(key, &mut page)?);
    Ok(())
}

/// Sends many pages in one batch. They are filled and read in place.
fn together(client: &mut Client, key: impl Fn(u32) -> Key) -> Result<(), Box<dyn Error>> {
    let mut batch = client.batch();
    for index in 0..PAGES {
        let (_, page) = batch.put(key(index))?;
        page.fill(index as u8);
    }
    batch.run()?;

    let mut batch = client.batch();
    let tickets = (0..PAGES).map(|index| batch.get(key(index)));
    let tickets: Vec<_> = tickets.collect::<Result<_, _>>()?;
    let answers = batch.run()?;
    let mut hits = 0;
    for (index, ticket) in tickets.into_iter().enumerate() {
        if answers.get(ticket)? == GetOutcome::Hit {
            let page = answers.page(ticket).ok_or("a hit has its page")?;
            assert!(page.iter().all(|byte| *byte == index as u8));
            hits += 1;
        }
    }
    println!("batch: {hits} of {PAGES} pages came back");
    Ok(())
}
