//! Threads that read and write where there is no io_uring, and where that lacks what it needs.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};
use sublet_frontends::block::Buffer;

use super::super::bell::Bell;
use super::job::{Carrier, Deed, Job};

/// Threads of a disk: as many as a disk has heads to spare.
pub(super) const THREADS: usize = 8;

/// Threads of a disk that has io_uring, which makes threads of its own as it needs them: the host may have none for it then.
pub(super) const RESERVE_THREADS: usize = 2;

type Done = (usize, io::Result<usize>, Buffer);

/// The threads, and how to speak with them. They end with it.
pub(super) struct Crew {
    jobs: Sender<(usize, Job)>,
    done: Receiver<Done>,
}

impl Crew {
    pub(super) fn start(bell: &Arc<Bell>, threads: usize) -> io::Result<Crew> {
        let (jobs, taken) = channel::<(usize, Job)>();
        let (finished, done) = channel();
        let taken = Arc::new(Mutex::new(taken));
        for n in 0..threads {
            let (taken, finished, bell) = (Arc::clone(&taken), finished.clone(), Arc::clone(bell));
            let body = move || work(&taken, &finished, &bell);
            thread::Builder::new()
                .name(format!("disk-io-{n}"))
                .spawn(body)?;
        }
        Ok(Crew { jobs, done })
    }
}

fn work(taken: &Mutex<Receiver<(usize, Job)>>, finished: &Sender<Done>, bell: &Bell) {
    loop {
        let next = taken.lock().recv();
        let Ok((token, mut job)) = next else {
            return;
        };
        let result = carry_out(&mut job);
        if finished.send((token, result, job.buffer)).is_err() {
            return;
        }
        bell.ring();
    }
}

fn carry_out(job: &mut Job) -> io::Result<usize> {
    let part = job.part.clone();
    match job.deed {
        Deed::Read => job.file.read_at(&mut job.buffer[part], job.at),
        Deed::Write(_) => job.file.write_at(&job.buffer[part], job.at),
        Deed::Sync => job.file.sync_data().map(|()| 0),
        Deed::Punch(len) => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            Ok(fallocate(&job.file, flags, job.at, len).map(|()| 0)?)
        }
        Deed::Zero(len) => {
            let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
            Ok(fallocate(&job.file, flags, job.at, len).map(|()| 0)?)
        }
    }
}

impl Carrier for Crew {
    fn carry(&mut self, token: usize, job: Job) -> Result<(), Job> {
        self.jobs.send((token, job)).map_err(|refused| refused.0.1)
    }

    fn send(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn reap(&mut self, done: &mut dyn FnMut(usize, io::Result<usize>, Buffer)) {
        for (token, result, buffer) in self.done.try_iter() {
            done(token, result, buffer);
        }
    }
}
