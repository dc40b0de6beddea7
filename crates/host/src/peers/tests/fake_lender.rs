//! A lender that keeps every version of each page, and lies as it is told.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use sublet_lend::wire::{
    ANSWER_BYTES, Answer, HELLO_BYTES, HelloMessage, LenderChannel, LentPage, PAGE_BYTES, PageSet,
    RequestEvent,
};

use super::*;

/// How a lender answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// As it should.
    Honest,
    /// One bit of each page is flipped.
    Altered,
    /// Each page is the version before the last.
    Old,
    /// Each page is that of another place.
    Swapped,
    /// The set lacks the first page, and the pages are shifted by one.
    Shifted,
    /// No page is there.
    Absent,
    /// The answer ends amid its first page, and the connection with it.
    Truncated,
    /// The answer before comes again.
    Replayed,
    /// No answer comes.
    Silent,
    /// No answer to a read comes. Writes are answered.
    Unread,
    /// The connection ends before the answer.
    Closes,
    /// The pages of a write are not taken, or those of a read are refused.
    Refuses,
}

type Versions = HashMap<(u32, u16), Vec<Vec<u8>>>;

#[derive(Default)]
struct FakeState {
    lie: Option<Lie>,
    stored: Versions,
    /// Writes that came.
    writes: usize,
}

/// A lender in threads of its own. They end with their connections.
pub(crate) struct FakeLender {
    pub(super) address: SocketAddr,
    state: Arc<Mutex<FakeState>>,
}

impl FakeLender {
    pub(crate) fn start() -> FakeLender {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let state = Arc::<Mutex<FakeState>>::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for socket in listener.incoming() {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(socket?, &state));
            }
        });
        FakeLender { address, state }
    }

    pub(crate) fn lie(&self, lie: Lie) {
        self.state.lock().lie = Some(lie);
    }

    pub(crate) fn writes(&self) -> usize {
        self.state.lock().writes
    }

    /// Returns whether it has had more than one version of a page.
    pub(super) fn has_older(&self, index: u32, place: u16) -> bool {
        let stored = &self.state.lock().stored;
        stored
            .get(&(index, place))
            .is_some_and(|versions| versions.len() > 1)
    }
}

impl FakeState {
    fn lie(&self) -> Lie {
        self.lie.unwrap_or(Lie::Honest)
    }

    fn page(&self, page: LentPage) -> Option<Vec<u8>> {
        let versions = self.stored.get(&(page.index, page.place))?;
        let mut latest = versions.last()?.clone();
        match self.lie() {
            Lie::Altered => latest[4000] ^= 8,
            Lie::Old => latest = versions[versions.len().checked_sub(2)?].clone(),
            Lie::Swapped => {
                let other = |at: &&(u32, u16)| **at != (page.index, page.place);
                let other = self.stored.keys().find(other)?;
                latest = self.stored[other].last()?.clone();
            }
            _ => {}
        }
        Some(latest)
    }

    /// The pages that it says it has, and their bytes.
    fn answer(&self, asked: &[LentPage]) -> (Answer, Vec<u8>) {
        let (mut present, mut bytes) = (PageSet::default(), Vec::new());
        for (ordinal, page) in asked.iter().enumerate() {
            if let Some(page) = self.page(*page) {
                present.insert(ordinal);
                bytes.extend(page);
            }
        }
        match self.lie() {
            Lie::Absent => (Answer::Pages(PageSet::default()), Vec::new()),
            Lie::Refuses => (Answer::Refused, Vec::new()),
            Lie::Shifted => {
                bytes.truncate(bytes.len() - PAGE_BYTES);
                (Answer::Pages(PageSet(present.0 & !1)), bytes)
            }
            _ => (Answer::Pages(present), bytes),
        }
    }
}

fn serve(mut socket: TcpStream, state: &Mutex<FakeState>) -> io::Result<()> {
    let mut hello = [0; HELLO_BYTES];
    socket.read_exact(&mut hello)?;
    let hello = HelloMessage::decode(&hello).expect("a hello").hello;
    let keys = session_keys().connection_keys(&hello);
    let mut channel = LenderChannel::new(hello.class, keys, LENDER_INCARNATION);
    let mut before = vec![0; ANSWER_BYTES];
    let (mut input, mut written) = (vec![0; 1 << 16], Vec::new());
    loop {
        let read = socket.read(&mut input)?;
        if read == 0 {
            return Ok(());
        }
        let mut unused = &input[..read];
        loop {
            let (answer, bytes) = match channel.receive(&mut unused).expect("a request") {
                RequestEvent::Idle => break,
                RequestEvent::WriteBegins(_) => {
                    written.clear();
                    continue;
                }
                RequestEvent::PageBytes { bytes, .. } => {
                    written.extend_from_slice(bytes);
                    continue;
                }
                RequestEvent::WriteComplete(request) => {
                    let mut state = state.lock();
                    state.writes += 1;
                    for (page, bytes) in channel.ranges().pages().zip(written.chunks(PAGE_BYTES)) {
                        let at = (page.index, page.place);
                        state.stored.entry(at).or_default().push(bytes.to_vec());
                    }
                    match state.lie() {
                        Lie::Refuses => (Answer::Refused, Vec::new()),
                        _ => (Answer::Pages(PageSet::first(request.pages)), Vec::new()),
                    }
                }
                RequestEvent::Read(_) => {
                    let asked: Vec<LentPage> = channel.ranges().pages().collect();
                    state.lock().answer(&asked)
                }
            };
            let head = channel.answer(answer).expect("it suits");
            let honest = [&head[..], &bytes].concat();
            let is_read = !bytes.is_empty();
            let lie = state.lock().lie();
            match lie {
                Lie::Silent => {}
                Lie::Unread if is_read => {}
                Lie::Closes => return Ok(()),
                Lie::Truncated => return socket.write_all(&honest[..honest.len().min(2000)]),
                Lie::Replayed => socket.write_all(&before)?,
                _ => socket.write_all(&honest)?,
            }
            before = honest;
        }
    }
}
