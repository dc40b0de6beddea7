//! The stage of a daemon's swap disks. It is made with the first of them, found again, and ended when no disk needs it.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sublet_types::{Bytes, DiskKind, DiskName, DiskSettings};

use super::error::DiskError;
use super::open_disks::OpenDisks;
use super::stage::{KeeperError, KeptMemfd, Stage};
use crate::{headroom, memory_lock};

/// A keeper that takes longer counts as silent.
const SILENCE: Duration = Duration::from_secs(1);

/// How long a silent keeper is not asked again. Otherwise many swap disks would each wait for it.
const NOT_ASKED_AGAIN: Duration = Duration::from_secs(30);

/// The stage, and its keeper's memfd.
pub(super) struct KeptStage {
    pub(super) stage: Arc<Stage>,
    /// `None` if no stage takes pages.
    pub(super) kept: Option<KeptMemfd>,
    /// Disks that are being opened. The stage does not know them yet.
    opening: usize,
}

/// The stage for a disk that is being opened. It stays until the lease is dropped, and then until no disk uses it.
pub(super) struct StageLease<'a> {
    disks: &'a OpenDisks,
    pub(super) stage: Arc<Stage>,
}

impl Drop for StageLease<'_> {
    fn drop(&mut self) {
        if let Some(staging) = &mut *self.disks.staging.lock() {
            staging.opening -= 1;
        }
        self.disks.end_idle_stage();
    }
}

impl OpenDisks {
    pub(super) fn lease_stage_for(
        &self,
        settings: &DiskSettings,
    ) -> Result<Option<StageLease<'_>>, DiskError> {
        match settings.kind {
            DiskKind::Swap => self.lease_stage(),
            DiskKind::Disk => Ok(None),
        }
    }

    fn lease_stage(&self) -> Result<Option<StageLease<'_>>, DiskError> {
        let _changes = self.staging_changes.lock();
        if !self.takes_pages() {
            let made = self.make_stage()?;
            self.replace_stage(made);
        }
        let mut staging = self.staging.lock();
        Ok(staging.as_mut().map(|staging| {
            staging.opening += 1;
            StageLease {
                disks: self,
                stage: Arc::clone(&staging.stage),
            }
        }))
    }

    /// Returns whether there is a stage that takes pages.
    fn takes_pages(&self) -> bool {
        let staging = self.staging.lock();
        staging
            .as_ref()
            .is_some_and(|staging| staging.kept.is_some())
    }

    /// Makes the stage, or one that takes no pages. A slower swap disk concerns only its own guest.
    fn make_stage(&self) -> Result<KeptStage, DiskError> {
        let slots = Stage::slots_within(self.environment.dirty_max);
        let begun = Instant::now();
        let kept = match self.was_silent_lately() {
            true => Err(KeeperError::at(
                &self.environment.keeper,
                io::Error::new(io::ErrorKind::TimedOut, "it did not answer a moment ago"),
            )),
            false => KeptMemfd::find_or_start(&self.environment.keeper, slots),
        };
        match kept {
            Ok(kept) => self.stage_of(kept),
            Err(error @ KeeperError::InUse(_)) => Err(error.into()),
            Err(error) => {
                if begun.elapsed() > SILENCE {
                    *self.silent_at.lock() = Some(Instant::now());
                }
                let dirty_max = self.environment.dirty_max;
                tracing::error!(%dirty_max, %error, "there is no stage for pages of swap, and swap is written through; the daemon tries again when it starts: mend the cause and restart it");
                Ok(KeptStage {
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

    /// Replaces the stage. Disks that were opened without a stage go on without one.
    fn replace_stage(&self, mut made: KeptStage) {
        let mut staging = self.staging.lock();
        made.opening = staging.as_ref().map_or(0, |before| before.opening);
        *staging = Some(made);
    }

    /// Opens the stage that an earlier daemon left if there are pages on it, though no swap disk asks for it. A stage
    /// without pages ends, and the host has its memory back.
    pub(super) fn recover_stage(&self) -> Result<(), DiskError> {
        self.check_notes()?;
        let changes = self.staging_changes.lock();
        if !self.takes_pages()
            && let Some(kept) = KeptMemfd::find(&self.environment.keeper)?
        {
            let found = self.stage_of(kept)?;
            self.replace_stage(found);
        }
        drop(changes);
        if let Some(stage) = self.stage() {
            // This makes the stage known.
            stage
                .unserved()
                .keys()
                .for_each(|name| drop(self.stage_notes.read(name)));
        }
        self.end_idle_stage();
        Ok(())
    }

    /// Ends a stage that no disk uses and that has no pages. Callers that only read do not wait for that.
    pub(super) fn end_idle_stage(&self) {
        let _changes = self.staging_changes.lock();
        let is_idle = |staging: &mut KeptStage| staging.opening == 0 && staging.stage.is_idle();
        let idle = self.staging.lock().take_if(is_idle);
        if let Some(idle) = idle {
            self.stage_notes.remove_all_but(idle.stage.id(), &[]);
            idle.kept.into_iter().for_each(KeptMemfd::end);
        }
    }

    /// Checks that a disk lost no page with a stage that is gone.
    pub(super) fn check_stage_note(&self, name: &DiskName, stage: &Stage) -> Result<(), DiskError> {
        self.check_reachable(name, stage)?;
        let is_broken = match self.stage_notes.is_garbled(name) {
            // Nobody knows which stage the note meant. If this stage has pages of the disk, it is that one.
            true => !stage.has_pages_of(name),
            false => self.stage_notes.is_stage_gone(name, stage.id()),
        };
        match is_broken {
            false => Ok(()),
            true => Err(DiskError::Lost(name.clone())),
        }
    }

    /// Checks that no keeper out of reach may have a disk's pages. What is given up meanwhile would come back with that
    /// keeper, over newer pages.
    pub(super) fn check_reachable(&self, name: &DiskName, stage: &Stage) -> Result<(), DiskError> {
        let may_have = || {
            self.stage_notes.is_stage_gone(name, stage.id()) || self.stage_notes.is_garbled(name)
        };
        match stage.none_for().is_some() && may_have() {
            false => Ok(()),
            true => Err(DiskError::OutOfReach(name.clone())),
        }
    }

    /// The same check for a disk that goes.
    pub(super) fn check_discard(&self, name: &DiskName) -> Result<(), DiskError> {
        if !self.may_have_staged_pages(name) {
            return Ok(());
        }
        let in_use = self.lease_stage()?;
        in_use.map_or(Ok(()), |in_use| self.check_reachable(name, &in_use.stage))
    }

    fn stage_of(&self, kept: KeptMemfd) -> Result<KeptStage, DiskError> {
        let failed = |source| KeeperError::at(&self.environment.keeper, source);
        headroom::protect_from_oom_killer();
        memory_lock::lock_future_memory();
        let file = kept.file().map_err(failed)?;
        let stage = Stage::kept(file, kept.is_lost()).map_err(failed)?;
        let slots = Stage::slots_within(self.environment.dirty_max);
        let wanted = Bytes(Stage::file_bytes(slots));
        if stage.bytes() != wanted {
            tracing::warn!(
                has = %stage.bytes(), %wanted,
                "the earlier daemon's stage keeps its size; `dirty_max` holds after a clean stop"
            );
        }
        for (disk, pages) in stage.disks() {
            tracing::info!(%disk, pages, "an earlier daemon left pages of swap; the disk writes them to its backing as soon as it is open");
        }
        Ok(KeptStage {
            stage: Arc::new(stage),
            kept: Some(kept),
            opening: 0,
        })
    }
}
