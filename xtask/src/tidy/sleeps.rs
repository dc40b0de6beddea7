//! A test waits for an event, for a condition within a bound, or for a clock that it moves itself. A test that sleeps or
//! measures time states why it must.

use std::path::{Path, PathBuf};

use super::complaint::Complaint;
use super::source::{BuiltFor, Source, Token, TokenKind};

/// Functions of tests that wait for a condition within a bound. Other tests call them.
const POLLS: &[(&str, &str)] = &[
    ("crates/etcd/src/tests/contract.rs", "eventually"),
    ("crates/frontends/src/ring/tests/fair.rs", "soon"),
    ("crates/frontends/src/serving/poll_loop.rs", "wait_for"),
    ("crates/frontends/tests/nbd/node.rs", "soon"),
    ("crates/frontends/tests/vhost_user_chains.rs", "until"),
    ("crates/frontends/tests/vhost_user_replay.rs", "connect"),
    ("crates/frontends/tests/vhost_user_replay.rs", "drive"),
    ("crates/frontends/tests/vhost_user_requests.rs", "until"),
    (
        "crates/lab/src/bench/pressure/container.rs",
        "a_container_takes_its_programs_and_its_cgroup_with_it",
    ),
    ("crates/host/src/headroom/host_figures_live.rs", "drop"),
    ("crates/host/src/wait_until.rs", "wait_until"),
    ("crates/sublet/tests/memcached/started.rs", "end"),
    ("crates/sublet/tests/memcached/started.rs", "wait_for"),
    ("crates/sublet/tests/serve/daemon.rs", "drop"),
    ("crates/sublet/tests/serve/stuck.rs", "output_of_who_ends"),
    ("crates/sublet/tests/serve/wait.rs", "wait_for"),
    ("tests/clients/python/node.py", "start"),
    ("tests/clients/python/test_security.py", "start_on_socket"),
    ("tests/clients/python/test_text.py", "wait_until_gone"),
    ("tests/vm/guest.py", "_connected"),
    ("tests/vm/guest.py", "wait_for"),
    ("tests/vm/served.py", "eventually"),
];

