//! Reads a history from files.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};

use super::call::{CALL_PAGES_MAX, CALLS_MAX, CallVerb, HistoryCall, PAGES_MAX};
use super::error::{HistoryError, HistoryFault};
use super::line::HistoryLine;
use crate::cluster::judges::PoolPromise;
use crate::virtual_time::VirtualInstant;

/// Bytes of a line.
pub(super) const LINE_BYTES_MAX: u64 = 1 << 20;

/// What clients asked for and got.
#[derive(Debug, Default)]
pub struct History {
    /// Names of files, in the order in which they were read.
    pub(super) files: Vec<String>,
    pub(super) clients: Names,
    pub(super) pools: Names,
    /// What each pool promises.
    pub(super) promises: Vec<PoolPromise>,
    pub(super) calls: Vec<HistoryCall>,
}

/// Names, and their places.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) names: Vec<String>,
    places: HashMap<String, usize>,
}

impl Names {
    fn place(&mut self, name: String) -> usize {
        if let Some(place) = self.places.get(&name) {
            return *place;
        }
        let place = self.names.len();
        self.names.push(name.clone());
        self.places.insert(name, place);
        place
    }
}

/// A call's part that all kinds of calls have.
struct CallHead {
    client: String,
    began: u64,
    ended: Option<u64>,
    pool: String,
    page: u64,
}

impl History {
    /// Reads a file. All files of a history have times of one clock.
    ///
    /// # Errors
    ///
    /// The first line that cannot be read, or makes no sense.
    pub fn read(&mut self, file: &str, bytes: impl Read) -> Result<(), HistoryError> {
        self.files.push(file.to_owned());
        let mut bytes = BufReader::with_capacity(1 << 16, bytes);
        let mut text = Vec::new();
        for line in 1.. {
            match self.read_line(line, &mut bytes, &mut text) {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => {
                    let file = file.to_owned();
                    return Err(HistoryError { file, line, fault });
                }
            }
        }
        Ok(())
    }

    /// Returns whether there was a line.
    fn read_line(
        &mut self,
        number: u64,
        bytes: &mut impl BufRead,
        text: &mut Vec<u8>,
    ) -> Result<bool, HistoryFault> {
        text.clear();
        let mut bounded = bytes.take(LINE_BYTES_MAX + 1);
        let count = bounded.read_until(b'\n', text);
        let count = count.map_err(HistoryFault::Unreadable)?;
        if count as u64 > LINE_BYTES_MAX {
            return Err(HistoryFault::LongLine);
        }
        if !text.trim_ascii().is_empty() {
            let line = serde_json::from_slice(text).map_err(HistoryFault::Malformed)?;
            self.take(number, line)?;
        }
        Ok(count > 0)
    }

    fn take(&mut self, number: u64, line: HistoryLine) -> Result<(), HistoryFault> {
        let (head, verb) = match line {
            HistoryLine::Pool { pool, promise } => return self.declare(pool, promise.into()),
            HistoryLine::Write {
                client,
                began,
                ended,
                pool,
                page,
                wrote,
            } => (
                CallHead {
                    client,
                    began,
                    ended,
                    pool,
                    page,
                },
                CallVerb::Make(wrote),
            ),
            HistoryLine::Read {
                client,
                began,
                ended,
                pool,
                page,
                found,
            } => (
                CallHead {
                    client,
                    began,
                    ended: Some(ended),
                    pool,
                    page,
                },
                CallVerb::Find(found.into_iter().map(Into::into).collect()),
            ),
            HistoryLine::Flush {
                client,
                began,
                ended,
                pool,
                page,
                pages,
            } => (
                CallHead {
                    client,
                    began,
                    ended,
                    pool,
                    page,
                },
                CallVerb::Make(vec![None; pages.min(CALL_PAGES_MAX + 1)]),
            ),
        };
        self.add(number, head, verb)
    }

    fn declare(&mut self, pool: String, promise: PoolPromise) -> Result<(), HistoryFault> {
        let place = self.pools.place(pool.clone());
        match self.promises.get(place) {
            None => self.promises.push(promise),
            Some(before) if *before != promise => return Err(HistoryFault::OtherPromise(pool)),
            Some(_) => {}
        }
        Ok(())
    }

    fn add(&mut self, line: u64, head: CallHead, verb: CallVerb) -> Result<(), HistoryFault> {
        let CallHead {
            client,
            began,
            ended,
            pool,
            page,
        } = head;
        let pages = verb.pages();
        let pool = self
            .pools
            .places
            .get(&pool)
            .copied()
            .ok_or(HistoryFault::UnknownPool(pool))?;
        if !(1..=CALL_PAGES_MAX).contains(&pages) {
            return Err(HistoryFault::PageCount(pages));
        }
        let last = page.saturating_add(pages as u64 - 1);
        if last >= PAGES_MAX {
            return Err(HistoryFault::PageNumber(last));
        }
        if ended.is_some_and(|ended| ended < began) {
            return Err(HistoryFault::EndsEarly);
        }
        if self.calls.len() == CALLS_MAX {
            return Err(HistoryFault::TooManyCalls);
        }
        self.calls.push(HistoryCall {
            file: self.files.len() - 1,
            line,
            client: self.clients.place(client),
            pool,
            page: page as u32,
            began: VirtualInstant(began),
            ended: ended.map_or(VirtualInstant::NEVER, VirtualInstant),
            verb,
        });
        Ok(())
    }
}
