//! io_uring: the kernel reads and writes while the disk's thread goes on.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::fs::FallocateFlags;
use sublet_frontends::block_device::Buffer;

use super::super::event_fd::EventFd;
use super::io_job::{FLYING_MAX, IoExecutor, IoJob, IoOperation, IoPriority};
use crate::retry::is_transient_shortage;

/// A ring, and the jobs that the kernel has. Their buffers and files stay in place until the kernel is done.
pub(super) struct Uring {
    ring: IoUring,
    jobs: Vec<Option<IoJob>>,
}

impl Uring {
    pub(super) fn new(event_fd: &Arc<EventFd>) -> io::Result<Uring> {
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
            .register_eventfd(event_fd.as_fd().as_raw_fd())?;
        Ok(Uring {
            ring,
            jobs: (0..FLYING_MAX).map(|_| None).collect(),
        })
    }
}

/// The entry that the kernel gets. It points into the job's buffer.
fn entry(token: usize, job: &mut IoJob) -> squeue::Entry {
    let fd = types::Fd(job.file.as_raw_fd());
    let part = &mut job.buffer[job.part.clone()];
    let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
    let entry = match job.operation {
        IoOperation::Read => opcode::Read::new(fd, part.as_mut_ptr(), len)
            .offset(job.at)
            .build(),
        IoOperation::Write(priority) => opcode::Write::new(fd, part.as_ptr(), len)
            .offset(job.at)
            .ioprio(ioprio(priority))
            .build(),
        IoOperation::Sync => opcode::Fsync::new(fd)
            .flags(types::FsyncFlags::DATASYNC)
            .build(),
        IoOperation::Punch(len) => hole(fd, job.at, len, FallocateFlags::PUNCH_HOLE),
        IoOperation::Zero(len) => hole(fd, job.at, len, FallocateFlags::ZERO_RANGE),
    };
    entry.user_data(token as u64)
}

/// The priority in the kernel's format (ioprio): the class in the upper three bits, the level in the lower ones.
fn ioprio(priority: IoPriority) -> u16 {
    const BEST_EFFORT: u16 = 2;
    const LAST_LEVEL: u16 = 7;
    match priority {
        IoPriority::Awaited => 0, // this thread's own
        // Not the idle class: under load it may never get its turn, and the stage would fill.
        IoPriority::Background => BEST_EFFORT << 13 | LAST_LEVEL,
    }
}

fn hole(fd: types::Fd, at: u64, len: u64, how: FallocateFlags) -> squeue::Entry {
    let mode = (how | FallocateFlags::KEEP_SIZE).bits();
    opcode::Fallocate::new(fd, len)
        .offset(at)
        .mode(mode as i32)
        .build()
}

impl IoExecutor for Uring {
    fn enqueue(&mut self, token: usize, job: IoJob) -> Result<(), IoJob> {
        let entry = entry(token, self.jobs[token].insert(job));
        // SAFETY: the entry points into a buffer and names a file. The buffer's bytes are on the heap and stay there.
        // `jobs` owns both until the kernel has said that it is done with them (`reap`, `drop`).
        match unsafe { self.ring.submission().push(&entry) } {
            Ok(()) => Ok(()),
            Err(_) => self.jobs[token].take().map_or(Ok(()), Err),
        }
    }

    fn submit(&mut self) -> io::Result<bool> {
        if self.ring.submission().is_empty() {
            return Ok(true);
        }
        match self.ring.submit() {
            Err(error) if !is_passing(&error) => Err(error),
            // The kernel gets again what it did not take.
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
    is_transient_shortage(error)
        || error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error())
}

/// Waits for what the kernel still has, because it writes into our buffers.
impl Drop for Uring {
    fn drop(&mut self) {
        while self.jobs.iter().any(Option::is_some) {
            if let Err(error) = self.ring.submit_and_wait(1)
                && !is_passing(&error)
            {
                // It is better to lose the memory than to have the kernel write into what belongs to others.
                self.jobs.drain(..).for_each(std::mem::forget);
                return;
            }
            self.reap(&mut |_, _, _| {});
        }
    }
}
