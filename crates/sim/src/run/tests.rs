use sublet_types::Bytes;

use super::*;
use crate::machine::tier::{PageStamp, PoolKind, TierGetOutcome, TierPage, TierPutOutcome};
use crate::machine::tier_map::MapTier;
use crate::scenario::{BuiltInScenario, TierEngine};

fn no_files(name: &str) -> io::Result<Box<dyn Read>> {
    Err(io::Error::new(io::ErrorKind::NotFound, name.to_owned()))
}

fn outcome(scenario: &Scenario) -> RunOutcome {
    run(scenario, &mut no_files, JudgeMode::Closely, &mut |_| {}).expect("it runs")
}

fn scenario(text: &str) -> Scenario {
    Scenario::parse("test.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

const TWO: &str = r#"
name = "two"
seed = 1
duration = "10m"
[host]
memory = "16MiB"
[disk]
latency_us = 1000
[[vm]]
name = "a"
memory = "4MiB"
[vm.workload.in-memory-analytics]
scale = 0.005
runs = 2
rest = "1s"
[[vm]]
name = "b"
memory = "1MiB"
start = { vms = ["a"], begin = "run 2" }
[vm.workload.zipf]
size = "8MiB"
operations = 20000
write_share = 0.2
"#;

#[test]
fn a_seed_gives_the_same_bytes_and_another_gives_others() {
    let bytes = |seed: u64| {
        let mut scenario = scenario(TWO);
        scenario.seed = seed;
        serde_json::to_string(&outcome(&scenario)).expect("it serialises")
    };
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
    let open = || serde_json::to_string(&outcome(&scenario(OPEN))).expect("it serialises");
    assert_eq!(open(), open());
}

#[test]
fn a_tier_saves_disk_reads_and_time_and_the_judges_find_nothing() {
    let mut scenario = scenario(TWO);
    let with = outcome(&scenario);
    scenario.tier.engine = TierEngine::None;
    let without = outcome(&scenario);
    assert_eq!(with.verdicts, Vec::<String>::new());
    assert_eq!(without.verdicts, Vec::<String>::new());
    assert!(with.disk.pages_read < without.disk.pages_read / 2);
    let secs = |outcome: &RunOutcome, name: &str| {
        let found = outcome.vms[0]
            .stretches
            .iter()
            .find(|stretch| stretch.name == name);
        found.and_then(TimedStretch::secs).expect("it ended")
    };
    assert!(secs(&with, "run 1") < secs(&without, "run 1"));
    assert!(secs(&with, "run 2") < secs(&without, "run 2"));
}

#[test]
fn a_machine_starts_when_the_others_reach_its_mark_and_not_before() {
    let outcome = outcome(&scenario(TWO));
    let second_run = &outcome.vms[0].stretches[2];
    assert_eq!(second_run.name, "run 2");
    assert_eq!(outcome.vms[1].stretches[0].from_secs, second_run.from_secs);
}

/// Records of one page each, all different in effect, that arrive at a disk of 8 ms. Nothing keeps them.
const OPEN: &str = r#"
name = "open"
seed = 5
[host]
memory = "2MiB"
[tier]
engine = "none"
[costs]
touch = 0
fault = 0
put = 0
get = 0
refusal = 0
[disk]
latency_us = 8000
bandwidth = "1000GiB"
[[vm]]
name = "web"
memory = "256KiB"
read_ahead = 1
[vm.workload.zipf]
size = "100GiB"
exponent = 0.0
operations = 60000
arrivals = "75/s"
"#;

#[test]
fn requests_that_arrive_by_themselves_queue_as_theory_says() {
    let response = |rate: &str| {
        let outcome = outcome(&scenario(&OPEN.replace("75/s", rate)));
        assert_eq!(outcome.vms[0].guest.requests, 60_000);
        assert_eq!(outcome.disk.reads, 60_000);
        outcome.vms[0].response_secs().expect("it made requests")
    };
    // Poisson arrivals at one server of constant service s (Pollaczek and Khinchine): s + rho s / (2 (1 - rho)).
    for (rate, rho) in [("12.5/s", 0.1), ("75/s", 0.6), ("100/s", 0.8)] {
        let expected = 0.008 * (1.0 + rho / (2.0 * (1.0 - rho)));
        let found = response(rate);
        assert!(
            (found / expected - 1.0).abs() < 0.05,
            "{rate}: {found} s, not {expected}"
        );
    }
}

#[test]
fn what_happens_while_it_warms_up_is_not_counted() {
    let all = outcome(&scenario(OPEN));
    let until = outcome(&scenario(
        &OPEN.replace("seed = 5", "seed = 5\nduration = \"100s\""),
    ));
    let after = outcome(&scenario(
        &OPEN.replace("seed = 5", "seed = 5\nwarm_up = \"100s\""),
    ));
    let requests = |outcome: &RunOutcome| {
        let guest = outcome.vms[0].guest;
        (guest.requests, guest.request_nanos, outcome.disk.reads)
    };
    let (all, until, after) = (requests(&all), requests(&until), requests(&after));
    assert!(until.0 > 7_000);
    assert_eq!(after, (all.0 - until.0, all.1 - until.1, all.2 - until.2));
}

/// When the last virtual machine was done.
fn ended_secs(outcome: &RunOutcome) -> f64 {
    let ended = outcome.vms.iter().map(|vm| vm.stretches[0].to_secs);
    ended
        .map(|secs| secs.expect("it ended"))
        .fold(0.0, f64::max)
}

#[test]
fn a_run_ends_when_the_last_request_is_answered() {
    let burst = OPEN.replace("75/s", "1000000/s").replace("60000", "100");
    let outcome = outcome(&scenario(&burst));
    // A hundred requests within 1 ms take 8 ms of the disk each, one after another.
    let ended = ended_secs(&outcome);
    assert!((ended - 0.8).abs() < 0.002, "{ended}");
}

#[test]
fn processors_are_shared_by_who_has_something_to_do() {
    let secs = |processors: &str| {
        let text = format!(
            "name = \"cpu\"\n[host]\nmemory = \"1MiB\"\n{processors}\n[[vm]]\nname = \"vm\"\ncount = 3\n\
             memory = \"4MiB\"\n[vm.workload.usemem]\nstep = \"2MiB\"\nmost = \"2MiB\"\n\
             passes_at_most = 10\nwork = \"1ms\""
        );
        ended_secs(&outcome(&scenario(&text)))
    };
    // 10,240 touches of three programs take 1 ms each, and hardly anything else takes time.
    let alone = secs("");
    assert!((alone - 10.24).abs() < 0.02, "{alone}");
    assert_eq!(secs("processors = 3"), alone);
    for (processors, times) in [("processors = 2", 1.5), ("processors = 1", 3.0)] {
        let shared = secs(processors);
        assert!((shared / alone / times - 1.0).abs() < 0.01, "{shared}");
    }
}

#[test]
fn a_mark_stops_all() {
    let text = format!("{TWO}\n[stop]\nvms = [\"a\"]\nbegin = \"run 2\"\n");
    let outcome = outcome(&scenario(&text));
    assert_eq!(outcome.secs, outcome.vms[0].stretches[2].from_secs);
    assert!(outcome.vms[1].stretches.is_empty());
}

#[test]
fn every_policy_runs_under_the_judges() {
    for entry in &sublet_policy::catalogue::CATALOGUE {
        for shrink in [
            sublet_types::ShrinkMode::Active,
            sublet_types::ShrinkMode::Never,
        ] {
            let mut scenario = scenario(TWO);
            scenario.policy.name = entry.name.to_owned();
            scenario.tier.shrink = shrink;
            let outcome = outcome(&scenario);
            assert_eq!(outcome.verdicts, Vec::<String>::new(), "{}", entry.name);
            assert_eq!(
                outcome
                    .vms
                    .iter()
                    .filter(|vm| vm.stretches[0].to_secs.is_none())
                    .count(),
                0
            );
        }
    }
}

#[test]
fn a_host_that_takes_its_memory_back_gets_it() {
    let text = TWO.replace(
        "memory = \"16MiB\"\n[disk]",
        "memory = \"16MiB\"\nchanges = [{ at = \"2s\", memory = \"4MiB\" }]\n[disk]",
    );
    let outcome = outcome(&scenario(&text));
    assert_eq!(outcome.verdicts, Vec::<String>::new());
    let samples = &outcome.samples;
    let late = samples
        .secs
        .iter()
        .position(|secs| *secs >= 4.0)
        .expect("it took longer");
    for number in late..samples.secs.len() {
        let used: u64 = samples.used.iter().map(|used| used[number]).sum();
        assert!(used <= 1024, "{used}");
    }
}

#[test]
fn a_guest_without_swap_space_is_an_error_that_names_it() {
    let text = TWO.replacen(
        "memory = \"4MiB\"\n[vm.",
        "memory = \"4MiB\"\nswap = \"1MiB\"\n[vm.",
        1,
    );
    let scenario = scenario(&text);
    let error = run(&scenario, &mut no_files, JudgeMode::Full, &mut |_| {});
    let message = error.expect_err("it cannot run").to_string();
    assert!(
        message.starts_with("a cannot go on: its swap space is full"),
        "{message}"
    );
}

#[test]
fn a_trace_that_is_not_there_is_named() {
    let text = r#"
name = "t"
[host]
memory = "1MiB"
[[vm]]
name = "a"
memory = "1MiB"
[vm.workload.trace]
file = "nowhere.lis"
"#;
    let scenario = scenario(text);
    let error = run(&scenario, &mut no_files, JudgeMode::Full, &mut |_| {});
    let message = error.expect_err("it cannot run").to_string();
    assert!(message.starts_with("cannot open nowhere.lis"), "{message}");
}

#[test]
fn a_trace_that_ends_in_mid_record_is_an_error_when_it_is_reached() {
    let text = "name = \"t\"\n[host]\nmemory = \"1MiB\"\n[[vm]]\nname = \"a\"\nmemory = \"1MiB\"\n\
                [vm.workload.trace]\nfile = \"short.raw32le\"\n";
    let scenario = scenario(text);
    let mut files = |_: &str| Ok(Box::new(io::Cursor::new(vec![1u8; 10])) as Box<dyn Read>);
    let error = run(&scenario, &mut files, JudgeMode::Full, &mut |_| {});
    let message = error.expect_err("it cannot run").to_string();
    assert!(
        message.starts_with("short.raw32le, byte 8: ends in mid-record"),
        "{message}"
    );
}

/// A tier that forgets to replace a page: it answers the second put and drops it.
struct ForgetfulTier(MapTier, bool);

impl Tier for ForgetfulTier {
    fn put(&mut self, page: TierPage, stamp: PageStamp, now: VirtualInstant) -> TierPutOutcome {
        self.1 = !self.1;
        match page.pool == PoolKind::Swap && self.1 {
            true => TierPutOutcome::Stored,
            false => self.0.put(page, stamp, now),
        }
    }
    fn get(&mut self, page: TierPage, now: VirtualInstant) -> TierGetOutcome {
        self.0.get(page, now)
    }
    fn flush_page(&mut self, page: TierPage, now: VirtualInstant) {
        self.0.flush_page(page, now);
    }
    fn flush_object(
        &mut self,
        id: sublet_types::TenantId,
        pool: PoolKind,
        object: u64,
        now: VirtualInstant,
    ) {
        self.0.flush_object(id, pool, object, now);
    }
    fn set_target(
        &mut self,
        id: sublet_types::TenantId,
        target: Option<Pages>,
        now: VirtualInstant,
    ) {
        self.0.set_target(id, target, now);
    }
    fn resize(&mut self, total: Pages, now: VirtualInstant) {
        self.0.resize(total, now);
    }
    fn chores(&mut self, now: VirtualInstant) {
        self.0.chores(now);
    }
    fn snapshot(&mut self, now: VirtualInstant) -> Snapshot {
        self.0.snapshot(now)
    }
    fn counts(&self) -> crate::machine::tier::TierCounts {
        self.0.counts()
    }
}

#[test]
fn the_judges_catch_a_tier_that_loses_pages() {
    let scenario = scenario(TWO);
    let inner = MapTier::of(Pages(1024), 2, sublet_types::ShrinkMode::Active);
    let mut tier = ForgetfulTier(inner, false);
    let host = host_series(&scenario, &mut no_files).expect("no file");
    let outcome = run_with(
        &scenario,
        host,
        &mut no_files,
        &mut tier,
        JudgeMode::Full,
        &mut |_| {},
    );
    let verdicts = outcome.expect("it runs").verdicts;
    assert!(
        verdicts.iter().any(|verdict| verdict.contains("was lost")),
        "{verdicts:?}"
    );
    assert!(
        verdicts.iter().any(|verdict| verdict.contains("sums:")),
        "{verdicts:?}"
    );
}

#[test]
fn usemem_starts_and_stops_as_the_paper_says() {
    let mut scenario = BuiltInScenario::find("smartmem-usemem")
        .expect("shipped")
        .scenario()
        .expect("right");
    // A 64th of the paper's sizes.
    scenario.host.memory = Bytes::mib(6);
    for vm in &mut scenario.vms {
        vm.memory = Bytes::mib(6);
        vm.reserved = Bytes::ZERO;
        if let crate::workload::WorkloadSpec::Usemem(spec) = &mut vm.workload {
            spec.step = Bytes::mib(2);
            spec.most = Bytes::mib(16);
        }
        if let VmStart::After(mark) = &mut vm.start {
            mark.begin = "10 MiB".into();
        }
    }
    scenario.stop.as_mut().expect("a stop").begin = "12 MiB".into();
    let outcome = outcome(&scenario);
    assert_eq!(outcome.verdicts, Vec::<String>::new());
    let begun = |vm: usize, name: &str| {
        let mut stretches = outcome.vms[vm].stretches.iter();
        stretches
            .find(|stretch| stretch.name == name)
            .map(|stretch| stretch.from_secs)
    };
    let third = begun(2, "all").expect("it began");
    let others = begun(0, "10 MiB").into_iter().chain(begun(1, "10 MiB"));
    assert_eq!(others.fold(0.0, f64::max), third);
    assert_eq!(begun(2, "12 MiB"), Some(outcome.secs));
}
