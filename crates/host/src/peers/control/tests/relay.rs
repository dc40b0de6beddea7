//! A relay between two nodes, whose connections a test cuts.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

/// Connections of the relay, both sockets of each.
#[derive(Default)]
struct RelayState {
    is_cut: bool,
    sockets: Vec<TcpStream>,
}

/// Passes bytes on between whoever connects and one address.
pub(super) struct Relay {
    port: u16,
    state: Arc<Mutex<RelayState>>,
}

impl Relay {
    /// A relay to a port of this machine. Its thread stays until the process ends.
    pub(super) fn to(target: u16) -> Relay {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(Mutex::new(RelayState::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let mut state = shared.lock();
                let Ok(called) = TcpStream::connect(("127.0.0.1", target)) else {
                    continue;
                };
                if state.is_cut {
                    continue;
                }
                pass_on(&caller, &called);
                pass_on(&called, &caller);
                state.sockets.extend([caller, called]);
            }
        });
        Relay { port, state }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Ends all connections, and passes nothing on until [`Relay::heal`].
    pub(super) fn cut(&self) {
        let mut state = self.state.lock();
        state.is_cut = true;
        for socket in state.sockets.drain(..) {
            // An error means that the socket is closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn heal(&self) {
        self.state.lock().is_cut = false;
    }
}

fn pass_on(from: &TcpStream, to: &TcpStream) {
    let mut from = from.try_clone().expect("a socket");
    let mut to = to.try_clone().expect("a socket");
    thread::spawn(move || {
        // Whichever end closes, the other sees it.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}
