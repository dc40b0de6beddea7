//! A TCP relay that delays what it carries, and leaves the bandwidth as it is: bytes are stamped when they come and
//! leave when their time is up, however many wait at the same time.

mod added_delay;
mod held_bytes;
mod proxy;
mod relay_loop;
mod relay_orders;
mod relayed_connection;

pub(super) use added_delay::AddedDelay;
pub(super) use proxy::DelayingProxy;
