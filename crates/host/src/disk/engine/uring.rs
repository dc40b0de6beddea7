//! io_uring: the kernel reads and writes while the disk's thread goes on.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::fs::FallocateFlags;
use sublet_frontends::block::Buffer;

use super::super::bell::Bell;
use super::job::{Carrier, Deed, FLYING_MAX, Haste, Job};
use crate::patience::is_lack;

/// A ring, and the jobs that the kernel has: their buffers and files stay where they are until it is done.
pub(super) struct Uring {
    ring: IoUring,
    jobs: Vec<Option<Job>>,
}

impl Uring {
    pub(super) fn new(bell: &Arc<Bell>) -> io::Result<Uring> {
        let ring = IoUring::new(FLYING_MAX as u32)?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Fsync::CODE,
            opcode::Fallocate::CODE,
        ];
        if !needed.iter().all(|code| probe.is_supported(*code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        ring.submitter()
            .register_eventfd(bell.as_fd().as_raw_fd())?;
        Ok(Uring {
            ring,
            jobs: (0..FLYING_MAX).map(|_| None).collect(),
        })
    }
}

/// What the kernel is told. It points into the job's buffer.
fn entry(token: usize, job: &mut Job) -> squeue::Entry {
    let fd = types::Fd(job.file.as_raw_fd());
    let part = &mut job.buffer[job.part.clone()];
    let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
    let entry = match job.deed {
        Deed::Read => opcode::Read::new(fd, part.as_mut_ptr(), len)
            .offset(job.at)
            .build(),
        Deed::Write(haste) => opcode::Write::new(fd, part.as_ptr(), len)
            .offset(job.at)
            .ioprio(priority(haste))
            .build(),
        Deed::Sync => opcode::Fsync::new(fd)
            .flags(types::FsyncFlags::DATASYNC)
            .build(),
        Deed::Punch(len) => hole(fd, job.at, len, FallocateFlags::PUNCH_HOLE),
        Deed::Zero(len) => hole(fd, job.at, len, FallocateFlags::ZERO_RANGE),
    };
    entry.user_data(token as u64)
}

/// As the kernel says it (ioprio): the class in the upper three bits, the level in the lower ones.
fn priority(haste: Haste) -> u16 {
    const BEST_EFFORT: u16 = 2;
    const LAST_LEVEL: u16 = 7;
    match haste {
        Haste::Awaited => 0, // this thread's own
        // Not the idle class: under load that may never have its turn, and the stage would fill.
        Haste::Leisurely => BEST_EFFORT << 13 | LAST_LEVEL,
    }
}

fn hole(fd: types::Fd, at: u64, len: u64, how: FallocateFlags) -> squeue::Entry {
    let mode = (how | FallocateFlags::KEEP_SIZE).bits();
    opcode::Fallocate::new(fd, len)
        .offset(at)
        .mode(mode as i32)
        .build()
}

impl Carrier for Uring {
    fn carry(&mut self, token: usize, job: Job) -> Result<(), Job> {
        let entry = entry(token, self.jobs[token].insert(job));
        // SAFETY: the entry points into a buffer, whose bytes are on the heap and stay there, and names a file; both
        // are owned by `jobs` until the kernel has said that it is done with them (`reap`, `drop`).
        match unsafe { self.ring.submission().push(&entry) } {
            Ok(()) => Ok(()),
            Err(_) => self.jobs[token].take().map_or(Ok(()), Err),
        }
    }

    fn send(&mut self) -> io::Result<bool> {
        if self.ring.submission().is_empty() {
            return Ok(true);
        }
        match self.ring.submit() {
            Err(error) if !is_passing(&error) => Err(error),
            // What was not taken is offered again.
            _ => Ok(self.ring.submission().is_empty()),
        }
    }

    fn reap(&mut self, done: &mut dyn FnMut(usize, io::Result<usize>, Buffer)) {
        for entry in self.ring.completion() {
            let token = entry.user_data() as usize;
            let result = match entry.result() {
                bytes if bytes >= 0 => Ok(bytes as usize),
                errno => Err(io::Error::from_raw_os_error(-errno)),
            };
            if let Some(job) = self.jobs.get_mut(token).and_then(Option::take) {
                done(token, result, job.buffer);
            }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    is_lack(error) || error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error())
}

/// What the kernel still has is waited for: it writes into our buffers.
impl Drop for Uring {
    fn drop(&mut self) {
        while self.jobs.iter().any(Option::is_some) {
            if let Err(error) = self.ring.submit_and_wait(1)
                && !is_passing(&error)
            {
                // Rather lose the memory than have the kernel write into what is somebody else's.
                self.jobs.drain(..).for_each(std::mem::forget);
                return;
            }
            self.reap(&mut |_, _, _| {});
        }
    }
}
