//! Pages of a peer, as a client of its protocol reads them.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use super::error::LendBenchError;
use super::fetch_pages::{FetchPages, FetchedPages};
use super::paced_socket::PacedSocket;
use super::page_protocol::PageProtocol;
use super::test_page::TestPage;

/// Pages that are stored with one message.
const STORED_AT_ONCE: usize = 16;

/// A connection to a peer that holds the pages.
pub(super) struct PeerPages {
    name: &'static str,
    protocol: PageProtocol,
    socket: PacedSocket,
    pages: u32,
    asked: Vec<TestPage>,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl PeerPages {
    /// Connects, and stores pages 0 to `pages - 1`.
    pub(super) fn filled(
        name: &'static str,
        protocol: PageProtocol,
        address: SocketAddr,
        pages: u32,
    ) -> Result<PeerPages, LendBenchError> {
        let failed = |cause| LendBenchError::Server {
            server: name,
            cause,
        };
        let socket = TcpStream::connect(address).and_then(PacedSocket::new);
        let mut peer = PeerPages {
            name,
            protocol,
            socket: socket.map_err(failed)?,
            pages,
            asked: Vec::new(),
            request: Vec::new(),
            reply: Vec::new(),
        };
        peer.fill().map_err(failed)?;
        Ok(peer)
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.protocol == PageProtocol::Nbd {
            negotiate(&mut self.socket)?;
        }
        let all: Vec<TestPage> = (0..self.pages).map(TestPage).collect();
        for some in all.chunks(STORED_AT_ONCE) {
            self.request.clear();
            for page in some {
                self.protocol.store(*page, &mut self.request);
            }
            self.exchange(some.len() * self.protocol.stored_bytes())?;
        }
        Ok(())
    }

    /// Sends the request, and receives a reply of this length.
    fn exchange(&mut self, bytes: usize) -> io::Result<()> {
        self.reply.resize(bytes, 0);
        self.socket.write_all(&self.request)?;
        self.socket.read_exact(&mut self.reply)
    }
}

impl FetchPages for PeerPages {
    fn len(&self) -> usize {
        self.pages as usize
    }

    fn fetch(&mut self, places: &[usize]) -> Result<FetchedPages, LendBenchError> {
        self.asked.clear();
        let asked = places.iter().map(|place| TestPage(*place as u32));
        self.asked.extend(asked);
        let began = Instant::now();
        self.request.clear();
        self.protocol.ask(&self.asked, &mut self.request);
        let bytes = self.protocol.reply_bytes(places.len());
        let server = self.name;
        self.exchange(bytes)
            .map_err(|cause| LendBenchError::Server { server, cause })?;
        let took = began.elapsed();
        match self.protocol.is_answered(&self.asked, &self.reply) {
            true => Ok(FetchedPages { took, late: 0 }),
            false => Err(LendBenchError::WrongPage(self.name)),
        }
    }
}

/// Takes an NBD server's default export.
fn negotiate(socket: &mut PacedSocket) -> io::Result<()> {
    const MAGIC: &[u8; 16] = b"NBDMAGICIHAVEOPT";
    /// The client's flags: fixed newstyle, and no zeroes after the answer.
    const FLAGS: [u8; 4] = [0, 0, 0, 3];
    /// `NBD_OPT_EXPORT_NAME` with an empty name.
    const EXPORT: &[u8; 16] = b"IHAVEOPT\0\0\0\x01\0\0\0\0";
    let mut greeting = [0; 18];
    socket.read_exact(&mut greeting)?;
    if !greeting.starts_with(MAGIC) {
        return Err(io::Error::other("it does not greet as an NBD server"));
    }
    socket.write_all(&[FLAGS.as_slice(), EXPORT].concat())?;
    // The size and the flags of the export.
    socket.read_exact(&mut [0; 10])
}
