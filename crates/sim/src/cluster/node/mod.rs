//! A simulated node: the real store, the real lending node and the real guard, and a simulated host around them.

mod actions;
mod clock;
mod cluster_node;
mod courier;
mod etcd_member;
mod fetcher;
mod guest;
mod leader_watch;
mod leading;
mod memory;
mod node_leading;
mod page_server;
mod routes;
mod state;
mod store_work;
#[cfg(test)]
mod tests;

pub(super) use cluster_node::{ClusterNode, ConnectionOpener, NodeShape};
pub(super) use guest::{ClusterGuest, GuestDisk, GuestHabits};
pub(super) use memory::MemoryShape;
