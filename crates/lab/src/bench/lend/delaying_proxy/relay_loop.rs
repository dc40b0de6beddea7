//! The relay's thread. It waits for sockets and for the next bytes that are due.

use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::set_current_timer_slack;
use sublet_pace::{AdaptivePoller, PollMode, PollOutcome};
use sublet_sim::rng::SimRng;

use super::relay_orders::RelayOrders;
use super::relayed_connection::{READ_BYTES, RelayTools, RelayedConnection};

/// The most connections at a time. Others wait to be accepted.
const CONNECTIONS_MAX: usize = 64;

/// How long before bytes are due the relay stops sleeping, so that it is awake when they are.
const AWAKE_BEFORE: Duration = Duration::from_micros(40);

/// The longest sleep. Then it looks at its orders.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// A relay at work.
pub(super) struct RelayLoop {
    listener: TcpListener,
    target: SocketAddr,
    orders: Arc<RelayOrders>,
    connections: Vec<RelayedConnection>,
    luck: SimRng,
    room: Vec<u8>,
}

impl RelayLoop {
    /// A relay from a listener that does not block.
    pub(super) fn new(
        listener: TcpListener,
        target: SocketAddr,
        orders: Arc<RelayOrders>,
    ) -> RelayLoop {
        RelayLoop {
            listener,
            target,
            orders,
            connections: Vec::new(),
            luck: SimRng::seeded(7),
            room: vec![0; READ_BYTES],
        }
    }

    /// Relays until it is told to end.
    pub(super) fn run(mut self) {
        // Without this the kernel may wake it 50 µs late. If the kernel refuses, the bench shows the delay that is left.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let mut pace = AdaptivePoller::default();
        while !self.orders.is_ending.load(Ordering::Relaxed) {
            let looked = pace.wait(|mode| {
                if mode == PollMode::Blocking {
                    self.sleep();
                }
                Ok::<PollOutcome, std::convert::Infallible>(self.exchange())
            });
            let Ok(()) = looked;
        }
    }

    /// Sleeps until a socket is ready, or until shortly before bytes are due.
    fn sleep(&self) {
        let due = self.connections.iter().filter_map(|one| one.next_due());
        let until_due = due.min().map_or(SLEEP_MAX, |due| {
            due.saturating_duration_since(Instant::now())
        });
        let longest = until_due.saturating_sub(AWAKE_BEFORE).min(SLEEP_MAX);
        if longest.is_zero() {
            return;
        }
        let mut awaited: Vec<PollFd<'_>> = Vec::with_capacity(2 * CONNECTIONS_MAX + 1);
        if self.connections.len() < CONNECTIONS_MAX {
            awaited.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let sockets = self.connections.iter().flat_map(|one| one.awaited());
        awaited.extend(sockets.flatten());
        let longest = Timespec::try_from(longest).ok();
        // Whatever woke it, it looks at all sockets.
        let _ = poll(&mut awaited, longest.as_ref());
    }

    /// Takes what has come and sends what is due, on all connections.
    fn exchange(&mut self) -> PollOutcome {
        let mut outcome = PollOutcome::Nothing;
        while self.connections.len() < CONNECTIONS_MAX
            && let Ok((client, _)) = self.listener.accept()
        {
            // If the target is away, the client's connection ends.
            self.connections
                .extend(RelayedConnection::new(client, self.target));
            outcome = PollOutcome::Work;
        }
        let (orders, luck, room) = (&self.orders, &mut self.luck, &mut self.room);
        let (delay, began) = *orders.delay.lock();
        let mut due = |way| {
            let now = Instant::now();
            now + delay.hold(way, now.saturating_duration_since(began), luck)
        };
        let mut tally = orders.tally.lock();
        let mut tools = RelayTools {
            due: &mut due,
            room,
            tally: &mut tally,
        };
        self.connections
            .retain_mut(|connection| match connection.exchange(&mut tools) {
                Ok(moved) => {
                    if moved {
                        outcome = PollOutcome::Work;
                    }
                    true
                }
                Err(_) => false,
            });
        outcome
    }
}
