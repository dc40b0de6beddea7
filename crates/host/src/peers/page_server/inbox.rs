//! Messages to a thread of the page server.

use std::net::TcpStream;
use std::sync::Arc;

use mio::Waker;
use parking_lot::Mutex;
use sublet_lend::ids::SessionId;

/// The most connections that wait for a thread to take them. More are closed at once.
const WAITING_MAX: usize = 256;

/// A message to a thread of the page server.
pub(super) enum ThreadMessage {
    /// Serve this connection.
    Serve(TcpStream),
    /// End the connections of this session.
    EndSession(SessionId),
    /// End.
    Stop,
}

/// The messages that a thread has yet to take.
pub(super) struct ThreadInbox {
    messages: Mutex<Vec<ThreadMessage>>,
    waker: Waker,
}

impl ThreadInbox {
    /// An empty inbox that wakes a thread's poll.
    pub(super) fn new(waker: Waker) -> Arc<ThreadInbox> {
        Arc::new(ThreadInbox {
            messages: Mutex::default(),
            waker,
        })
    }

    /// Leaves a message, and wakes the thread. A connection for which there is no room comes back.
    pub(super) fn send(&self, message: ThreadMessage) -> Option<TcpStream> {
        let mut messages = self.messages.lock();
        let unsent = match message {
            ThreadMessage::Serve(socket) if messages.len() >= WAITING_MAX => Some(socket),
            message => {
                messages.push(message);
                None
            }
        };
        drop(messages);
        // It fails only if the thread's poll is gone, and then nobody needs to wake.
        let _ = self.waker.wake();
        unsent
    }

    /// Takes all messages.
    pub(super) fn take(&self) -> Vec<ThreadMessage> {
        std::mem::take(&mut self.messages.lock())
    }
}