/// Functions of tests that sleep or measure time: the path, the name, and why the function must do that.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "crates/etcd/src/tests/live/mod.rs",
        "outlive",
        "an etcd has to let a lease end, and its clock cannot be moved",
    ),
    (
        "crates/client/src/ring/spin_wait.rs",
        "an_answer_that_is_there_is_found_and_one_that_is_not_is_not_waited_for",
        "a client spins for a moment only: the bound is what is promised",
    ),
    (
        "crates/frontends/src/ring/tests/fair.rs",
        "idle_rings_use_no_processor",
        "the kernel counts how often a thread woke in a while",
    ),
    (
        "crates/frontends/src/ring/tests/fake_pages.rs",
        "get_page",
        "a store that takes its time",
    ),
    (
        "crates/frontends/src/ring/tests/fake_pages.rs",
        "remove_some",
        "a store that takes its time",
    ),
    (
        "crates/frontends/src/ring/tests/speed.rs",
        "timed",
        "it measures, and is run by hand",
    ),
    (
        "crates/frontends/src/vhost_user/serve/listener.rs",
        "shutting_ends_a_wait",
        "nothing tells that a thread waits in the kernel to accept",
    ),
    (
        "crates/frontends/tests/nbd/large_replies.rs",
        "read_all_over",
        "a client that reads slowly, so that its socket fills",
    ),
    (
        "crates/frontends/tests/nbd/tls.rs",
        "who_shows_its_certificate_comes_in_behind_a_queue_of_others",
        "before a client gives up: the bound is what is promised",
    ),
    (
        "crates/frontends/tests/vhost_user_replay.rs",
        "daemon",
        "a process that serves until it is killed",
    ),
    (
        "crates/frontends/tests/vhost_user_speed.rs",
        "accesses_of_guest_memory",
        "it measures, and is run by hand",
    ),
    (
        "crates/frontends/tests/vhost_user_speed.rs",
        "drive",
        "it measures, and is run by hand",
    ),
    (
        "crates/host/src/admin/serve.rs",
        "send_request",
        "a call that takes longer than others may",
    ),
    (
        "crates/host/src/disk/engine/mod.rs",
        "a_slow_engine_takes_its_time",
        "so slow is what was asked for: the bound is what is promised",
    ),
    (
        "crates/host/src/disk/tests.rs",
        "a_part_of_a_page_takes_nothing_older_along",
        "each round has the second write begin later beside the first",
    ),
    (
        "crates/host/src/disk/tests/ailing.rs",
        "a_backing_that_hangs_is_left_alone",
        "long before the backing answers: the bound is what is promised",
    ),
    (
        "crates/host/src/disk/tests/ailing.rs",
        "a_backing_that_was_given_nothing_still_fails",
        "for longer than a backing that failed is left alone",
    ),
    (
        "crates/host/src/disk/tests/silent.rs",
        "a_disk_whose_backing_is_silent_stays_or_goes_by_that_word",
        "before the backing answers: the bound is what is promised",
    ),
    (
        "crates/host/src/disk/tests/silent.rs",
        "the_end_leaves_a_backing_that_is_silent",
        "before the backing answers: the bound is what is promised",
    ),
    (
        "crates/host/src/headroom/host_figures_live.rs",
        "what_a_container_at_its_own_limit_misses_is_not_the_hosts",
        "the kernel counts what it reclaims in a while",
    ),
    (
        "crates/host/src/observe/process.rs",
        "this_process_began_before_now_and_has_threads_and_descriptors",
        "how long a process runs is what is asked",
    ),
    (
        "crates/host/src/retry.rs",
        "what_passes_is_waited_for_and_what_does_not_is_told_at_once",
        "at once: the bound is what is promised",
    ),
    (
        "crates/host/src/state_folder.rs",
        "a_folder_of_another_is_refused_before_it_is_known_whose_it_is",
        "a file system that does not answer",
    ),
    (
        "crates/lab/src/bench/lend/delaying_proxy/proxy.rs",
        "no_round_trip_is_shorter_than_asked",
        "so long is what was asked for: the bound is what is promised",
    ),
    (
        "crates/lab/src/bench/lend/delaying_proxy/proxy.rs",
        "a_delay_leaves_the_bandwidth",
        "the bound is what is promised, and is sixty times what it takes",
    ),
    (
        "crates/lend/benches/leader_second.rs",
        "main",
        "it measures, and is run by hand",
    ),
    (
        "crates/sublet/tests/memcached/connections.rs",
        "a_request_may_come_byte_by_byte",
        "nothing tells that a daemon has read a byte",
    ),
    (
        "crates/sublet/tests/memcached/flush.rs",
        "beside_busy_loops_a_flush_takes_effect_at_its_moment",
        "not before its moment: the bound is what is promised",
    ),
    (
        "crates/sublet/tests/memcached/started.rs",
        "calm_rss_kib",
        "nothing tells that the kernel has given memory back",
    ),
    (
        "crates/sublet/tests/serve/crowded.rs",
        "soon_enough",
        "before a client gives up: the bound is what is promised",
    ),
    (
        "crates/sublet/tests/serve/crowded.rs",
        "who_announces_a_body_and_sends_none_keeps_nobody_waiting_and_has_an_end",
        "not before its time is over: the bound is what is promised",
    ),
    (
        "crates/sublet/tests/serve/events.rs",
        "what_repeats_is_one_event_a_second_with_its_count",
        "one a second: the bound is what is promised",
    ),
    (
        "crates/sublet/tests/serve/events.rs",
        "what_tenants_suffer_is_told",
        "the manager has to look once before the next step",
    ),
    (
        "crates/sublet/tests/serve/hanging.rs",
        "assert_all_answer",
        "before the hanging calls give up: the bound is what is promised",
    ),
    (
        "crates/sublet/tests/serve/leftovers.rs",
        "wait_until_as_before",
        "gone within seconds: the bound is what is promised",
    ),
    (
        "crates/sublet/tests/serve/pipes.rs",
        "is_refused",
        "a start is refused within seconds: the bound is what is promised",
    ),
    (
        "crates/sublet/tests/serve/policy.rs",
        "a_tenant_that_gave_way_is_told_to_whom_and_since_when",
        "the manager has to look once before the next step",
    ),
    (
        "tests/clients/python/test_random.py",
        "turns",
        "it runs for as long as it is told to",
    ),
    (
        "tests/clients/python/test_text.py",
        "test_touch_and_gat_change_the_expiry",
        "a daemon of its own has to let an item expire",
    ),
    (
        "tests/lend/workers.py",
        "goes_on",
        "what is answered in a while is judged",
    ),
    (
        "tests/lend/nodes.py",
        "times",
        "an event has its count a second after it was told",
    ),
    (
        "tests/lend/test_all_lenders_gone.py",
        "put_all",
        "a client that puts no faster than pages go to lenders",
    ),
    (
        "tests/lend/test_guest.py",
        "stay",
        "a lender is away for a while, and guests have clocks of their own",
    ),
    (
        "tests/vm/test_disk.py",
        "_work",
        "a guest that works for a while at random",
    ),
    (
        "tests/vm/test_disk.py",
        "guest_dies",
        "a guest is killed amid its work",
    ),
    (
        "tests/vm/test_disk.py",
        "host_dies",
        "a daemon is dead for a while",
    ),
    (
        "tests/vm/test_judges.py",
        "test_a_stalled_write_stalls_nobody_else",
        "long before the stall is over: the bound is what is promised",
    ),
    (
        "tests/vm/test_postgres.py",
        "mounted",
        "nothing tells that the kernel has let go of a loop device",
    ),
    (
        "tests/vm/test_reconnect.py",
        "deaths",
        "a daemon is dead for a while, and lives for a while",
    ),
    (
        "xtask/src/step.rs",
        "a_step_past_its_limit_is_ended",
        "the time is an argument: it begins in the past",
    ),
];

