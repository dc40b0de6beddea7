//! Tests of the header, the texts, and the C functions against an honest daemon.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::*;
use crate::ring::tests::daemon::{Behavior, Daemon};
use crate::ring::{BatchError, ConnectError, Refusal, Rejection};
use codes::{code_of_batch, words_of};

fn header() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("it is there");
    let built = cbindgen::Builder::new()
        .with_src(folder.join("src/ffi/mod.rs"))
        .with_config(config)
        .generate();
    let mut header = Vec::new();
    built.expect("it is C").write(&mut header);
    String::from_utf8(header).expect("it is text")
}

/// Run `SUBLET_WRITE_HEADER=1 cargo test -p sublet-client --features ffi header` to write the header anew.
#[test]
fn the_header_that_is_committed_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/sublet_ring.h");
    if std::env::var_os("SUBLET_WRITE_HEADER").is_some() {
        std::fs::write(&path, header()).expect("written");
    }
    let committed = std::fs::read_to_string(&path).expect("it is there");
    assert_eq!(committed, header(), "write it anew, see above");
}

/// Python declares by hand what C reads in the header.
#[test]
fn python_has_every_function_of_the_header() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = folder.join("../../clients/python/sublet/library.py");
    let library = std::fs::read_to_string(library).expect("it is there");
    let header = header();
    let words = header.split(|c: char| c != '_' && !c.is_alphanumeric());
    let types = ["sublet_ring", "sublet_key", "sublet_run"];
    let functions = words.filter(|word| word.starts_with("sublet_") && !types.contains(word));
    // A comment may mention a function, so some are looked for twice.
    for function in functions {
        let declared = format!("    \"{function}\": (");
        assert!(library.contains(&declared), "library.py lacks {function}");
    }
}

#[test]
fn every_number_has_its_words() {
    assert_eq!(SUBLET_PAGE_BYTES, layout::SLOT_BYTES);
    assert_eq!(SUBLET_RUN_PAGES_MAX, RUN_PAGES_MAX);
    for refusal in Refusal::ALL {
        assert_eq!(words_of(code_of((*refusal).into())), refusal.to_string());
    }
    for fault in Fault::ALL {
        assert_eq!(words_of(code_of((*fault).into())), fault.to_string());
    }
    let not_allowed = ConnectError::Rejected(Rejection::NotAllowed);
    assert!(words_of(code_of_connect(&not_allowed)).contains("allow_uids"));
    assert_eq!(words_of(c_int::MIN), "a number of another version");
    for error in [BatchError::Entries, BatchError::PageSlots] {
        assert_eq!(words_of(code_of_batch(error)), error.to_string());
    }
    let mut text = [1; 8];
    // SAFETY: the buffer has room for eight bytes.
    let all = unsafe { sublet_text(SUBLET_MISS, text.as_mut_ptr(), text.len()) };
    assert_eq!((all, text[6], text[7]), (22, b'g' as c_char, 0));
}

