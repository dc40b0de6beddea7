//! The shapes of the paper's figures, at the smallest scale, and that the same seed gives the same figures.

use super::benchmarks::PumaBenchmark;
use super::plan::{CurveOfFigure5, FAR, INJECTED, Protection};
use super::*;

fn small() -> PumaScale {
    "64".parse().expect("a scale")
}

fn played(run: &BenchmarkRun) -> BenchmarkOutcome {
    let outcome = run.play(small(), 0).expect("memory for a test");
    assert_eq!(outcome.far.pages_wrong, 0, "{run:?}");
    outcome
}

fn speed_up(run: &BenchmarkRun) -> f64 {
    played(run).performance / played(&run.baseline()).performance
}

fn curve(strategy: CachingStrategy, filter: SequentialFilter) -> CurveOfFigure5 {
    CurveOfFigure5 { strategy, filter }
}

fn exclusive(benchmark: PumaBenchmark, gigabytes: u64) -> BenchmarkRun {
    let curve = curve(CachingStrategy::Exclusive, SequentialFilter::Off);
    curve.run(benchmark, SettingName::Paper, FarAmount(1024 * gigabytes))
}

fn non_inclusive(benchmark: PumaBenchmark, gigabytes: u64) -> BenchmarkRun {
    BenchmarkRun {
        strategy: CachingStrategy::NonInclusive,
        ..exclusive(benchmark, gigabytes)
    }
}

fn filtered(run: BenchmarkRun) -> BenchmarkRun {
    BenchmarkRun {
        filter: SequentialFilter::On,
        ..run
    }
}

/// Figures 4 and 5a.
#[test]
fn random_reads_gain_most_where_everything_fits_and_exclusive_is_ahead_until_then() {
    let random = PumaBenchmark::RandomReads;
    let [one, three, five] = [1, 3, 5].map(|gigabytes| played(&exclusive(random, gigabytes)));
    let fetched = |outcome: &BenchmarkOutcome| outcome.far.fetched as f64;
    let linear = fetched(&three) / fetched(&one);
    assert!((2.5..3.6).contains(&linear), "{linear}");
    assert!(five.performance > 3.0 * three.performance, "the threshold");
    let sent = three.far.sent as f64 / one.far.sent as f64;
    assert!(
        (0.97..1.03).contains(&sent),
        "exclusive sends as much: {sent}"
    );
    let [kept_one, kept_three, kept_five] =
        [1, 3, 5].map(|gigabytes| played(&non_inclusive(random, gigabytes)));
    assert!(kept_three.far.fetched < three.far.fetched);
    assert!(kept_three.performance < three.performance);
    assert!(kept_five.far.sent < kept_three.far.sent && kept_three.far.sent < kept_one.far.sent);
}

/// The baseline is the paper's, for the disk's latency was chosen so.
#[test]
fn random_reads_without_far_memory_come_to_166_in_a_second() {
    let rate = played(&exclusive(PumaBenchmark::RandomReads, 5).baseline()).performance;
    assert!((155.0..177.0).contains(&rate), "{rate}");
}

/// Figures 5b and 5c.
#[test]
fn the_filter_keeps_scans_from_the_lender() {
    let scan = PumaBenchmark::SequentialReads;
    for run in [exclusive(scan, 2), non_inclusive(scan, 2)] {
        assert!(speed_up(&run) < 0.97, "{run:?}");
        let run = filtered(run);
        assert!(speed_up(&run) >= 0.995, "{run:?}");
        assert!(played(&run).far.sent < 100);
    }
    let blast = PumaBenchmark::Blast;
    assert!(speed_up(&non_inclusive(blast, 1)) < 1.0);
    let gain = speed_up(&filtered(non_inclusive(blast, 1)));
    assert!((1.3..1.6).contains(&gain), "{gain}");
}

