//! Guest memory that vanishes under this process costs only that guest's queues.
//!
//! A page of a mapped file may be missing: the file was cut, its file system is full, or no huge page is left. Whoever
//! touches such a page gets a SIGBUS. The handler in this module checks whether the address lies in guarded memory. If
//! it does, the handler replaces the whole range with zeroes and marks the range, and the access goes on. Whoever read
//! the zeroes checks the mark before using them. The handler passes on any other SIGBUS as if it were not there.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

use libc::{c_int, c_void, siginfo_t};
use vm_memory::MmapRegion;

/// The most guests, one for each disk.
const GUESTS_MAX: usize = 256;

/// The most ranges that are guarded at a time. That is as many as each guest may have regions, twice, because new
/// regions take the place of old ones. Entries that were never used take no memory.
pub(super) const RANGES_MAX: usize = 2 * GUESTS_MAX * super::map::REGIONS_MAX;

/// An entry of the table. The handler reads it while other threads change it.
struct GuardedRange {
    /// The first address, or [`FREE`] or [`CLAIMED`] while the entry has no range.
    start: AtomicUsize,
    end: AtomicUsize,
    has_vanished: AtomicBool,
}

const FREE: usize = 0;
const CLAIMED: usize = 1;

static RANGES: [GuardedRange; RANGES_MAX] = [const {
    GuardedRange {
        start: AtomicUsize::new(FREE),
        end: AtomicUsize::new(0),
        has_vanished: AtomicBool::new(false),
    }
}; RANGES_MAX];

/// How many entries of the table were ever used. The handler looks at no others.
static RANGES_USED: AtomicUsize = AtomicUsize::new(0);

/// How often a range lost a page since the start. While the count stands still, no range has lost one.
static VANISHED_RANGES: AtomicU64 = AtomicU64::new(0);

/// The action for SIGBUS before this module installed its own.
static PREVIOUS_ACTION: OnceLock<libc::sigaction> = OnceLock::new();

/// How often a range lost a page so far.
pub(super) fn vanished_ranges() -> u64 {
    // Reads before this call happen before the read of the count, so zeroes are never older than the count.
    fence(Ordering::Acquire);
    // Reads of the ranges' marks come after it, so a thread that finds a higher count also finds the mark.
    VANISHED_RANGES.load(Ordering::Acquire)
}

/// Guards a range until it is dropped. Drop it before the range is unmapped.
pub(super) struct SigbusGuard(&'static GuardedRange);

impl SigbusGuard {
    /// Guards a mapping.
    ///
    /// # Errors
    ///
    /// The table is full, or the kernel takes no handler.
    pub(super) fn over(region: &MmapRegion<()>) -> io::Result<SigbusGuard> {
        install_sigbus_action()?;
        let is_free = |range: &GuardedRange| {
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
        RANGES_USED.fetch_max(place + 1, Ordering::SeqCst);
        let start = region.as_ptr() as usize;
        // A handler that reads the new end reads the start again, and finds it claimed at least.
        fence(Ordering::Release);
        range.end.store(start + region.size(), Ordering::Relaxed);
        range.has_vanished.store(false, Ordering::Relaxed);
        range.start.store(start, Ordering::Release);
        Ok(SigbusGuard(range))
    }

    /// Returns whether a page of the range has vanished.
    pub(super) fn has_vanished(&self) -> bool {
        self.0.has_vanished.load(Ordering::Acquire)
    }
}

impl Drop for SigbusGuard {
    fn drop(&mut self) {
        self.0.start.store(FREE, Ordering::Release);
    }
}

/// Installs the handler, once.
fn install_sigbus_action() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        PREVIOUS_ACTION.get_or_init(action_now);
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_bus_fault;
        let mut action = no_action();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler calls only what a signal may interrupt, and it exists as long as the process.
        match unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) } {
            0 => Ok(()),
            _ => Err(errno()),
        }
    });
    installed.map_err(io::Error::from_raw_os_error)
}

fn no_action() -> libc::sigaction {
    // SAFETY: all zeroes are a valid action: the default one.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn action_now() -> libc::sigaction {
    let mut action = no_action();
    // SAFETY: the call only writes the present action of SIGBUS.
    unsafe { libc::sigaction(libc::SIGBUS, null(), &raw mut action) };
    action
}

fn errno() -> i32 {
    // SAFETY: the location is this thread's own.
    unsafe { *libc::__errno_location() }
}

/// The handler may interrupt any thread at any access. So it takes no lock, allocates nothing and leaves `errno` as it
/// was.
extern "C" fn on_bus_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let before = errno();
    // SAFETY: the kernel fills `info` in for this call.
    let (code, at) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // A positive code is a fault. Another code is a signal that somebody sent.
    let is_replaced =
        code > 0 && range_of(at).is_some_and(|(range, bytes)| range.replace_with_zeroes(bytes));
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = before };
    if !is_replaced {
        call_previous_action(signal, info, context);
    }
}

