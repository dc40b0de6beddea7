//! The host of a node: carries out what the node wants done.

use std::time::Duration;

use sublet_lend::control::ControlMessage;
use sublet_lend::node::{LendingAction, LendingInput, LoanShortfall};

use crate::world::{Happening, World, member_of};

impl World {
    pub(crate) fn carry_out(&mut self, member: usize, action: LendingAction) {
        let incarnation = self.members[member].incarnation;
        match action {
            LendingAction::Connect { peer } => {
                let delay = self.delay();
                self.after(
                    delay,
                    Happening::Dialed(member, incarnation, member_of(member, peer)),
                );
            }
            LendingAction::Send {
                connection,
                message,
            } => {
                if let ControlMessage::Grant(grant) = &message {
                    self.judges.granted(
                        member,
                        &self.members[member],
                        self.connections[&connection].ends,
                        grant,
                    );
                }
                self.send(member, connection, &message);
            }
            LendingAction::Close { connection } => {
                self.members[member].readers.remove(&connection);
                self.close(connection, member);
            }
            LendingAction::OpenSession {
                peer,
                ours,
                incarnation,
                ..
            } => {
                self.members[member].sessions.insert(peer, ours);
                let ours_of = self.members[member].incarnation;
                self.judges
                    .session_opened((member, ours_of), peer, incarnation, ours);
            }
            LendingAction::CloseSession { .. } | LendingAction::Log(_) | LendingAction::Left => {}
            LendingAction::LogStranger { name } => panic!("{name} is a member"),
            other => self.carry_out_in_store(member, other),
        }
    }

    fn carry_out_in_store(&mut self, member: usize, action: LendingAction) {
        let incarnation = self.members[member].incarnation;
        let delay = if self.luck.one_in(2) {
            Duration::ZERO
        } else {
            self.delay()
        };
        let by_turns = self.lends_by_turns();
        let store = &mut self.members[member].store;
        match action {
            LendingAction::LendBlocks { peer, blocks } => {
                let (blocks, shortfall) = if self.luck.one_in(4) && by_turns {
                    let some = self.luck.below(u64::from(blocks) + 1) as u32;
                    (some, LoanShortfall::TurnOver)
                } else {
                    (blocks, LoanShortfall::NoMemory)
                };
                let input = LendingInput::BlocksLent {
                    peer,
                    blocks: store.lend(blocks),
                    shortfall,
                };
                self.after(delay, Happening::Answer(member, incarnation, input));
            }
            LendingAction::FreeBlocks { blocks, .. } => {
                blocks.into_iter().for_each(|block| store.take_home(block));
            }
            LendingAction::TakeLent { blocks, reason } => {
                self.after(delay, Happening::Take(member, incarnation, blocks, reason));
            }
            LendingAction::ReportHeats { peer } => {
                let lent = self.members[member].node.loans().blocks_of(peer);
                let heats = lent.map(|block| (block, self.luck.below(10))).collect();
                self.after(
                    delay,
                    Happening::Answer(member, incarnation, LendingInput::Heats { peer, heats }),
                );
            }
            LendingAction::OpenLease {
                peer, lease, range, ..
            } => store.open(peer, lease, range),
            LendingAction::ExtendLease { peer, lease, range } => store.extend(peer, lease, range),
            LendingAction::ForgetBlocks {
                peer,
                lease,
                ranges,
            } => store.forget(peer, lease, &ranges),
            LendingAction::EndLease { peer, lease } => store.end(peer, lease),
            LendingAction::SuspendLeases { peer } => assert!(store.suspended.insert(peer)),
            LendingAction::ResumeLeases { peer } => assert!(store.suspended.remove(&peer)),
            LendingAction::ChooseReturns {
                peer,
                blocks,
                reason,
                ..
            } => {
                if self.is_calm || !self.luck.one_in(3) {
                    let some = store.empty_some(&mut self.luck, peer, blocks);
                    if let Some((lease, ranges)) = some {
                        let input = LendingInput::BlocksReturned {
                            peer,
                            lease,
                            ranges,
                            reason,
                        };
                        self.after(delay, Happening::Answer(member, incarnation, input));
                    }
                }
            }
            other => panic!("{other:?} is not for the store"),
        }
    }
}
