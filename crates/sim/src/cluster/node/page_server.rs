//! Serves page requests from lent blocks, as the daemon's page server does.

use std::collections::BTreeMap;

use sublet_lend::ids::{ConnectionId, LeaseId, LentBlock, PeerId, SessionId};
use sublet_lend::lender::{LoanLookup, LoanTable};
use sublet_lend::wire::{Answer, PageSet};

use super::memory::{fill_lent, stamp_of};
use super::state::NodeState;
use crate::cluster::environment::Environment;
use crate::cluster::ids::NodeRun;
use crate::cluster::judges::ServedSession;
use crate::cluster::messages::{
    ChannelClass, LentPlace, MessageEnd, PageHello, PageMessage, ReadAnswer, ReadPage, ReadRequest,
    WriteAnswer, WriteRequest,
};
use crate::cluster::mutation::Mutation;
use crate::cluster::network::CloseKind;
use crate::cluster::seal::SealedBytes;

/// A connection that was let in.
#[derive(Clone, Copy, Debug)]
struct ServedConnection {
    peer: PeerId,
    hello: PageHello,
}

/// How true a lender is to its borrowers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Honesty {
    /// It gives what it was given.
    #[default]
    Honest,
    /// It alters one page in so many.
    Lies(u64),
}

/// The pages that a node serves.
#[derive(Default)]
pub(super) struct PageServer {
    served: BTreeMap<ConnectionId, ServedConnection>,
    /// The newest write connection of each session. What older ones bring is thrown away.
    newest_write: BTreeMap<SessionId, u64>,
    pub(super) honesty: Honesty,
    /// The block of each index that was served, for a server that does not look whether it is still lent so.
    remembered: BTreeMap<(PeerId, LeaseId, u32), LentBlock>,
}

impl PageServer {
    /// Lets a connection in, or closes it.
    pub(super) fn hello(
        &mut self,
        state: &NodeState,
        env: &mut Environment,
        (connection, from): (ConnectionId, NodeRun),
        hello: PageHello,
    ) {
        let peer = state.node().peer(from.node);
        let current = state.sessions.get(&peer).map(|session| session.ours);
        let is_current =
            current == Some(hello.session) || env.leaves_out(Mutation::OldSessionServed);
        let is_meant =
            hello.lender == state.incarnation || env.leaves_out(Mutation::IncarnationIgnored);
        if !is_current || !is_meant {
            return env.close(state.run, connection, CloseKind::Abort);
        }
        if hello.class == ChannelClass::Write {
            let newest = self.newest_write.entry(hello.session).or_default();
            *newest = hello.number.max(*newest);
        }
        self.served
            .insert(connection, ServedConnection { peer, hello });
    }

    /// Serves a read.
    pub(super) fn read(
        &mut self,
        state: &NodeState,
        env: &mut Environment,
        (connection, loans): (ConnectionId, &LoanTable),
        read: &ReadRequest,
    ) {
        let Some(served) = self.served.get(&connection).copied() else {
            return;
        };
        self.judge_session(state, env, served);
        let (mut pages, mut present) = (Vec::new(), PageSet::default());
        let mut is_refused = false;
        for (ordinal, place) in read.places.iter().enumerate() {
            match self.find(state, env, loans, (served, read.lease, *place)) {
                LoanLookup::Foreign => is_refused = true,
                LoanLookup::Gone => {}
                LoanLookup::Lent(block) => {
                    let mut bytes = None;
                    let now = state.second(env.now);
                    let read = |page: &[u8]| bytes = stamp_of(page);
                    let worker = &state.memory.worker;
                    worker.read_lent(block, place.place, now, read);
                    if let Some(bytes) = bytes {
                        present.insert(ordinal);
                        pages.push(self.page(env, ordinal, bytes));
                    }
                }
            }
        }
        let answer = match is_refused {
            true => Answer::Refused,
            false => Answer::Pages(present),
        };
        if is_refused {
            pages.clear();
        }
        let data = ReadAnswer {
            tag: read.tag,
            answer,
            pages,
        };
        env.send_pages(state.run, connection, PageMessage::Data(data));
    }

