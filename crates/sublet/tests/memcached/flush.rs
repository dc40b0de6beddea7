//! A delayed flush takes effect at its moment, however busy the machine is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::started::start;

const BUSY_LOOPS: usize = 6;
const DELAY: Duration = Duration::from_secs(1);

/// How late a client may see the effect. None of this is needed as long as the daemon judges a request by the clock at
/// the time of reading.
const LATE_MAX: Duration = Duration::from_millis(10);

/// Ends the busy loops, even if the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn beside_busy_loops_a_flush_takes_effect_at_its_moment() {
    let started = start(&["-t", "2"]);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..BUSY_LOOPS {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let _end = StopOnDrop(&over);
        let (mut asker, mut client) = (started.connect(), started.connect());
        for flush in 0..2 {
            client.set("before", b"1");
            let asked = Instant::now();
            assert_eq!(asker.request("flush_all 1"), "OK");
            let told = Instant::now();
            client.set("meanwhile", b"2");
            loop {
                let now = Instant::now();
                if client.get("before").is_none() {
                    break;
                }
                let late = now.saturating_duration_since(told + DELAY);
                assert!(late <= LATE_MAX, "flush {flush} is {late:?} late");
            }
            assert!(asked.elapsed() >= DELAY, "flush {flush} came too soon");
            client.set("after", b"3");
            assert_eq!(client.get("meanwhile"), None);
            assert_eq!(client.get("after").as_deref(), Some(&b"3"[..]));
        }
    });
}
