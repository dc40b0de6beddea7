//! Both ends together, with honest clients and with hostile ones.

#[cfg(feature = "async")]
mod asynchronous;
pub(crate) mod daemon;
mod ends;
mod waiting;
