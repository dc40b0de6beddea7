//! The daemon: run, config, headroom, admin, observe.
