//! Content and Lost over a history.
//!
//! Calls are played again in the order of their beginnings and ends. A read may find what its page may have been at
//! any moment between the read's own beginning and end: a read that overlaps a write may see either.

use std::collections::HashMap;
use std::fmt;

use super::call::{CallVerb, FoundContent, HistoryCall};
use super::reader::History;
use crate::cluster::judges::{PageState, PageVersions, PoolPromise};
use crate::cluster::verdict::ClusterJudge;
use crate::virtual_time::VirtualInstant;

/// What judges say of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryReport {
    /// How many clients there were.
    pub clients: usize,
    /// How many pools.
    pub pools: usize,
    /// How many calls.
    pub calls: usize,
    /// How many pages were written or flushed, each as often as it was.
    pub made: u64,
    /// How many pages were read, each as often as it was.
    pub read: u64,
    /// Of those that were read how many were found.
    pub hits: u64,
    /// The first violation.
    pub violation: Option<HistoryViolation>,
}

/// A page that should not have come so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryViolation {
    /// The file of the call.
    pub file: String,
    /// Its line, from 1.
    pub line: u64,
    /// Which judge objects.
    pub judge: ClusterJudge,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for HistoryViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HistoryViolation {
            file,
            line,
            judge,
            what,
        } = self;
        write!(f, "{file}:{line}: {judge}: {what}")
    }
}

impl History {
    /// Judges all of it, up to the first violation.
    pub fn judge(&self) -> HistoryReport {
        let mut report = HistoryReport {
            clients: self.clients.names.len(),
            pools: self.pools.names.len(),
            calls: self.calls.len(),
            made: 0,
            read: 0,
            hits: 0,
            violation: None,
        };
        for call in &self.calls {
            match &call.verb {
                CallVerb::Make(states) => report.made += states.len() as u64,
                CallVerb::Find(found) => {
                    report.read += found.len() as u64;
                    let hits = found.iter().filter(|each| **each != FoundContent::Nothing);
                    report.hits += hits.count() as u64;
                }
            }
        }
        let mut replay = Replay::of(self);
        report.violation = self
            .moments()
            .into_iter()
            .find_map(|moment| replay.pass(moment));
        report
    }

    /// Beginnings and ends of all calls in their order. What begins when something else ends overlaps it.
    fn moments(&self) -> Vec<Moment> {
        let answered = |call: &HistoryCall| call.ended != VirtualInstant::NEVER;
        let both = self.calls.iter().enumerate().flat_map(|(place, call)| {
            let end = answered(call).then_some((call.ended, Edge::End, place));
            [(call.began, Edge::Begin, place)].into_iter().chain(end)
        });
        let mut moments: Vec<Moment> = both.collect();
        moments.sort_unstable();
        moments
    }
}

/// When, which end of a call, and the call by its place.
type Moment = (VirtualInstant, Edge, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Begin,
    End,
}

/// A history that is played again.
struct Replay<'a> {
    history: &'a History,
    pages: HashMap<PageKey, PageReplay>,
}

/// A pool by its place, and a page of it.
type PageKey = (usize, u32);

/// A page, and the reads of it that are open.
struct PageReplay {
    promise: PoolPromise,
    versions: PageVersions,
    reads: Vec<OpenRead>,
}

/// A read that is not answered yet.
struct OpenRead {
    /// The call, by its place.
    call: usize,
    /// What the page may have been since the read began.
    may_be: Vec<PageState>,
}

/// One page of a call: the call's place among all, and the page's within the call.
struct CallPage<'a> {
    place: usize,
    call: &'a HistoryCall,
    nth: usize,
}

/// What a judge objects to, and what the page may have been instead.
struct Objection {
    judge: ClusterJudge,
    may_be: Vec<PageState>,
}

impl<'a> Replay<'a> {
    fn of(history: &'a History) -> Replay<'a> {
        Replay {
            history,
            pages: HashMap::new(),
        }
    }

    /// Plays a beginning or an end. Returns what is wrong.
    fn pass(&mut self, (_, edge, place): Moment) -> Option<HistoryViolation> {
        let call = &self.history.calls[place];
        let numbers = (call.page..).take(call.verb.pages()).enumerate();
        let mut wrong = None;
        for (nth, number) in numbers {
            let promise = self.history.promises[call.pool];
            let page = self.pages.entry((call.pool, number));
            let page = page.or_insert_with(|| PageReplay::of(promise));
            let of_call = CallPage { place, call, nth };
            match edge {
                Edge::Begin => page.begin(&of_call),
                Edge::End => {
                    let objection = page.end(&of_call);
                    let told = objection.map(|it| self.history.violation(call, number, nth, &it));
                    wrong = wrong.or(told);
                }
            }
        }
        wrong
    }
}

impl PageReplay {
    fn of(promise: PoolPromise) -> PageReplay {
        PageReplay {
            promise,
            versions: PageVersions::of(promise.at_first()),
            reads: Vec::new(),
        }
    }

    fn begin(&mut self, CallPage { place, call, nth }: &CallPage<'_>) {
        match &call.verb {
            CallVerb::Find(found) => {
                self.reads.push(OpenRead {
                    call: *place,
                    may_be: self.versions.states(),
                });
                if self.promise.is_gone_after(found[*nth].kind()) {
                    self.begin_making(None);
                }
            }
            CallVerb::Make(states) => {
                self.begin_making(states[*nth]);
                let unanswered = call.ended == VirtualInstant::NEVER;
                if unanswered && self.promise != PoolPromise::Disk {
                    // It may have been refused as well.
                    self.begin_making(None);
                }
            }
        }
    }

    fn begin_making(&mut self, state: PageState) {
        self.versions.begin(state);
        let open = self.reads.iter_mut();
        open.for_each(|read| read.may_be.push(state));
    }

    fn end(&mut self, CallPage { place, call, nth }: &CallPage<'_>) -> Option<Objection> {
        match &call.verb {
            CallVerb::Make(states) => {
                self.versions.end(states[*nth], call.began, call.ended);
                None
            }
            CallVerb::Find(found) => {
                let open = self.reads.iter().position(|read| read.call == *place);
                let OpenRead { may_be, .. } = self.reads.swap_remove(open?);
                let found = found[*nth].kind();
                if self.promise.is_gone_after(found) {
                    self.versions.end(None, call.began, call.ended);
                }
                let judge = self
                    .promise
                    .objects(found, |state| may_be.contains(&state))?;
                Some(Objection { judge, may_be })
            }
        }
    }
}

impl History {
    fn violation(
        &self,
        call: &HistoryCall,
        number: u32,
        nth: usize,
        Objection { judge, may_be }: &Objection,
    ) -> HistoryViolation {
        let found = match &call.verb {
            CallVerb::Find(found) => found[nth].to_string(),
            CallVerb::Make(_) => String::new(),
        };
        let mut expected: Vec<String> = may_be.iter().map(|state| words(*state)).collect();
        expected.dedup();
        HistoryViolation {
            file: self.files[call.file].clone(),
            line: call.line,
            judge: *judge,
            what: format!(
                "client {} found {found} at page {number} of {}, which was {}",
                self.clients.names[call.client],
                self.pools.names[call.pool],
                expected.join(" or "),
            ),
        }
    }
}

fn words(state: PageState) -> String {
    match state {
        Some(version) => format!("version {version}"),
        None => "gone".to_owned(),
    }
}
