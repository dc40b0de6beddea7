//! Guests' memory that vanishes under this process costs that guest's queues, and nothing else.
//!
//! A page of a mapped file that cannot be had is a SIGBUS for whoever touches it: the file was cut, its file system is
//! full, or no huge page is left. The handler here looks whether the address lies in guarded memory. If it does, zeroes
//! take the place of the whole range, which is marked, and the access goes on; whoever read the zeroes looks at the mark
//! before anything is made of them. Any other SIGBUS is passed on as if this handler were not there.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

use libc::{c_int, c_void, siginfo_t};
use vm_memory::MmapRegion;

/// Guests, one for each disk.
const GUESTS_MAX: usize = 256;

/// Ranges that are guarded at a time: as many regions as each guest may have, and as many again while others take their place.
/// Those that were never used take no memory.
pub(super) const RANGES_MAX: usize = 2 * GUESTS_MAX * super::map::REGIONS_MAX;

/// A place of the table, which the handler reads while others change it.
struct Range {
    /// The first address; [`FREE`] or [`CLAIMED`] while there is no range.
    start: AtomicUsize,
    end: AtomicUsize,
    has_lost: AtomicBool,
}

const FREE: usize = 0;
const CLAIMED: usize = 1;

static RANGES: [Range; RANGES_MAX] = [const {
    Range {
        start: AtomicUsize::new(FREE),
        end: AtomicUsize::new(0),
        has_lost: AtomicBool::new(false),
    }
}; RANGES_MAX];

/// Places of the table that were ever used: the handler looks at no others.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Ranges of which a page vanished, of all that ever were: while it stands still, none has.
static LOST: AtomicU64 = AtomicU64::new(0);

/// What SIGBUS did before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Ranges of which a page vanished so far.
pub(super) fn lost() -> u64 {
    // What was read before this is read before the count: zeroes are never older than it.
    fence(Ordering::Acquire);
    // And the marks of ranges are read after it: who finds the count risen finds the mark.
    LOST.load(Ordering::Acquire)
}

/// A range that is guarded until this is dropped, which must be before the range is unmapped.
pub(super) struct Guard(&'static Range);

impl Guard {
    /// Guards a mapping.
    ///
    /// # Errors
    ///
    /// No further range can be guarded, or the kernel takes no handler.
    pub(super) fn over(region: &MmapRegion<()>) -> io::Result<Guard> {
        install()?;
        let is_free = |range: &Range| {
            let start = &range.start;
            if start.load(Ordering::Relaxed) != FREE {
                return false;
            }
            let claimed =
                start.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
            claimed.is_ok()
        };
        let Some(place) = RANGES.iter().position(is_free) else {
            return Err(io::Error::other("too many regions of guests are mapped"));
        };
        let range = &RANGES[place];
        USED.fetch_max(place + 1, Ordering::SeqCst);
        let start = region.as_ptr() as usize;
        // Whoever finds the new end looks at the start again, and finds it claimed at least.
        fence(Ordering::Release);
        range.end.store(start + region.size(), Ordering::Relaxed);
        range.has_lost.store(false, Ordering::Relaxed);
        range.start.store(start, Ordering::Release);
        Ok(Guard(range))
    }

    /// Whether a page of the range has vanished.
    pub(super) fn has_lost(&self) -> bool {
        self.0.has_lost.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(FREE, Ordering::Release);
    }
}

/// Puts the handler in place, once.
fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        BEFORE.get_or_init(action_now);
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_bus_fault;
        let mut action = no_action();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler calls nothing that a signal may not interrupt, and is there for as long as the process.
        match unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) } {
            0 => Ok(()),
            _ => Err(errno()),
        }
    });
    installed.map_err(io::Error::from_raw_os_error)
}

fn no_action() -> libc::sigaction {
    // SAFETY: zeroes are a valid action: the default one.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn action_now() -> libc::sigaction {
    let mut action = no_action();
    // SAFETY: it writes what SIGBUS does now, and changes nothing.
    unsafe { libc::sigaction(libc::SIGBUS, null(), &raw mut action) };
    action
}

fn errno() -> i32 {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() }
}

/// Interrupts any thread at an access; so it takes no lock, allocates nothing and leaves `errno` as it was.
extern "C" fn on_bus_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let before = errno();
    // SAFETY: the kernel fills it in for this call.
    let (code, at) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // A positive code is a fault; others are signals that somebody sent.
    let is_replaced = code > 0 && range_of(at).is_some_and(|(range, bytes)| range.vanish(bytes));
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = before };
    if !is_replaced {
        pass_on(signal, info, context);
    }
}

/// The range that an address lies in, and where it begins and ends.
fn range_of(at: usize) -> Option<(&'static Range, std::ops::Range<usize>)> {
    let used = USED.load(Ordering::SeqCst);
    RANGES.iter().take(used).find_map(|range| {
        let bytes = range.bytes()?;
        bytes.contains(&at).then_some((range, bytes))
    })
}