    /// Serves a write. Of one that was cut, what has arrived is written, and nothing is answered.
    pub(super) fn write(
        &mut self,
        state: &NodeState,
        env: &mut Environment,
        (connection, loans): (ConnectionId, &LoanTable),
        write: &WriteRequest,
    ) {
        let Some(served) = self.served.get(&connection).copied() else {
            return;
        };
        let newest = self.newest_write.get(&served.hello.session);
        if newest.is_some_and(|newest| *newest > served.hello.number) {
            return self.refuse(state, env, connection);
        }
        self.judge_session(state, env, served);
        let (mut taken, mut is_refused) = (PageSet::default(), false);
        for (ordinal, (place, bytes)) in write.pages.iter().enumerate() {
            match self.find(state, env, loans, (served, write.lease, *place)) {
                LoanLookup::Foreign => is_refused = true,
                LoanLookup::Gone => {}
                LoanLookup::Lent(block) => {
                    let fill = |page: &mut [u8]| fill_lent(page, bytes);
                    if state.memory.worker.write_lent(block, place.place, fill) {
                        taken.insert(ordinal);
                    }
                }
            }
        }
        if write.ends == MessageEnd::Cut {
            return;
        }
        let answer = match is_refused {
            true => Answer::Refused,
            false => Answer::Pages(taken),
        };
        let done = WriteAnswer {
            tag: write.tag,
            answer,
        };
        env.send_pages(state.run, connection, PageMessage::Done(done));
    }

    /// A connection is over.
    pub(super) fn ended(&mut self, connection: ConnectionId) {
        self.served.remove(&connection);
    }

    /// Closes the connections of a session that is over.
    pub(super) fn end_session(
        &mut self,
        state: &NodeState,
        env: &mut Environment,
        session: SessionId,
    ) {
        self.newest_write.remove(&session);
        if env.leaves_out(Mutation::OldSessionServed) {
            return;
        }
        let of_session = self.served.iter();
        let of_session = of_session.filter(|(_, served)| served.hello.session == session);
        let over: Vec<ConnectionId> = of_session.map(|(connection, _)| *connection).collect();
        for connection in over {
            self.refuse(state, env, connection);
        }
    }

    fn refuse(&mut self, state: &NodeState, env: &mut Environment, connection: ConnectionId) {
        self.served.remove(&connection);
        env.close(state.run, connection, CloseKind::Abort);
    }

    fn judge_session(&self, state: &NodeState, env: &mut Environment, served: ServedConnection) {
        let current = state.sessions.get(&served.peer);
        let session = ServedSession {
            lender: state.incarnation,
            meant: served.hello.lender,
            session: served.hello.session,
            current: current.map(|session| session.ours),
        };
        let finding = env.judges.owner.session_served(session);
        env.judge(state.node(), finding);
    }

    /// Finds the block of a page.
    fn find(
        &mut self,
        state: &NodeState,
        env: &mut Environment,
        loans: &LoanTable,
        (served, lease, place): (ServedConnection, LeaseId, LentPlace),
    ) -> LoanLookup {
        let (peer, index) = (served.peer, place.index);
        let found = loans.find(peer, served.hello.session, lease, index);
        let found = match (found, env.mutation) {
            (LoanLookup::Gone, Some(Mutation::IndexUsedAgain)) => {
                let newest = loans.blocks_of(peer).last();
                newest.map_or(LoanLookup::Gone, LoanLookup::Lent)
            }
            (LoanLookup::Gone, Some(Mutation::RecallWithoutGeneration)) => {
                let before = self.remembered.get(&(peer, lease, index)).copied();
                let present = before.map(|before| present(state, loans, before));
                present.map_or(LoanLookup::Gone, LoanLookup::Lent)
            }
            _ => found,
        };
        if let LoanLookup::Lent(block) = found {
            self.remembered.insert((peer, lease, index), block);
            let finding = env
                .judges
                .owner
                .block_served(state.run, lease, index, block);
            env.judge(state.node(), finding);
        }
        found
    }

    fn page(&self, env: &mut Environment, ordinal: usize, bytes: SealedBytes) -> ReadPage {
        let is_altered = match self.honesty {
            Honesty::Honest => false,
            Honesty::Lies(one_in) => env.luck.below(one_in) == 0,
        };
        let mut bytes = bytes;
        if is_altered {
            bytes[env.luck.below(bytes.len() as u64) as usize] ^= 1;
        }
        ReadPage {
            ordinal,
            bytes,
            is_altered,
        }
    }
}

/// The handle by which a block is reached now, whoever has it: that of its lease, or the one after it.
fn present(state: &NodeState, loans: &LoanTable, before: LentBlock) -> LentBlock {
    let peers = state.sessions.keys();
    let mut lent = peers.flat_map(|peer| loans.blocks_of(*peer));
    let now = lent.find(|lent| lent.block == before.block);
    now.unwrap_or(LentBlock {
        opening: before.opening + 1,
        ..before
    })
}
