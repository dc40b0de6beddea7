//! Snapshots of a store of many tenants that is as large as that of a large host, except for the bytes of its pages.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use sublet_store::{AllFigures, MappedMemory, PageKey, PageSettings, Store, StoreSettings, Worker};
use sublet_types::{
    Bytes, ObjectId, PAGE_BYTES, PageIndex, PoolFlags, PoolId, Second, TenantId, TenantSettings,
    Weight,
};

use super::super::bench_store::BenchStoreError;
use super::super::page_content::page_content;
use super::super::pair::micros;
use super::super::progress::BenchProgress;
use super::super::report::{BenchReport, BenchRow, Goal, RoundsSummary};
use super::args::Args;
use super::error::StatusError;

/// Two steps: filling and taking snapshots.
pub(super) const STEPS: usize = 2;

/// The most milliseconds of a snapshot.
const LOOK_MILLIS: f64 = 2.0;

/// The bytes that stand for a page.
const STAMP: u64 = 16;

/// The smallest block that the index of items takes. It has frames for 16 MiB.
const BLOCK: u64 = 64 << 10;

const BLOCK_PAGES: u64 = BLOCK / STAMP;

/// Blocks beyond those of the pages: for the index of items and what is kept free for eviction.
const SPARE_BLOCKS: u64 = 16;

/// Pages of an object, as in a disk's extent.
const OBJECT_PAGES: u64 = 512;

const NOW: Second = Second(2);

/// Fills a store and takes snapshots of it.
pub(super) fn run(
    args: &Args,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<(), StatusError> {
    progress.show_message(format!("filling a simulated {}", args.simulated));
    let (store, put) = filled_store(args)?;
    progress.step();
    progress.show_message("looking at it");
    let figures = store.all_figures();
    let there = pages(&figures);
    if there == 0 || there < put - put / 10 {
        return Err(StatusError::Sparse { there, put });
    }
    report
        .rows
        .extend(rows(&time_snapshots(&store, args.looks), args));
    report.notes.push(format!(
        "The simulated arena holds {there} pages of {} pools, {STAMP} bytes of each: its directories, frames and counters are as many as a real one's.",
        figures.pools.len()
    ));
    progress.step();
    Ok(())
}

fn rows(millis: &[f64], args: &Args) -> [BenchRow; 2] {
    let name = |what: &str| {
        format!(
            "snapshot of {} tenants, simulated {}: {what}",
            args.simulated_tenants, args.simulated
        )
    };
    let measured = RoundsSummary::of(millis);
    [
        BenchRow::new(name("median"), "ms", measured).goal(Goal::OursAtMost(LOOK_MILLIS)),
        BenchRow::new(name("worst"), "ms", RoundsSummary::once(measured.most)),
    ]
}

/// The milliseconds of each snapshot.
fn time_snapshots(store: &Store, count: u32) -> Vec<f64> {
    let look = |_| {
        let begun = Instant::now();
        black_box(store.all_figures());
        micros(begun.elapsed()) / 1000.0
    };
    (0..count).map(look).collect()
}

fn pages(figures: &AllFigures) -> u64 {
    figures.pools.iter().map(|pool| pool.pages.0).sum()
}

/// A store full of pages, and how many pages were put.
fn filled_store(args: &Args) -> Result<(Arc<Store>, u64), BenchStoreError> {
    let store = empty(args.simulated.0 / PAGE_BYTES / BLOCK_PAGES)?;
    let worker = store.worker()?;
    let tenants = u64::from(args.simulated_tenants);
    // A tenant uses only a part of its last block.
    let each = (args.simulated.0 / PAGE_BYTES / tenants).saturating_sub(BLOCK_PAGES);
    for number in 0..tenants {
        let tenant = add_tenant(&store, number)?;
        let pool = store.create_pool(tenant, PoolFlags::default(), None)?;
        fill(&worker, tenant, pool, each);
    }
    Ok((store, each * tenants))
}

fn empty(blocks: u64) -> Result<Arc<Store>, BenchStoreError> {
    let bytes = Bytes((blocks + blocks / 64 + SPARE_BLOCKS) * BLOCK);
    let memory = MappedMemory::reserve(bytes.0 as usize, BLOCK as usize)?;
    let settings = StoreSettings {
        capacity: bytes,
        limit: bytes,
        item_max: Bytes(BLOCK / 4),
        seed: 0x5eed,
        evicts: true,
        pages: PageSettings {
            page_bytes: STAMP as usize,
            ..PageSettings::default()
        },
    };
    let store = Store::over(Box::new(memory), BLOCK as usize, settings);
    store.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory).into())
}

fn add_tenant(store: &Store, number: u64) -> Result<TenantId, BenchStoreError> {
    Ok(store.add_tenant(TenantSettings {
        name: format!("tenant-{number}").parse()?,
        weight: Weight::default(),
        floor: None,
        ceiling: None,
    })?)
}

fn fill(worker: &Worker, tenant: TenantId, pool: PoolId, pages: u64) {
    let content = page_content(STAMP as usize);
    for number in 0..pages {
        let key = PageKey {
            pool,
            object: ObjectId(number / OBJECT_PAGES),
            index: PageIndex((number % OBJECT_PAGES) as u32),
        };
        worker.put_page(tenant, key, NOW, |page| page.write(&content));
    }
}