impl Range {
    /// Where it begins and ends, if there is one and it stays while it is read.
    fn bytes(&self) -> Option<std::ops::Range<usize>> {
        let start = self.start.load(Ordering::Acquire);
        let end = self.end.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_same = self.start.load(Ordering::Relaxed) == start;
        (start > CLAIMED && is_same).then_some(start..end)
    }

    /// Puts zeroes in its place, in one mapping. The marks stand before anybody can read the zeroes.
    fn vanish(&self, bytes: std::ops::Range<usize>) -> bool {
        self.has_lost.store(true, Ordering::SeqCst);
        LOST.fetch_add(1, Ordering::SeqCst);
        let start = bytes.start as *mut c_void;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let flags = private | libc::MAP_FIXED;
        // SAFETY: it is a mapping of guest memory that stays until its guard has gone; nothing refers to its bytes, which
        // are only ever copied by address.
        let mapped = unsafe { libc::mmap(start, bytes.len(), access, flags, -1, 0) };
        mapped != libc::MAP_FAILED
    }
}

/// Does what would have been done without this handler.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let before = BEFORE.get().copied().unwrap_or_else(no_action);
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            let default = no_action();
            // The access is made again when the handler returns, and ends the process; what somebody sent is sent anew.
            // SAFETY: both are calls that a handler may make.
            unsafe {
                libc::sigaction(signal, &raw const default, null_mut());
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: with SA_SIGINFO that is what the address of a handler is.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without it, this.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use rustix::fs::MemfdFlags;
    use vm_memory::FileOffset;

    use super::*;

    const PAGE: usize = 4096;

    /// Four pages, and their file.
    fn pages() -> (MmapRegion<()>, File) {
        let file = rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).expect("a memfd");
        let file = File::from(file);
        file.set_len(4 * PAGE as u64).expect("its length");
        let shared = FileOffset::new(file.try_clone().expect("a handle"), 0);
        let region = MmapRegion::from_file(shared, 4 * PAGE).expect("mapped");
        (region, file)
    }

    fn byte(region: &MmapRegion<()>, at: usize) -> u8 {
        // SAFETY: it lies in the region.
        unsafe { region.as_ptr().add(at).read_volatile() }
    }

    fn set_byte(region: &MmapRegion<()>, at: usize, byte: u8) {
        // SAFETY: it lies in the region.
        unsafe { region.as_ptr().add(at).write_volatile(byte) };
    }

    #[test]
    fn a_range_of_which_a_page_vanished_reads_as_zeroes_and_is_told() {
        let (region, file) = pages();
        let (other, _kept) = pages();
        let guard = Guard::over(&region).expect("a place");
        let bystander = Guard::over(&other).expect("a place");
        (0..4).for_each(|page| set_byte(&region, page * PAGE + 7, 9));
        assert!(!guard.has_lost());
        file.set_len(2 * PAGE as u64).expect("cut");
        let before = lost();
        assert_eq!(byte(&region, PAGE + 7), 9, "what is there is as it was");
        assert!(!guard.has_lost());
        assert_eq!(byte(&region, 2 * PAGE + 7), 0);
        assert_eq!(byte(&region, PAGE + 7), 0, "nor is the rest of it there");
        set_byte(&region, 3 * PAGE + 7, 5);
        assert!(guard.has_lost() && lost() > before);
        assert!(!bystander.has_lost());
    }

    #[test]
    fn places_are_given_back() {
        let (region, _file) = pages();
        for _ in 0..3 * RANGES_MAX {
            Guard::over(&region).expect("a place");
        }
    }

    #[test]
    fn seventy_guests_with_all_their_regions_find_places() {
        let (region, file) = pages();
        let guests = 70 * crate::vhost_user::map::REGIONS_MAX;
        let others = (1..guests).map(|_| Guard::over(&region).expect("a place"));
        let others: Vec<Guard> = others.collect();
        let (last, cut) = pages();
        let guard = Guard::over(&last).expect("a place");
        cut.set_len(PAGE as u64).expect("cut");
        assert_eq!(byte(&last, 2 * PAGE), 0);
        assert!(guard.has_lost());
        drop((others, file));
    }

    /// Run by the next test, in a process of its own.
    #[test]
    #[ignore = "it ends the process"]
    fn touches_what_nobody_guards() {
        let (guarded, _kept) = pages();
        let _guard = Guard::over(&guarded).expect("a place");
        let (region, file) = pages();
        file.set_len(0).expect("cut");
        byte(&region, 0);
    }

    #[test]
    fn other_faults_end_the_process_as_ever() {
        let own = std::env::current_exe().expect("this test");
        let ended = Command::new(own)
            .args(["touches_what_nobody_guards", "--ignored"])
            .output()
            .expect("run");
        assert_eq!(ended.status.signal(), Some(libc::SIGBUS), "{ended:?}");
    }
}
