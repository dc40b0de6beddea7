//! Threads that read and write if there is no io_uring, or if io_uring lacks what it needs.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};
use sublet_frontends::block_device::Buffer;

use super::super::event_fd::EventFd;
use super::io_job::{IoExecutor, IoJob, IoOperation};

/// Threads of a disk: as many as a disk has heads to spare.
pub(super) const THREADS: usize = 8;

/// Threads of a disk that has io_uring. The kernel makes threads for io_uring as it needs them, and the host may have
/// none then.
pub(super) const RESERVE_THREADS: usize = 2;

type IoCompletion = (usize, io::Result<usize>, Buffer);

/// The threads, and the channels to them. The threads end with it.
pub(super) struct IoThreadPool {
    jobs: Sender<(usize, IoJob)>,
    done: Receiver<IoCompletion>,
}

impl IoThreadPool {
    pub(super) fn start(event_fd: &Arc<EventFd>, threads: usize) -> io::Result<IoThreadPool> {
        let (jobs, taken) = channel::<(usize, IoJob)>();
        let (finished, done) = channel();
        let taken = Arc::new(Mutex::new(taken));
        for n in 0..threads {
            let (taken, finished, event_fd) =
                (Arc::clone(&taken), finished.clone(), Arc::clone(event_fd));
            let body = move || work(&taken, &finished, &event_fd);
            thread::Builder::new()
                .name(format!("disk-io-{n}"))
                .spawn(body)?;
        }
        Ok(IoThreadPool { jobs, done })
    }
}

fn work(
    taken: &Mutex<Receiver<(usize, IoJob)>>,
    finished: &Sender<IoCompletion>,
    event_fd: &EventFd,
) {
    loop {
        let next = taken.lock().recv();
        let Ok((token, mut job)) = next else {
            return;
        };
        let result = carry_out(&mut job);
        if finished.send((token, result, job.buffer)).is_err() {
            return;
        }
        event_fd.notify();
    }
}

fn carry_out(job: &mut IoJob) -> io::Result<usize> {
    let part = job.part.clone();
    match job.operation {
        IoOperation::Read => job.file.read_at(&mut job.buffer[part], job.at),
        IoOperation::Write(_) => job.file.write_at(&job.buffer[part], job.at),
        IoOperation::Sync => job.file.sync_data().map(|()| 0),
        IoOperation::Punch(len) => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            Ok(fallocate(&job.file, flags, job.at, len).map(|()| 0)?)
        }
        IoOperation::Zero(len) => {
            let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
            Ok(fallocate(&job.file, flags, job.at, len).map(|()| 0)?)
        }
    }
}

impl IoExecutor for IoThreadPool {
    fn enqueue(&mut self, token: usize, job: IoJob) -> Result<(), IoJob> {
        self.jobs.send((token, job)).map_err(|refused| refused.0.1)
    }

    fn submit(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn reap(&mut self, done: &mut dyn FnMut(usize, io::Result<usize>, Buffer)) {
        for (token, result, buffer) in self.done.try_iter() {
            done(token, result, buffer);
        }
    }
}
