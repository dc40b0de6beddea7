//! The least that a server of pages can do: it copies them from memory to a socket. It waits as our page server does.

use std::io;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::child_server::say_and_wait;
use super::paced_socket::PacedSocket;
use super::page_protocol::{BARE_HEAD, BARE_NUMBER, BARE_WRITES};
use super::test_page::BYTES;
use crate::exit::Exit;

/// The most pages of a request.
const PAGES_MAX: usize = 64;

/// Hold pages in memory, and answer requests for them.
#[derive(Debug, clap::Args)]
pub(crate) struct BareResponderArgs {
    /// Listen at this address.
    address: IpAddr,
    /// Hold this many pages.
    pages: usize,
}

/// Answers until the bench ends.
pub(in crate::bench) fn respond(args: &BareResponderArgs) -> Exit {
    let listens = TcpListener::bind((args.address, 0)).and_then(|listener| {
        let port = listener.local_addr()?.port();
        let memory = Arc::new(Mutex::new(vec![0; args.pages * BYTES]));
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let memory = Arc::clone(&memory);
                // A connection ends with an error, as its client closes it.
                thread::spawn(move || serve(socket, &memory));
            }
        });
        say_and_wait(&[port.into()])
    });
    match listens {
        Ok(()) => Exit::Done,
        Err(error) => Exit::failed(error),
    }
}

fn serve(socket: TcpStream, memory: &Mutex<Vec<u8>>) -> io::Result<()> {
    let mut socket = PacedSocket::new(socket)?;
    let mut request = vec![0; BARE_NUMBER * (PAGES_MAX + 1)];
    let mut reply = Vec::with_capacity(BARE_HEAD + PAGES_MAX * BYTES);
    loop {
        let mut came = 0;
        while came < BARE_NUMBER {
            came += socket.read_some(&mut request[came..])?;
        }
        let count = number(&request, 0);
        let pages = (count & !BARE_WRITES) as usize;
        let bytes = BARE_NUMBER * (pages + 1);
        let refused = || io::Error::from(io::ErrorKind::InvalidData);
        if pages > PAGES_MAX {
            return Err(refused());
        }
        reply.clear();
        reply.resize(BARE_HEAD, 0);
        if count & BARE_WRITES == 0 {
            while came < bytes {
                came += socket.read_some(&mut request[came..bytes])?;
            }
            let memory = memory.lock().map_err(|_| refused())?;
            for nth in 1..=pages {
                let at = number(&request, nth) as usize * BYTES;
                reply.extend_from_slice(memory.get(at..at + BYTES).ok_or_else(refused)?);
            }
        } else {
            store(&mut socket, &request[..came], bytes, memory)?;
        }
        socket.write_all(&reply)?;
    }
}

/// Stores one page, of which some bytes came with the request's.
fn store(
    socket: &mut PacedSocket,
    came: &[u8],
    head: usize,
    memory: &Mutex<Vec<u8>>,
) -> io::Result<()> {
    let mut message = came.to_vec();
    let had = message.len();
    message.resize(head + BYTES, 0);
    socket.read_exact(&mut message[had.min(head + BYTES)..])?;
    let refused = || io::Error::from(io::ErrorKind::InvalidData);
    let at = number(&message, 1) as usize * BYTES;
    let mut memory = memory.lock().map_err(|_| refused())?;
    let place = memory.get_mut(at..at + BYTES).ok_or_else(refused)?;
    place.copy_from_slice(&message[head..]);
    Ok(())
}

/// The nth number of a request. The count is number 0.
fn number(request: &[u8], nth: usize) -> u32 {
    let bytes = request[nth * BARE_NUMBER..].first_chunk();
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}
