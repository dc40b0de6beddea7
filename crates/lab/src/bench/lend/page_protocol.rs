//! The protocols of the peers. The length of each reply is known before it comes.

use std::io::Write;

use super::test_page::{BYTES, TestPage};

/// A way to ask for pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageProtocol {
    /// That of the bare responder.
    Bare,
    /// memcached's: a get of many keys.
    Memcached,
    /// Redis's MGET.
    Redis,
    /// NBD: as many requests as there are pages, sent together.
    Nbd,
}

/// Bytes before each reply of the bare responder.
pub(super) const BARE_HEAD: usize = 16;

/// Bytes of a page's number in the bare responder's requests. The count of the pages has as many.
pub(super) const BARE_NUMBER: usize = 4;

/// The bit of the bare responder's count that says that pages follow.
pub(super) const BARE_WRITES: u32 = 1 << 31;

const NBD_REQUEST: u32 = 0x2560_9513;
const NBD_REPLY_HEAD: usize = 16;

impl PageProtocol {
    /// Appends a request for pages.
    pub(super) fn ask(self, pages: &[TestPage], out: &mut Vec<u8>) {
        match self {
            PageProtocol::Bare => bare_head(pages, 0, out),
            PageProtocol::Memcached => {
                put(out, format_args!("get"));
                for page in pages {
                    put(out, format_args!(" p{:07}", page.0));
                }
                put(out, format_args!("\r\n"));
            }
            PageProtocol::Redis => {
                put(out, format_args!("*{}\r\n$4\r\nMGET\r\n", pages.len() + 1));
                for page in pages {
                    put(out, format_args!("$8\r\np{:07}\r\n", page.0));
                }
            }
            PageProtocol::Nbd => pages.iter().for_each(|page| nbd_head(*page, 0, out)),
        }
    }

    /// Bytes of the reply to a request for this many pages.
    pub(super) fn reply_bytes(self, pages: usize) -> usize {
        match self {
            PageProtocol::Bare => BARE_HEAD + pages * BYTES,
            PageProtocol::Memcached => {
                let item = "VALUE p0000000 0 4096\r\n".len() + BYTES + "\r\n".len();
                pages * item + "END\r\n".len()
            }
            PageProtocol::Redis => {
                let head = format!("*{pages}\r\n").len();
                head + pages * ("$4096\r\n".len() + BYTES + "\r\n".len())
            }
            PageProtocol::Nbd => pages * (NBD_REPLY_HEAD + BYTES),
        }
    }

    /// Returns whether the reply has the pages that were asked for.
    pub(super) fn is_answered(self, pages: &[TestPage], reply: &[u8]) -> bool {
        let in_order = |before: usize, head: usize, after: usize| {
            let parts = reply[before..].chunks(head + BYTES + after);
            let mut parts = parts.zip(pages);
            parts.all(|(part, page)| page.begins(&part[head..]))
        };
        match self {
            PageProtocol::Bare => in_order(BARE_HEAD, 0, 0),
            PageProtocol::Memcached => in_order(0, "VALUE p0000000 0 4096\r\n".len(), 2),
            PageProtocol::Redis => {
                let head = format!("*{}\r\n", pages.len()).len();
                in_order(head, "$4096\r\n".len(), 2)
            }
            // Replies come in any order. Each has the number of its page.
            PageProtocol::Nbd => reply.chunks(NBD_REPLY_HEAD + BYTES).all(|part| {
                let (head, bytes) = part.split_at(NBD_REPLY_HEAD);
                let number = head.last_chunk().map(|number| u64::from_be_bytes(*number));
                number.is_some_and(|number| TestPage(number as u32).begins(bytes))
            }),
        }
    }

    /// Appends a request that stores a page.
    pub(super) fn store(self, page: TestPage, out: &mut Vec<u8>) {
        match self {
            PageProtocol::Bare => bare_head(&[page], BARE_WRITES, out),
            PageProtocol::Memcached => {
                put(out, format_args!("set p{:07} 0 0 {BYTES}\r\n", page.0));
            }
            PageProtocol::Redis => put(
                out,
                format_args!("*3\r\n$3\r\nSET\r\n$8\r\np{:07}\r\n${BYTES}\r\n", page.0),
            ),
            PageProtocol::Nbd => nbd_head(page, 1, out),
        }
        out.extend_from_slice(&page.bytes());
        if matches!(self, PageProtocol::Memcached | PageProtocol::Redis) {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// The reply to a page that was stored.
    pub(super) fn stored_bytes(self) -> usize {
        match self {
            PageProtocol::Bare => BARE_HEAD,
            PageProtocol::Memcached => "STORED\r\n".len(),
            PageProtocol::Redis => "+OK\r\n".len(),
            PageProtocol::Nbd => NBD_REPLY_HEAD,
        }
    }
}

/// Appends text. A write to a vector cannot fail.
fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// A count, then numbers.
fn bare_head(pages: &[TestPage], bits: u32, out: &mut Vec<u8>) {
    let count = pages.len() as u32 | bits;
    out.extend_from_slice(&count.to_le_bytes());
    for page in pages {
        out.extend_from_slice(&page.0.to_le_bytes());
    }
}

/// A request of NBD: magic, flags, kind, cookie, offset, length.
fn nbd_head(page: TestPage, kind: u16, out: &mut Vec<u8>) {
    let number = u64::from(page.0);
    out.extend_from_slice(&NBD_REQUEST.to_be_bytes());
    out.extend_from_slice(&0u16.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&(number * BYTES as u64).to_be_bytes());
    out.extend_from_slice(&(BYTES as u32).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(protocol: PageProtocol) -> Vec<u8> {
        let mut out = Vec::new();
        protocol.ask(&[TestPage(7), TestPage(12)], &mut out);
        out
    }

    #[test]
    fn requests_are_as_the_servers_read_them() {
        assert_eq!(asked(PageProtocol::Memcached), b"get p0000007 p0000012\r\n");
        let mget = b"*3\r\n$4\r\nMGET\r\n$8\r\np0000007\r\n$8\r\np0000012\r\n";
        assert_eq!(asked(PageProtocol::Redis), mget);
        let nbd = [
            b"\x25\x60\x95\x13\0\0\0\0".as_slice(),
            &[0, 0, 0, 0, 0, 0, 0, 7],
            &[0, 0, 0, 0, 0, 0, 0x70, 0],
            &[0, 0, 0x10, 0],
        ];
        assert_eq!(asked(PageProtocol::Nbd)[..28], nbd.concat());
        assert_eq!(
            asked(PageProtocol::Bare),
            [2, 0, 0, 0, 7, 0, 0, 0, 12, 0, 0, 0]
        );
    }

    /// A reply of memcached with these pages.
    fn reply(pages: &[TestPage]) -> Vec<u8> {
        let mut reply = Vec::new();
        for page in pages {
            put(&mut reply, format_args!("VALUE p{:07} 0 4096\r\n", page.0));
            reply.extend_from_slice(&page.bytes());
            reply.extend_from_slice(b"\r\n");
        }
        reply.extend_from_slice(b"END\r\n");
        reply
    }

    #[test]
    fn another_page_is_no_answer() {
        let (asked, other) = ([TestPage(7), TestPage(12)], [TestPage(7), TestPage(13)]);
        let protocol = PageProtocol::Memcached;
        assert_eq!(reply(&asked).len(), protocol.reply_bytes(2));
        assert!(protocol.is_answered(&asked, &reply(&asked)));
        assert!(!protocol.is_answered(&asked, &reply(&other)));
    }
}
