//! Stores pages from several tasks that share one ring:
//! `cargo run -p sublet-client --features async --example ring_async -- SOCKET`.

use std::error::Error;
use std::process::ExitCode;

use sublet_client::ring::{AsyncClient, GetOutcome, Key};
use sublet_types::{ObjectId, PageIndex, PoolFlags, PoolId};
use tokio::task::JoinSet;

/// Tasks, each with an object of its own.
const TASKS: u64 = 4;

/// Pages of a task's batch, as many as a read-ahead of 128 KiB.
const PAGES: u32 = 32;

fn main() -> ExitCode {
    let Some(socket) = std::env::args_os().nth(1) else {
        eprintln!("usage: ring_async SOCKET");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let shown = runtime
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(show(socket.as_ref())));
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ring_async: {error}");
            ExitCode::FAILURE
        }
    }
}

type AnyError = Box<dyn Error + Send + Sync>;

async fn show(socket: &std::path::Path) -> Result<(), AnyError> {
    let client = AsyncClient::connect(socket).await?;
    let pool = client.create_pool(PoolFlags::default(), None).await?;
    let mut tasks = JoinSet::new();
    for object in 0..TASKS {
        tasks.spawn(there_and_back(client.clone(), pool, ObjectId(object)));
    }
    let mut hits = 0;
    while let Some(task) = tasks.join_next().await {
        hits += task??;
    }
    let all = TASKS * u64::from(PAGES);
    println!("batches of {TASKS} tasks: {hits} of {all} pages came back");
    client.destroy_pool(pool).await?;
    Ok(())
}

/// Stores an object's pages in one batch and fetches them in another. Returns how many were there.
async fn there_and_back(
    client: AsyncClient,
    pool: PoolId,
    object: ObjectId,
) -> Result<u64, AnyError> {
    let key = |index| Key {
        pool,
        object,
        index: PageIndex(index),
    };
    let mut batch = client.batch();
    for index in 0..PAGES {
        let (_, page) = batch.put(key(index))?;
        page.fill(index as u8);
    }
    batch.run().await?;

    let mut batch = client.batch();
    let tickets = (0..PAGES).map(|index| batch.get(key(index)));
    let tickets: Vec<_> = tickets.collect::<Result<_, _>>()?;
    let answers = batch.run().await?;
    let mut hits = 0;
    for (index, ticket) in tickets.into_iter().enumerate() {
        if answers.get(ticket)? == GetOutcome::Hit {
            let page = answers.page(ticket).ok_or("a hit has its page")?;
            assert!(page.iter().all(|byte| *byte == index as u8));
            hits += 1;
        }
    }
    Ok(hits)
}
