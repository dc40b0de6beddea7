//! Checks that `unsafe` stands only in listed files and folders.

use super::complaint::Complaint;
use super::source::Source;

/// Files and folders where `unsafe` may stand.
pub(super) const ADDRESSES: [&str; 10] = [
    "crates/store/src/arena",
    "crates/store/src/items/table",
    "crates/store/tests/exhausted.rs",
    "crates/client/src/ring/mapped.rs",
    "crates/client/src/ffi",
    "crates/frontends/src/ring/page_copy.rs",
    "crates/frontends/src/vhost_user/guard.rs",
    "crates/frontends/src/vhost_user/munlock.rs",
    "crates/host/src/disk/engine/uring.rs",
    "crates/host/src/heap.rs",
];

/// Lint levels that let `unsafe` in.
const LEAVES: [&str; 3] = ["allow", "warn", "expect"];

/// Finds `unsafe`, and permission for it, elsewhere.
pub(crate) fn check(source: &Source) -> Vec<Complaint> {
    if ADDRESSES
        .iter()
        .any(|address| source.path.starts_with(address))
    {
        return Vec::new();
    }
    let unsafes = source.tokens.iter().filter(|token| token.text == "unsafe");
    let unsafes = unsafes.map(|token| token.line);
    let leaves = LEAVES
        .iter()
        .flat_map(|leave| source.places_of_call(leave, "unsafe_code"));
    let complain = |line| {
        let instead = "use a safe wrapper, or move it to one of the few addresses of unsafe";
        Complaint::new(
            &source.path,
            line,
            "`unsafe` outside its addresses",
            instead,
        )
    };
    unsafes.chain(leaves).map(complain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn complaints(path: &str, text: &str) -> usize {
        check(&Source::parse(Path::new(path), text.into()).expect("it is Rust")).len()
    }

    #[test]
    fn unsafe_is_fine_at_its_addresses_only() {
        let text = "fn a() { unsafe { b() } }";
        assert_eq!(complaints("crates/store/src/arena/range.rs", text), 0);
        assert_eq!(complaints("crates/store/src/items/table/mod.rs", text), 0);
        assert_eq!(complaints("crates/store/src/items/segment.rs", text), 1);
        assert_eq!(complaints("crates/host/src/arena/range.rs", text), 1);
        assert_eq!(complaints("crates/client/src/ring/mapped.rs", text), 0);
        assert_eq!(complaints("crates/client/src/ffi/mod.rs", text), 0);
        assert_eq!(complaints("crates/client/src/ring/client.rs", text), 1);
    }

    #[test]
    fn leave_to_write_it_is_as_bad() {
        assert_eq!(
            complaints("crates/host/src/a.rs", "#![allow(unsafe_code)]"),
            1
        );
    }
}
