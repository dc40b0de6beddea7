//! Looking ahead in a batch: what later requests will touch is fetched from memory while earlier ones are
//! answered.

use memchr::memchr;
use sublet_store::EXPECTED_MAX;

use crate::memcached::caller::Caller;
use crate::memcached::numbers;
use crate::memcached::wire::words::Words;

/// Requests that one look covers.
pub(in crate::memcached) const LOOK: usize = EXPECTED_MAX;

/// Looks at the first requests of a batch, as far as they are simple ones. Answers nothing.
pub(in crate::memcached) fn requests(caller: Caller<'_>, input: &[u8]) {
    let mut keys: [&[u8]; LOOK] = [&[]; LOOK];
    let mut rest = input;
    let mut count = 0;
    while count < LOOK
        && let Some((key, len)) = request(rest)
    {
        keys[count] = key;
        count += 1;
        rest = rest.get(len..).unwrap_or_default();
    }
    expect(caller, &keys[..count]);
}

/// Looks at the next keys of a get of many.
pub(super) fn words(caller: Caller<'_>, words: Words<'_>) {
    let mut keys: [&[u8]; LOOK] = [&[]; LOOK];
    let mut count = 0;
    for (place, key) in keys.iter_mut().zip(words) {
        *place = key;
        count += 1;
    }
    expect(caller, &keys[..count]);
}

fn expect(caller: Caller<'_>, keys: &[&[u8]]) {
    if keys.len() > 1 {
        let (worker, tenant, _) = caller.tenancy.acting();
        worker.expect(tenant, keys);
    }
}

/// The key of the first request and the length of it all; `None` if it is not whole, or none of these.
fn request(input: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr(b'\n', input)?;
    let mut words = Words::of(input[..end].trim_ascii_end());
    let command = words.next()?;
    let key = words.next()?;
    let block = match command {
        b"get" | b"gets" | b"mg" => 0,
        b"ms" => block(words.next()?)?,
        b"set" => block(words.nth(2)?)?,
        _ => return None,
    };
    Some((key, (end + 1).checked_add(block)?))
}

/// The length of a value and its end.
fn block(length: &[u8]) -> Option<usize> {
    let length = usize::try_from(numbers::unsigned(length)?).ok()?;
    length.checked_add(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart_and_what_is_odd_ends_the_look() {
        assert_eq!(request(b"get k\r\nget l\r\n"), Some((&b"k"[..], 7)));
        assert_eq!(request(b"mg k v t\r\n"), Some((&b"k"[..], 10)));
        assert_eq!(request(b"set k 0 0 3\r\nabc\r\n"), Some((&b"k"[..], 18)));
        assert_eq!(request(b"ms k 3 T0\r\nabc\r\n"), Some((&b"k"[..], 16)));
        for odd in [
            &b"get k"[..],
            b"get\r\n",
            b"\r\n",
            b"",
            b"set k 0 0 x\r\n",
            b"set k 0 0 18446744073709551615\r\n",
            b"set k 0 0 18446744073709551613\r\n",
            b"ms k 18446744073709551613\r\n",
            b"delete k\r\n",
            b"\x80\n",
        ] {
            assert_eq!(request(odd), None, "{odd:?}");
        }
    }
}
