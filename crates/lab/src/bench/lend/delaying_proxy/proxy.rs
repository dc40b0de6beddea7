//! A running relay.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use parking_lot::Mutex;

use super::added_delay::AddedDelay;
use super::relay_loop::RelayLoop;
use super::relay_orders::{HoldTally, RelayOrders};

/// A relay. It ends with this value.
pub(in crate::bench::lend) struct DelayingProxy {
    /// Where it takes connections.
    pub(in crate::bench::lend) address: SocketAddr,
    orders: Arc<RelayOrders>,
    thread: Option<JoinHandle<()>>,
}

impl DelayingProxy {
    /// Relays connections from `listen` to `target`, at first without a delay. It is in the network namespace of the
    /// calling thread.
    pub(in crate::bench::lend) fn start(
        listen: SocketAddr,
        target: SocketAddr,
    ) -> io::Result<DelayingProxy> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let orders = Arc::new(RelayOrders {
            delay: Mutex::new((AddedDelay::NONE, Instant::now())),
            tally: Mutex::default(),
            is_ending: AtomicBool::new(false),
        });
        let relay = RelayLoop::new(listener, target, Arc::clone(&orders));
        let thread = thread::Builder::new().name("bench-relay".to_owned());
        Ok(DelayingProxy {
            address,
            orders,
            thread: Some(thread.spawn(move || relay.run())?),
        })
    }

    /// Delays what comes from now on as said. Spells are counted from now.
    pub(in crate::bench::lend) fn set_delay(&self, delay: AddedDelay) {
        *self.orders.delay.lock() = (delay, Instant::now());
    }

    /// What it has carried so far.
    pub(in crate::bench::lend) fn tally(&self) -> HoldTally {
        *self.orders.tally.lock()
    }
}

impl Drop for DelayingProxy {
    fn drop(&mut self) {
        self.orders.is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It cannot panic on what it carries. If it did, the clients saw that.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, Shutdown, TcpStream};
    use std::time::Duration;

    use sublet_sim::rng::SimRng;

    use super::*;

    /// A server that sends back all that it gets, for one client.
    fn echo() -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        thread::spawn(move || {
            let (socket, _) = listener.accept()?;
            io::copy(&mut &socket, &mut &socket)?;
            socket.shutdown(Shutdown::Write)
        });
        Ok(address)
    }

    fn relayed() -> io::Result<(DelayingProxy, TcpStream)> {
        let proxy = DelayingProxy::start((Ipv4Addr::LOCALHOST, 0).into(), echo()?)?;
        let client = TcpStream::connect(proxy.address)?;
        client.set_nodelay(true)?;
        Ok((proxy, client))
    }

    #[test]
    fn all_bytes_come_in_their_order_and_then_the_end() -> io::Result<()> {
        let (proxy, mut client) = relayed()?;
        proxy.set_delay(AddedDelay::OneIn(3, Duration::from_millis(2)));
        let mut luck = SimRng::seeded(5);
        let sent: Vec<u8> = (0..8 << 20).map(|_| luck.bits() as u8).collect();
        let mut came = Vec::new();
        thread::scope(|scope| {
            let mut writer = client.try_clone()?;
            let sent = &sent;
            scope.spawn(move || {
                writer.write_all(sent)?;
                writer.shutdown(Shutdown::Write)
            });
            client.read_to_end(&mut came)
        })?;
        assert!(came == sent, "{} bytes of {}", came.len(), sent.len());
        Ok(())
    }

    #[test]
    fn no_round_trip_is_shorter_than_asked() -> io::Result<()> {
        let (proxy, mut client) = relayed()?;
        for micros in [0, 300, 1000, 3000] {
            let delay = Duration::from_micros(micros);
            proxy.set_delay(AddedDelay::Always(delay));
            for n in 0..20u8 {
                let began = Instant::now();
                client.write_all(&[n; 100])?;
                let mut came = [0; 100];
                client.read_exact(&mut came)?;
                assert!(began.elapsed() >= delay, "{:?}", began.elapsed());
                assert_eq!(came, [n; 100]);
            }
        }
        assert!(proxy.tally().chunks >= 160);
        Ok(())
    }

    /// A delay of 20 ms each way lets pass far more than 64 KiB in 20 ms.
    #[test]
    fn a_delay_leaves_the_bandwidth() -> io::Result<()> {
        const BYTES: usize = 16 << 20;
        let (proxy, mut client) = relayed()?;
        proxy.set_delay(AddedDelay::Always(Duration::from_millis(40)));
        let mut held = Vec::new();
        let began = Instant::now();
        thread::scope(|scope| {
            let mut writer = client.try_clone()?;
            scope.spawn(move || {
                writer.write_all(&vec![1; BYTES])?;
                writer.shutdown(Shutdown::Write)
            });
            client.read_to_end(&mut held)
        })?;
        assert_eq!(held.len(), BYTES);
        let chunks = (BYTES >> 16) as u32;
        let one_by_one = chunks * Duration::from_millis(20);
        assert!(began.elapsed() < one_by_one / 2, "{:?}", began.elapsed());
        Ok(())
    }
}