/// The range that an address lies in, and its first and last address.
fn range_of(at: usize) -> Option<(&'static GuardedRange, std::ops::Range<usize>)> {
    let used = RANGES_USED.load(Ordering::SeqCst);
    RANGES.iter().take(used).find_map(|range| {
        let bytes = range.bytes()?;
        bytes.contains(&at).then_some((range, bytes))
    })
}

impl GuardedRange {
    /// The range's addresses, if there is a range and it stays while it is read.
    fn bytes(&self) -> Option<std::ops::Range<usize>> {
        let start = self.start.load(Ordering::Acquire);
        let end = self.end.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_same = self.start.load(Ordering::Relaxed) == start;
        (start > CLAIMED && is_same).then_some(start..end)
    }

    /// Replaces the range with zeroes, in one mapping. The marks are set before anybody can read the zeroes.
    fn replace_with_zeroes(&self, bytes: std::ops::Range<usize>) -> bool {
        self.has_vanished.store(true, Ordering::SeqCst);
        VANISHED_RANGES.fetch_add(1, Ordering::SeqCst);
        let start = bytes.start as *mut c_void;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let flags = private | libc::MAP_FIXED;
        // SAFETY: the range is a mapping of guest memory that stays until its guard is gone. Nothing refers to its
        // bytes, which are only ever copied by address.
        let mapped = unsafe { libc::mmap(start, bytes.len(), access, flags, -1, 0) };
        mapped != libc::MAP_FAILED
    }
}

/// Does what would happen without this handler.
fn call_previous_action(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let before = PREVIOUS_ACTION.get().copied().unwrap_or_else(no_action);
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            let default = no_action();
            // For a fault, the access is repeated when the handler returns, and ends the process. A signal that
            // somebody sent is raised again.
            // SAFETY: a handler may make both calls.
            unsafe {
                libc::sigaction(signal, &raw const default, null_mut());
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: with SA_SIGINFO the address is that of a handler of this type.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without SA_SIGINFO the address is that of a handler of this type.
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

    /// A mapping of four pages, and its file.
    fn pages() -> (MmapRegion<()>, File) {
        let file = rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).expect("a memfd");
        let file = File::from(file);
        file.set_len(4 * PAGE as u64).expect("its length");
        let shared = FileOffset::new(file.try_clone().expect("a handle"), 0);
        let region = MmapRegion::from_file(shared, 4 * PAGE).expect("mapped");
        (region, file)
    }

    fn byte(region: &MmapRegion<()>, at: usize) -> u8 {
        // SAFETY: the byte lies in the region.
        unsafe { region.as_ptr().add(at).read_volatile() }
    }

    fn set_byte(region: &MmapRegion<()>, at: usize, byte: u8) {
        // SAFETY: the byte lies in the region.
        unsafe { region.as_ptr().add(at).write_volatile(byte) };
    }

    #[test]
    fn a_range_of_which_a_page_vanished_reads_as_zeroes_and_is_told() {
        let (region, file) = pages();
        let (other, _kept) = pages();
        let guard = SigbusGuard::over(&region).expect("a place");
        let bystander = SigbusGuard::over(&other).expect("a place");
        (0..4).for_each(|page| set_byte(&region, page * PAGE + 7, 9));
        assert!(!guard.has_vanished());
        file.set_len(2 * PAGE as u64).expect("cut");
        let before = vanished_ranges();
        assert_eq!(byte(&region, PAGE + 7), 9, "what is there is as it was");
        assert!(!guard.has_vanished());
        assert_eq!(byte(&region, 2 * PAGE + 7), 0);
        assert_eq!(byte(&region, PAGE + 7), 0, "nor is the rest of it there");
        set_byte(&region, 3 * PAGE + 7, 5);
        assert!(guard.has_vanished() && vanished_ranges() > before);
        assert!(!bystander.has_vanished());
    }

    #[test]
    fn places_are_given_back() {
        let (region, _file) = pages();
        for _ in 0..3 * RANGES_MAX {
            SigbusGuard::over(&region).expect("a place");
        }
    }

    #[test]
    fn seventy_guests_with_all_their_regions_find_places() {
        let (region, file) = pages();
        let guests = 70 * crate::vhost_user::map::REGIONS_MAX;
        let others = (1..guests).map(|_| SigbusGuard::over(&region).expect("a place"));
        let others: Vec<SigbusGuard> = others.collect();
        let (last, cut) = pages();
        let guard = SigbusGuard::over(&last).expect("a place");
        cut.set_len(PAGE as u64).expect("cut");
        assert_eq!(byte(&last, 2 * PAGE), 0);
        assert!(guard.has_vanished());
        drop((others, file));
    }

    /// The next test runs this in a process of its own.
    #[test]
    #[ignore = "it ends the process"]
    fn touches_what_nobody_guards() {
        let (guarded, _kept) = pages();
        let _guard = SigbusGuard::over(&guarded).expect("a place");
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