/// Figures 5d, 5e and 5f.
#[test]
fn applications_gain_a_little_by_little_and_much_by_much() {
    let half = |run| BenchmarkRun { far: FAR[0], ..run };
    for (benchmark, least, most) in [
        (PumaBenchmark::Postmark, 1.03, 2.0..4.5),
        (PumaBenchmark::TpcH, 1.05, 2.0..4.8),
        (PumaBenchmark::TpcC, 1.03, 2.6..6.0),
    ] {
        let little = speed_up(&half(non_inclusive(benchmark, 5)));
        let much = speed_up(&non_inclusive(benchmark, 5));
        assert!((least..1.6).contains(&little), "{benchmark:?}: {little}");
        assert!(most.contains(&much), "{benchmark:?}: {much}");
    }
    let limit = speed_up(&filtered(exclusive(PumaBenchmark::TpcH, 5)));
    assert!(limit < 0.8 * speed_up(&filtered(non_inclusive(PumaBenchmark::TpcH, 5))));
}

/// Figure 7: constants let a guest with a quick disk down. A comparison with the disk does not.
#[test]
fn only_a_guard_that_knows_the_disk_protects_every_guest() {
    let run = |protection: Protection, setting, injected: usize| {
        protection.run(PumaBenchmark::Postmark, setting, INJECTED[injected])
    };
    for injected in [1, 2] {
        let puma = speed_up(&run(Protection::PUMA, SettingName::Nvme, injected));
        assert!(puma < 0.5, "{injected}: {puma}");
        let ours = speed_up(&run(Protection::OURS, SettingName::Nvme, injected));
        assert!(ours >= 0.95, "{injected}: {ours}");
    }
    let slow_disk = |protection| speed_up(&run(protection, SettingName::Paper, 4));
    assert!(
        slow_disk(Protection::OURS) > 1.5,
        "2 ms spare a slow disk much"
    );
    let puma = slow_disk(Protection::PUMA);
    assert!(
        puma < 1.1,
        "PUMA's guard is shut, and its pings alone bring pages: {puma}"
    );
}

/// Table 1.
#[test]
fn a_lender_that_needs_its_memory_has_it_and_the_borrower_lives_on() {
    let PumaOutcome::Bursts(of) = PumaTask::Bursts(BurstCount::Three)
        .play(small(), 0)
        .expect("memory for a test")
    else {
        panic!("it plays bursts");
    };
    assert_eq!(of.pages_wrong, 0);
    assert!(of.blocks_taken > 20, "{of:?}");
    assert!(of.clone_secs <= 1.25 * of.baseline_secs, "{of:?}");
    assert!(of.idle_response < of.baseline_response / 2.0, "{of:?}");
    assert!(of.clone_response <= 1.1 * of.baseline_response, "{of:?}");
}

#[test]
fn a_seed_gives_the_same_figures() {
    let run = non_inclusive(PumaBenchmark::TpcC, 2);
    assert_eq!(played(&run), played(&run));
}

#[test]
fn a_plan_has_each_run_once_and_its_report_has_every_figure() {
    let plan = PumaPlan::full();
    let mut tasks = plan.tasks.clone();
    tasks.sort_unstable();
    tasks.dedup();
    assert_eq!(tasks.len(), plan.tasks.len());
    // Figures that tell the runs apart stand for outcomes.
    let outcomes: Vec<PumaOutcome> = (1u32..).zip(&plan.tasks).map(made_up).collect();
    let report = PumaReport::of(&plan, &outcomes, small(), 0);
    for table in report.tables() {
        let here = table.rows.iter().filter(|row| row.name[1] != "the paper");
        let mut values = here.flat_map(|row| &row.values);
        assert!(values.all(Option::is_some), "{}", table.title);
        assert!(report.text().contains(&table.title));
    }
    assert_eq!(report.acceptance().len(), 26);
    let drawn = plots(&report.tables());
    assert_eq!(drawn.len(), 3);
    for plot in drawn {
        assert!(plot.draw().expect("it draws").contains("<svg"));
    }
    assert_eq!(report.json()["tables"].as_array().map(Vec::len), Some(12));
}

fn made_up((number, task): (u32, &PumaTask)) -> PumaOutcome {
    let performance = f64::from(number);
    match task {
        PumaTask::Benchmark(_) => PumaOutcome::Benchmark(BenchmarkOutcome {
            transactions: 1,
            performance,
            ..BenchmarkOutcome::default()
        }),
        PumaTask::Bursts(_) => PumaOutcome::Bursts(BurstOutcome {
            baseline_secs: performance,
            baseline_response: performance,
            idle_response: 1.0,
            ..BurstOutcome::default()
        }),
    }
}
