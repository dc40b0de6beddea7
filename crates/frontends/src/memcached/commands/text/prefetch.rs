//! Prefetching in a batch. While earlier requests are answered, the memory that later ones will touch is loaded.

use memchr::memchr;
use sublet_store::PREFETCHED_KEYS_MAX;

use crate::memcached::caller::Caller;
use crate::memcached::numbers;
use crate::memcached::wire::words::Words;

/// Requests for which one call prefetches.
pub(in crate::memcached) const PREFETCH_MAX: usize = PREFETCHED_KEYS_MAX;

/// Prefetches for the first requests of a batch, as far as they are simple. It sends no replies.
pub(in crate::memcached) fn for_requests(caller: Caller<'_>, input: &[u8]) {
    let mut keys: [&[u8]; PREFETCH_MAX] = [&[]; PREFETCH_MAX];
    let mut rest = input;
    let mut count = 0;
    while count < PREFETCH_MAX
        && let Some((key, len)) = request(rest)
    {
        keys[count] = key;
        count += 1;
        rest = rest.get(len..).unwrap_or_default();
    }
    prefetch(caller, &keys[..count]);
}

/// Prefetches for the next keys of a get of many keys.
pub(super) fn for_keys(caller: Caller<'_>, words: Words<'_>) {
    let mut keys: [&[u8]; PREFETCH_MAX] = [&[]; PREFETCH_MAX];
    let mut count = 0;
    for (element, key) in keys.iter_mut().zip(words) {
        *element = key;
        count += 1;
    }
    prefetch(caller, &keys[..count]);
}

fn prefetch(caller: Caller<'_>, keys: &[&[u8]]) {
    if keys.len() > 1 {
        let (worker, tenant, _) = caller.tenancy.worker_tenant_now();
        worker.prefetch(tenant, keys);
    }
}

/// Returns the key of the first request and the length of the request. Returns `None` if it is not whole, or of another
/// kind.
fn request(input: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr(b'\n', input)?;
    let mut words = Words::of(input[..end].trim_ascii_end());
    let command = words.next()?;
    let key = words.next()?;
    let block = match command {
        b"get" | b"gets" | b"mg" => 0,
        b"ms" => value_block_len(words.next()?)?,
        b"set" => value_block_len(words.nth(2)?)?,
        _ => return None,
    };
    Some((key, (end + 1).checked_add(block)?))
}

/// Returns the length of a value and its end.
fn value_block_len(length: &[u8]) -> Option<usize> {
    let length = usize::try_from(numbers::unsigned(length)?).ok()?;
    length.checked_add(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_recognized_and_an_odd_one_ends_the_prefetch() {
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
