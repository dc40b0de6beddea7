//! Waiting for a daemon that was killed: its sockets and locks go only after its memory has.

use std::thread;
use std::time::{Duration, Instant};

/// How long one that was killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(2);

const LOOK: Duration = Duration::from_millis(100);

/// Tries again for a while where what is in the way may pass.
pub(crate) fn patiently<T, E>(
    may_pass: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let until = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(error) if may_pass(&error) && Instant::now() < until => thread::sleep(LOOK),
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_waited_for_and_what_does_not_is_told_at_once() {
        let mut left = 3;
        let ended = patiently(
            |_: &u32| true,
            || {
                left -= 1;
                if left == 0 { Ok("free") } else { Err(left) }
            },
        );
        assert_eq!(ended, Ok("free"));
        let begun = Instant::now();
        assert_eq!(patiently(|_| false, || Err::<(), _>(7)), Err(7));
        assert!(begun.elapsed() < PATIENCE);
    }
}
