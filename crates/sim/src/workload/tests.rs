use super::*;
use crate::traces::{AddressSpace, PageOp, TracePage, TraceRequest};
use crate::virtual_time::VirtualInstant;
use sublet_types::Bytes;

fn steps(workload: &mut dyn Workload, most: usize) -> Vec<WorkloadStep> {
    let mut steps = Vec::new();
    while steps.len() < most {
        match workload
            .next(VirtualInstant::START)
            .expect("no trace is read")
        {
            WorkloadStep::Done => break,
            step => steps.push(step),
        }
    }
    steps
}

fn spec(toml: &str) -> WorkloadSpec {
    #[derive(Deserialize)]
    struct One {
        workload: WorkloadSpec,
    }
    let one: One = toml::from_str(toml).unwrap_or_else(|error| panic!("{error}"));
    one.workload
}

fn built(toml: &str, seed: u64) -> Box<dyn Workload> {
    let mut open = |_: &replay::Spec| Ok(Trace::of([]));
    spec(toml)
        .build(SimRng::seeded(seed), &mut open)
        .expect("it opens")
}

const EVERY: [&str; 8] = [
    "[workload.zipf]\nsize = \"1MiB\"\nthink = \"1ms\"",
    "[workload.scan]\nsize = \"1MiB\"",
    "[workload.zipf]\nsize = \"1MiB\"\narrivals = \"9/m\"",
    "[workload.usemem]\nstep = \"1MiB\"\nmost = \"3MiB\"",
    "[workload.file-server]\nfiles = 20\nwrite_share = 0.1\ndelete_share = 0.1\nthreads = 3",
    "[workload.graph-analytics]\nscale = 0.001",
    "[workload.in-memory-analytics]\nscale = 0.001\nruns = 2",
    "[[workload.phases]]\nworkload = { scan = { size = \"64KiB\" } }\n\
     [[workload.phases]]\nworkload = { zipf = { size = \"64KiB\" } }",
];

#[test]
fn the_same_seed_gives_the_same_steps_and_every_workload_ends() {
    for toml in EVERY {
        let first = steps(built(toml, 1).as_mut(), 1_000_000);
        let second = steps(built(toml, 1).as_mut(), 1_000_000);
        assert!(first == second, "{toml}");
        assert!(
            (16..1_000_000).contains(&first.len()),
            "{toml}: {}",
            first.len()
        );
    }
}

#[test]
fn zipf_scatters_ranks_over_all_records() {
    let toml = "[workload.zipf]\nsize = \"4MiB\"\noperations = 200000\nexponent = 0.5";
    let mut seen = vec![0u32; 1024];
    for step in steps(built(toml, 3).as_mut(), usize::MAX) {
        let WorkloadStep::Read(span) = step else {
            panic!("{step:?}")
        };
        seen[(span.object * 512) as usize + span.from as usize] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0));
    let most = seen.iter().max().expect("some");
    let hottest = seen.iter().position(|count| count == most).expect("one");
    assert_eq!(hottest, 0);
    // The second and third in rank are far from the first and from each other.
    assert!(seen[1] * 4 < *most && seen[2] * 4 < *most);
}

#[test]
fn requests_that_arrive_come_at_times_of_their_own_and_are_the_same_requests() {
    let toml = "[workload.zipf]\nsize = \"4MiB\"\noperations = 4000\narrivals = \"50/s\"";
    let mut open = built(toml, 3);
    assert!(open.is_open() && !built(EVERY[0], 3).is_open());
    let mut now = VirtualInstant::START;
    let mut requests = Vec::new();
    loop {
        match open.next(now).expect("no trace is read") {
            WorkloadStep::Until(arrival) => {
                assert!(arrival >= now);
                now = arrival;
            }
            WorkloadStep::Done => break,
            request => requests.push((now, request)),
        }
    }
    assert_eq!(requests.len(), 4_000);
    // Four thousand gaps of 20 ms, with a deviation of as much each: 80 s, within four deviations of 1.26 s.
    assert!((now.secs() - 80.0).abs() < 5.1, "{}", now.secs());
    assert!(requests.windows(2).all(|pair| pair[0].0 <= pair[1].0));
}

#[test]
fn usemem_writes_then_reads_all_it_has_at_every_size() {
    let spec = usemem::Spec {
        step: Bytes::kib(8),
        most: Bytes::kib(16),
        passes_at_most: 1,
        ..usemem::Spec::default()
    };
    let steps = steps(&mut UsememWorkload::of(&spec), 1000);
    let touches: Vec<(u64, PageOp)> = steps
        .iter()
        .filter_map(|step| match step {
            WorkloadStep::Touch { page, op } => Some((*page, *op)),
            _ => None,
        })
        .collect();
    let pass = |pages: u64, op| (0..pages).map(move |page| (page, op));
    let expected: Vec<(u64, PageOp)> = pass(2, PageOp::Write)
        .chain(pass(2, PageOp::Read))
        .chain(pass(4, PageOp::Write))
        .chain(pass(4, PageOp::Read))
        .collect();
    assert_eq!(touches, expected);
}