#[test]
fn null_is_refused() {
    let key = SubletKey {
        pool: 0,
        object: 0,
        index: 0,
    };
    let (ring, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: null is allowed everywhere.
    unsafe {
        let connected = sublet_connect(std::ptr::null(), 0, 0, std::ptr::null_mut());
        assert_eq!(connected, SUBLET_WRONG);
        assert_eq!(sublet_put(ring, key, nothing), SUBLET_WRONG);
        assert_eq!(sublet_get(ring, key, nothing), SUBLET_WRONG);
        assert_eq!(sublet_batch_get(ring, key), SUBLET_WRONG);
        assert_eq!(sublet_batch_get_run(ring, key, 2), SUBLET_WRONG);
        assert_eq!(sublet_batch_flush_run(ring, key, 2), SUBLET_WRONG);
        assert_eq!(sublet_batch_flush_object(ring, 0, 0), SUBLET_WRONG);
        assert_eq!(sublet_batch_len(ring), SUBLET_WRONG);
        assert_eq!(sublet_batch_run(ring), SUBLET_WRONG);
        assert!(sublet_batch_page(ring, 0).is_null());
        sublet_close(ring);
    }
}

/// A connection from C to an honest daemon.
fn connected(daemon: &Daemon) -> *mut SubletRing {
    let mut path = daemon.path().as_os_str().as_bytes().to_vec();
    path.push(0);
    let mut ring = std::ptr::null_mut();
    // SAFETY: the path ends in a zero byte, and `ring` is a place to write to.
    let code = unsafe { sublet_connect(path.as_ptr().cast(), 4, 8, &mut ring) };
    assert_eq!(code, SUBLET_OK);
    ring
}

fn key(index: u32) -> SubletKey {
    SubletKey {
        pool: 3 | 7 << 32,
        object: 9,
        index,
    }
}

const NOTHING: SubletRun = SubletRun {
    done: 0,
    replaced: 0,
};

#[test]
fn runs_say_what_was_done_and_what_was_replaced() {
    let daemon = Daemon::start(DEFAULT_SHAPE, Behavior::Willing);
    let ring = connected(&daemon);
    let (mut pages, mut run) = ([[1; SUBLET_PAGE_BYTES]; 3], NOTHING);
    let place = pages.as_mut_ptr().cast::<c_void>();
    let wrong = code_of(Fault::Run.into());
    // SAFETY: the ring is open, and there are three pages.
    unsafe {
        assert_eq!(sublet_put_run(ring, key(1), 2, place, &mut run), SUBLET_OK);
        assert_eq!((run.done, run.replaced), (0b11, 0));
        assert_eq!(sublet_put_run(ring, key(0), 3, place, &mut run), SUBLET_OK);
        assert_eq!((run.done, run.replaced), (0b111, 0b110));
        assert_eq!(sublet_flush_page(ring, key(1)), SUBLET_OK);
        assert_eq!(sublet_get_run(ring, key(0), 3, place, &mut run), SUBLET_OK);
        assert_eq!((run.done, run.replaced), (0b101, 0));
        for count in [0, SUBLET_RUN_PAGES_MAX + 1] {
            assert_eq!(sublet_put_run(ring, key(0), count, place, &mut run), wrong);
            assert_eq!(sublet_get_run(ring, key(0), count, place, &mut run), wrong);
        }
        let (mut entries, mut page_slots) = (0, 0);
        assert_eq!(sublet_shape(ring, &mut entries, &mut page_slots), SUBLET_OK);
        assert_eq!((entries, page_slots), (4, 8));
        sublet_close(ring);
    }
}

#[test]
fn a_batch_has_runs_and_flushes_of_objects() {
    let daemon = Daemon::start(DEFAULT_SHAPE, Behavior::Willing);
    let ring = connected(&daemon);
    let (mut place, mut run) = (std::ptr::null_mut(), NOTHING);
    // SAFETY: the ring is open, and the batch says where its pages are.
    unsafe {
        assert_eq!(sublet_batch_begin(ring), SUBLET_OK);
        assert_eq!(sublet_batch_put_run(ring, key(0), 4, &mut place), 0);
        for (n, page) in slice::from_raw_parts_mut(place.cast::<Page>(), 4)
            .iter_mut()
            .enumerate()
        {
            page.fill(n as u8 + 1);
        }
        assert_eq!(sublet_batch_flush_run(ring, key(1), 2), 1);
        assert_eq!(sublet_batch_get_run(ring, key(0), 4), 2);
        assert_eq!(
            sublet_batch_flush_object(ring, key(0).pool, key(0).object),
            3
        );
        assert_eq!(sublet_batch_len(ring), 4);
        assert_eq!(sublet_batch_run(ring), SUBLET_OK);
        assert_eq!(sublet_batch_outcome_of_run(ring, 0, &mut run), SUBLET_OK);
        assert_eq!((run.done, run.replaced), (0b1111, 0));
        assert_eq!(sublet_batch_outcome(ring, 1), SUBLET_OK);
        assert_eq!(sublet_batch_outcome_of_run(ring, 2, &mut run), SUBLET_OK);
        assert_eq!(run.done, 0b1001);
        assert!(sublet_batch_page_of_run(ring, 2, 1).is_null());
        assert_eq!(
            *sublet_batch_page_of_run(ring, 2, 3).cast::<Page>(),
            [4; SUBLET_PAGE_BYTES]
        );
        assert_eq!(
            *sublet_batch_page(ring, 2).cast::<Page>(),
            [1; SUBLET_PAGE_BYTES]
        );
        assert_eq!(sublet_batch_outcome(ring, 3), SUBLET_OK);
        let nowhere = code_of(Fault::Run.into());
        assert_eq!(sublet_batch_outcome_of_run(ring, 4, &mut run), nowhere);
        sublet_close(ring);
    }
}

#[test]
fn a_full_batch_says_what_there_is_too_much_of() {
    let daemon = Daemon::start(DEFAULT_SHAPE, Behavior::Willing);
    let ring = connected(&daemon);
    // SAFETY: the ring is open.
    unsafe {
        assert_eq!(sublet_batch_len(ring), SUBLET_WRONG, "none was begun");
        assert_eq!(sublet_batch_begin(ring), SUBLET_OK);
        assert_eq!(sublet_batch_len(ring), 0);
        let no_run = code_of(Fault::Run.into());
        assert_eq!(sublet_batch_get_run(ring, key(0), 0), no_run);
        assert_eq!(sublet_batch_flush_run(ring, key(0), 65), no_run);
        assert_eq!(sublet_batch_get_run(ring, key(0), 8), 0);
        assert_eq!(sublet_batch_get(ring, key(0)), SUBLET_BATCH_PAGES_FULL);
        for place in 1..4 {
            assert_eq!(sublet_batch_flush_page(ring, key(0)), place);
        }
        assert_eq!(sublet_batch_flush_page(ring, key(0)), SUBLET_BATCH_FULL);
        assert_eq!(sublet_batch_len(ring), 4, "what had no room was not added");
        sublet_close(ring);
    }
}
