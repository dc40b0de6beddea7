//! Pure decisions: how large the arena may be.
