//! The stage of a daemon's swap disks: made with the first of them, found again, and ended when nobody needs it.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sublet_types::{Bytes, DiskKind, DiskName, DiskSettings};

use super::error::DiskError;
use super::open_disks::OpenDisks;
use super::stage::{KeeperError, Kept, Stage};
use crate::{headroom, locked};

/// A keeper that takes longer to answer does not.
const SILENCE: Duration = Duration::from_secs(1);

/// How long it is not asked again then: many swap disks would each wait for it.
const NOT_ASKED_AGAIN: Duration = Duration::from_secs(30);

/// The stage, and who keeps it.
pub(super) struct Staging {
    pub(super) stage: Arc<Stage>,
    /// Nobody where there is none that takes pages.
    pub(super) kept: Option<Kept>,
    /// Disks that are being opened: the stage does not know them yet.
    opening: usize,
}

/// The stage for a disk that is being opened. It stays until this is dropped; then until no disk uses it.
pub(super) struct StageInUse<'a> {
    disks: &'a OpenDisks,
    pub(super) stage: Arc<Stage>,
}

impl Drop for StageInUse<'_> {
    fn drop(&mut self) {
        if let Some(staging) = &mut *self.disks.staging.lock() {
            staging.opening -= 1;
        }
        self.disks.fold_stage();
    }
}

impl OpenDisks {
    pub(super) fn stage_for(
        &self,
        settings: &DiskSettings,
    ) -> Result<Option<StageInUse<'_>>, DiskError> {
        match settings.kind {
            DiskKind::Swap => self.use_stage(),
            DiskKind::Disk => Ok(None),
        }
    }

    fn use_stage(&self) -> Result<Option<StageInUse<'_>>, DiskError> {
        let _changes = self.staging_changes.lock();
        if !self.takes_pages() {
            let made = self.make_stage()?;
            self.put_stage(made);
        }
        let mut staging = self.staging.lock();
        Ok(staging.as_mut().map(|staging| {
            staging.opening += 1;
            StageInUse {
                disks: self,
                stage: Arc::clone(&staging.stage),
            }
        }))
    }

    /// Whether there is a stage, and one that takes pages.
    fn takes_pages(&self) -> bool {
        let staging = self.staging.lock();
        staging
            .as_ref()
            .is_some_and(|staging| staging.kept.is_some())
    }

    /// The stage, or one that takes no pages: that a swap disk is slower is its guest's concern, and nobody else's.
    fn make_stage(&self) -> Result<Staging, DiskError> {
        let slots = Stage::slots_within(self.ground.dirty_max);
        let begun = Instant::now();
        let kept = match self.was_silent_lately() {
            true => Err(KeeperError::at(
                &self.ground.keeper,
                io::Error::new(io::ErrorKind::TimedOut, "it did not answer a moment ago"),
            )),
            false => Kept::take(&self.ground.keeper, slots),
        };
        match kept {
            Ok(kept) => self.stage_of(kept),
            Err(error @ KeeperError::InUse(_)) => Err(error.into()),
            Err(error) => {
                if begun.elapsed() > SILENCE {
                    *self.silent_at.lock() = Some(Instant::now());
                }
                tracing::error!(%error, "there is no stage for pages of swap, and swap is written through");
                Ok(Staging {
                    stage: Arc::new(Stage::none(error).map_err(DiskError::System)?),
                    kept: None,
                    opening: 0,
                })
            }
        }
    }

    fn was_silent_lately(&self) -> bool {
        let at = *self.silent_at.lock();
        at.is_some_and(|at| at.elapsed() < NOT_ASKED_AGAIN)
    }

    /// Disks that were opened without a stage go on without.
    fn put_stage(&self, mut made: Staging) {
        let mut staging = self.staging.lock();
        made.opening = staging.as_ref().map_or(0, |before| before.opening);
        *staging = Some(made);
    }

    /// Opens the stage that a daemon before this one left, though no swap disk asks for it, if there are pages on it.
    /// One without any ends, and the host has its memory back.
    pub(super) fn find_stage(&self) -> Result<(), DiskError> {
        self.check_notes()?;
        let changes = self.staging_changes.lock();
        if !self.takes_pages()
            && let Some(kept) = Kept::find(&self.ground.keeper)?
        {
            let found = self.stage_of(kept)?;
            self.put_stage(found);
        }
        drop(changes);
        if let Some(stage) = self.stage() {
            // So that it is known.
            stage
                .deserted()
                .keys()
                .for_each(|name| drop(self.pledges.noted(name)));
        }
        self.fold_stage();
        Ok(())
    }

    /// Ends a stage that no disk uses and that has no pages. Nobody who only looks waits for that.
    pub(super) fn fold_stage(&self) {
        let _changes = self.staging_changes.lock();
        let is_idle = |staging: &mut Staging| staging.opening == 0 && staging.stage.is_idle();
        let idle = self.staging.lock().take_if(is_idle);
        if let Some(idle) = idle {
            self.pledges.forget_all(idle.stage.id(), &[]);
            idle.kept.into_iter().for_each(Kept::end);
        }
    }

    /// That a disk lost no page with a stage that is gone.
    pub(super) fn check_pledge(&self, name: &DiskName, stage: &Stage) -> Result<(), DiskError> {
        self.check_reach(name, stage)?;
        let is_broken = match self.pledges.is_garbled(name) {
            // Nobody knows which stage it meant. One that has pages of the disk is the one.
            true => !stage.has_pages_of(name),
            false => self.pledges.is_broken(name, stage.id()),
        };
        match is_broken {
            false => Ok(()),
            true => Err(DiskError::Lost(name.clone())),
        }
    }

    /// That nobody out of reach may have a disk's pages. What is given up meanwhile would come back with him, over newer ones.
    pub(super) fn check_reach(&self, name: &DiskName, stage: &Stage) -> Result<(), DiskError> {
        let may_have = || self.pledges.is_broken(name, stage.id()) || self.pledges.is_garbled(name);
        match stage.none_for().is_some() && may_have() {
            false => Ok(()),
            true => Err(DiskError::OutOfReach(name.clone())),
        }
    }

    /// The same of a disk that goes.
    pub(super) fn check_gives_up(&self, name: &DiskName) -> Result<(), DiskError> {
        if !self.is_pledged(name) {
            return Ok(());
        }
        let in_use = self.use_stage()?;
        in_use.map_or(Ok(()), |in_use| self.check_reach(name, &in_use.stage))
    }

    fn stage_of(&self, kept: Kept) -> Result<Staging, DiskError> {
        let failed = |source| KeeperError::at(&self.ground.keeper, source);
        headroom::stay_alive();
        locked::lock_what_comes();
        let file = kept.file().map_err(failed)?;
        let stage = Stage::kept(file, kept.is_lost()).map_err(failed)?;
        let slots = Stage::slots_within(self.ground.dirty_max);
        let wanted = Bytes(Stage::file_bytes(slots));
        if stage.bytes() != wanted {
            tracing::warn!(
                has = %stage.bytes(), %wanted,
                "the stage of the daemon before this one goes on with its size; `dirty_max` holds after a clean stop"
            );
        }
        for (disk, pages) in stage.disks() {
            tracing::info!(%disk, pages, "pages of swap that a daemon before this one had yet to write");
        }
        Ok(Staging {
            stage: Arc::new(stage),
            kept: Some(kept),
            opening: 0,
        })
    }
}