/// A function of a test that sleeps or compares times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wait {
    path: PathBuf,
    function: String,
    line: usize,
}

/// Finds those of a Rust file, each function once.
pub(crate) fn in_rust(source: &Source) -> Vec<Wait> {
    let tokens = &source.tokens;
    let mut open: Vec<(usize, &str)> = Vec::new();
    // `depth` counts curly brackets, and `inner` the others, since an array's type has a semicolon in its brackets.
    let (mut depth, mut inner, mut named) = (0usize, 0usize, None);
    let mut waits: Vec<Wait> = Vec::new();
    for (n, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "fn" if token.kind == TokenKind::Word => {
                named = tokens.get(n + 1).map(|name| (name.text.as_str(), inner));
            }
            "(" | "[" => inner += 1,
            ")" | "]" => inner = inner.saturating_sub(1),
            ";" if named.is_some_and(|(_, at)| at == inner) => named = None,
            "{" => {
                depth += 1;
                open.extend(named.take().map(|(name, _)| (depth, name)));
            }
            "}" => {
                open.pop_if(|(at, _)| *at == depth);
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        let is_found = token.built_for == BuiltFor::Tests && is_wait(tokens, n);
        if let Some((_, function)) = open.last().filter(|_| is_found) {
            push(&mut waits, &source.path, function, token.line);
        }
    }
    waits
}

/// Finds those of a Python file of tests, each function once.
pub(crate) fn in_python(path: &Path, text: &str) -> Vec<Wait> {
    let mut waits = Vec::new();
    if !path.starts_with("tests") {
        return waits;
    }
    let mut function = "";
    for (n, line) in text.lines().enumerate() {
        let rest = line.trim_start().strip_prefix("def ");
        function = rest
            .and_then(|rest| rest.split('(').next())
            .unwrap_or(function);
        let compares = line.contains("time.monotonic()") && line.contains(['<', '>']);
        if line.contains("time.sleep(") || compares {
            push(&mut waits, path, function, n + 1);
        }
    }
    waits
}

fn push(waits: &mut Vec<Wait>, path: &Path, function: &str, line: usize) {
    if waits.iter().all(|wait| wait.function != function) {
        waits.push(Wait {
            path: path.to_path_buf(),
            function: function.to_owned(),
            line,
        });
    }
}

/// Returns whether the token calls a sleep, reads an elapsed time, or compares a time with the present.
fn is_wait(tokens: &[Token], n: usize) -> bool {
    let text = |n: usize| tokens.get(n).map_or("", |token| token.text.as_str());
    let before = |count: usize| n.checked_sub(count).map_or("", text);
    let is_call = text(n + 1) == "(";
    match text(n) {
        "sleep" => is_call && !matches!(before(1), "fn" | "."),
        "elapsed" => is_call && before(1) == ".",
        // Instant :: now ( )
        "now" if is_call && before(3) == "Instant" => {
            let is_compared = |sign: &str| matches!(sign, "<" | ">");
            is_compared(text(n + 3)) || is_compared(before(4)) || text(n + 3) == "-"
        }
        _ => false,
    }
}

/// Complains about functions that are not listed, and about rows whose function no longer waits.
pub(crate) fn judge(waits: &[Wait]) -> Vec<Complaint> {
    let polls = POLLS.iter().copied();
    let allowed = ALLOWED.iter().map(|(path, function, _)| (*path, *function));
    compare(waits, &polls.chain(allowed).collect::<Vec<_>>())
}

fn compare(waits: &[Wait], listed: &[(&str, &str)]) -> Vec<Complaint> {
    let is_of =
        |wait: &Wait, row: &(&str, &str)| wait.path == Path::new(row.0) && wait.function == row.1;
    let unlisted = waits
        .iter()
        .filter(|wait| !listed.iter().any(|row| is_of(wait, row)))
        .map(|wait| {
            Complaint::new(
                &wait.path,
                wait.line,
                format!("`{}` sleeps or measures time", wait.function),
                "wait for the condition with a bound, or move a clock; where neither can be, say why in `tidy/sleeps.rs`",
            )
        });
    let idle = listed
        .iter()
        .filter(|row| !waits.iter().any(|wait| is_of(wait, row)))
        .map(|(path, function)| {
            Complaint::new(
                Path::new("xtask/src/tidy/sleeps.rs"),
                1,
                format!("`{function}` of {path} neither sleeps nor measures time"),
                "remove its row",
            )
        });
    unlisted.chain(idle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let path = Path::new("crates/host/src/a.rs");
        let source = Source::parse(path, text.into()).expect("it is Rust");
        let waits = in_rust(&source).into_iter();
        waits.map(|wait| wait.function).collect()
    }

    #[test]
    fn a_test_that_sleeps_or_measures_is_found_by_its_function() {
        let text = "
            fn product() { thread::sleep(A); began.elapsed() < B; }
            #[cfg(test)]
            mod tests {
                fn sleeps() { loop { std::thread::sleep(A); } thread::sleep(A) }
                fn awaits() { sleep(A).await; }
                fn measures() { assert!(began.elapsed() >= B); }
                fn bounds() { while Instant::now() < until { look(); } }
                fn takes(two: [u64; 2]) -> [u64; 2] { thread::sleep(A); two }
                fn subtracts() { let took = Instant::now() - began; }
            }";
        let names = [
            "sleeps",
            "awaits",
            "measures",
            "bounds",
            "takes",
            "subtracts",
        ];
        assert_eq!(found(text), names);
    }

    #[test]
    fn a_time_that_is_an_argument_is_no_wait() {
        let text = "
            #[cfg(test)]
            mod tests {
                fn sleep(it: It) { it.sleep(); }
                fn given(now: Instant) { places.enter(Instant::now() + A); asked.saturating_sub(B); }
            }";
        assert_eq!(found(text), [] as [String; 0]);
    }

    #[test]
    fn a_test_in_python_is_found_too() {
        let text = "def a():\n    time.sleep(1)\ndef b():\n    end = time.monotonic() + 1\ndef c():\n    while time.monotonic() < end: pass\n";
        let waits = in_python(Path::new("tests/vm/test_a.py"), text);
        let names: Vec<&str> = waits.iter().map(|wait| wait.function.as_str()).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!(in_python(Path::new("scripts/a.py"), text), []);
    }

    #[test]
    fn who_is_not_listed_and_who_is_listed_for_nothing_is_complained_of() {
        let wait = |function: &str| Wait {
            path: PathBuf::from("a.rs"),
            function: function.to_owned(),
            line: 3,
        };
        let waits = [wait("one"), wait("two")];
        assert_eq!(
            compare(&waits, &[("a.rs", "one"), ("a.rs", "two")]).len(),
            0
        );
        assert_eq!(compare(&waits, &[("a.rs", "one")]).len(), 1);
        assert_eq!(
            compare(&waits[..1], &[("a.rs", "one"), ("b.rs", "one")]).len(),
            1
        );
    }
}