#[test]
fn a_file_server_reads_whole_files_in_pieces_and_makes_deleted_ones_anew() {
    let spec = file_server::Spec {
        files: 10,
        operations: 2_000,
        write_share: 0.1,
        delete_share: 0.1,
        ..file_server::Spec::default()
    };
    let mut server = FileServerWorkload::of(&spec, SimRng::seeded(9));
    let mut deleted = [false; 10];
    let mut next = [0u32; 10];
    for step in steps(&mut server, usize::MAX) {
        match step {
            WorkloadStep::Delete { object, pages } => {
                assert!(pages > 0 && !deleted[object as usize]);
                deleted[object as usize] = true;
            }
            WorkloadStep::Read(span) | WorkloadStep::Write(span) => {
                let file = span.object as usize;
                assert_eq!(span.from, next[file]);
                assert!(span.count <= 8 && span.from + span.count <= span.end);
                assert!(!deleted[file] || matches!(step, WorkloadStep::Write(_)));
                next[file] = (span.from + span.count) % span.end;
                deleted[file] &= next[file] != 0;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn log_normal_sizes_have_the_mean_that_was_asked_for() {
    let spec = file_server::Spec {
        files: 20_000,
        ..file_server::Spec::default()
    };
    let server = FileServerWorkload::of(&spec, SimRng::seeded(1));
    let mean = server.footprint() as f64 / 20_000.0;
    assert!((mean - 64.0).abs() < 3.0, "{mean}");
}

#[test]
fn stand_ins_grow_shrink_and_free_everything_at_the_end() {
    for stages in [&GRAPH_ANALYTICS[..], &IN_MEMORY_ANALYTICS[..]] {
        assert!(stages.iter().all(|stage| stage.memory > Bytes::ZERO));
    }
    let running = ProgramRuns {
        scale: 0.01,
        ..ProgramRuns::default()
    };
    let mut demand = StagedProgram::of(&GRAPH_ANALYTICS, &running, SimRng::seeded(4));
    let steps = steps(&mut demand, usize::MAX);
    let mut owned = 0;
    for step in &steps {
        match step {
            WorkloadStep::Touch { page, op } => {
                assert!(*page < owned || (*page == owned && *op == PageOp::Write));
                owned = owned.max(page + 1);
            }
            WorkloadStep::Release { from, count } => {
                assert_eq!(from + count, owned);
                owned = *from;
            }
            _ => {}
        }
    }
    assert_eq!(owned, 0);
    assert_eq!(steps.first(), Some(&WorkloadStep::Begin("run 1".into())));
    assert_eq!(steps.last(), Some(&WorkloadStep::End));
}

#[test]
fn phases_change_when_their_time_is_over_or_their_work_is_done() {
    let toml = "[[workload.phases]]\nname = \"one\"\nlasts = \"10s\"\n\
                workload = { scan = { size = \"1MiB\", passes = 1000 } }\n\
                [[workload.phases]]\nworkload = { scan = { size = \"8KiB\" } }";
    let mut phases = built(toml, 0);
    let mut at = |secs: u64| {
        phases
            .next(VirtualInstant(secs * 1_000_000_000))
            .expect("no trace")
    };
    assert_eq!(at(0), WorkloadStep::Begin("one".into()));
    assert!(matches!(at(9), WorkloadStep::Read(_)));
    assert_eq!(at(10), WorkloadStep::Begin("phase 2".into()));
    assert!(matches!(at(10), WorkloadStep::Read(_)));
    assert!(matches!(at(10), WorkloadStep::Read(_)));
    assert_eq!(at(10), WorkloadStep::Done);
    assert_eq!(at(10), WorkloadStep::Done);
}

fn access(page: TracePage, space: AddressSpace, count: u32, secs: u64) -> TraceRequest {
    TraceRequest {
        at: VirtualInstant(secs * 1_000_000_000),
        page,
        space,
        count,
        op: PageOp::Read,
    }
}

fn replay(accesses: Vec<TraceRequest>, knobs: &str) -> ReplayWorkload {
    let WorkloadSpec::Trace(spec) = spec(&format!("[workload.trace]\nfile = \"a.lis\"\n{knobs}"))
    else {
        panic!("a trace")
    };
    ReplayWorkload::of(&spec, Trace::of(accesses))
}

#[test]
fn a_run_over_the_end_of_an_extent_goes_on_in_the_next() {
    let run = access(TracePage::of_device(510), AddressSpace::Device, 4, 0);
    let read = |object, from, count, end| {
        WorkloadStep::Read(FileSpan {
            object,
            from,
            count,
            end,
        })
    };
    let found = steps(&mut replay(vec![run], ""), 100);
    assert_eq!(found, [read(0, 510, 2, 512), read(1, 0, 2, 2)]);
    let large = access(
        TracePage {
            object: 7,
            index: 0,
        },
        AddressSpace::Objects,
        600,
        0,
    );
    assert_eq!(
        steps(&mut replay(vec![large], ""), 100),
        [read(7, 0, 600, 600)]
    );
    let found = steps(&mut replay(vec![run], "memory = \"anonymous\""), 100);
    let pages: Vec<WorkloadStep> = (510..514)
        .map(|page| WorkloadStep::Touch {
            page,
            op: PageOp::Read,
        })
        .collect();
    assert_eq!(found, pages);
}

#[test]
fn a_trace_at_its_own_pace_waits_for_its_times() {
    let page = TracePage::of_device(1);
    let accesses = vec![
        access(page, AddressSpace::Device, 1, 0),
        access(page, AddressSpace::Device, 1, 5),
    ];
    let mut replay = replay(accesses, "pace = \"recorded\"\noperations = 2");
    let start = VirtualInstant(1_000_000_000);
    assert!(matches!(replay.next(start), Ok(WorkloadStep::Read(_))));
    let due = VirtualInstant(6_000_000_000);
    assert!(matches!(replay.next(start), Ok(WorkloadStep::Until(at)) if at == due));
    assert!(matches!(replay.next(due), Ok(WorkloadStep::Read(_))));
    assert!(matches!(replay.next(due), Ok(WorkloadStep::Done)));
}
