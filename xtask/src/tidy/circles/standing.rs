//! The circles that stand. The list can only shrink: one that is smaller or gone must be put right here.

/// Where this list is.
pub(super) const PATH: &str = "xtask/src/tidy/circles/standing.rs";

/// The files of each circle, in order.
pub(super) const STANDING: &[&[&str]] = &[
    &[
        "crates/frontends/src/nbd/serve/connection.rs",
        "crates/frontends/src/nbd/serve/mod.rs",
        "crates/frontends/src/nbd/serve/post.rs",
        "crates/frontends/src/nbd/serve/worker.rs",
    ],
    &[
        "crates/frontends/src/ring/serve/connection.rs",
        "crates/frontends/src/ring/serve/door.rs",
        "crates/frontends/src/ring/serve/mod.rs",
        "crates/frontends/src/ring/serve/worker.rs",
    ],
    &[
        "crates/frontends/src/vhost_user/serve/mod.rs",
        "crates/frontends/src/vhost_user/serve/vmm.rs",
        "crates/frontends/src/vhost_user/serve/worker.rs",
    ],
];
