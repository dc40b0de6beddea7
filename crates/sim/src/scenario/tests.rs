use super::*;

const SMALL: &str = r#"
name = "small"
[host]
memory = "64MiB"
[[vm]]
name = "a"
memory = "16MiB"
[vm.workload.zipf]
size = "64MiB"
"#;

fn error_text(text: &str) -> String {
    let error = Scenario::parse("s.toml", text).expect_err("it is wrong");
    error.to_string()
}

#[test]
fn shipped_scenarios_are_all_right_and_have_their_names() {
    for shipped in SHIPPED {
        let scenario = shipped.scenario().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(scenario.name, shipped.name);
        assert!(!scenario.about.is_empty());
    }
    assert!(BuiltInScenario::find("smartmem-1").is_some());
    assert!(BuiltInScenario::find("nonesuch").is_none());
}

#[test]
fn what_is_not_said_has_a_default() {
    let scenario = Scenario::parse("s.toml", SMALL).expect("it is right");
    assert_eq!(scenario.policy.name, "greedy");
    assert_eq!(scenario.tier.shrink, ShrinkMode::Active);
    let machines = scenario.machines();
    assert_eq!(machines[0].shape.memory_pages, 4096);
    assert_eq!(machines[0].shape.read_ahead, 8);
}

#[test]
fn several_alike_are_numbered() {
    let text = SMALL.replace("name = \"a\"", "name = \"a\"\ncount = 3");
    let scenario = Scenario::parse("s.toml", &text).expect("it is right");
    let names: Vec<String> = scenario.machines().into_iter().map(|vm| vm.name).collect();
    assert_eq!(names, ["a-1", "a-2", "a-3"]);
}

#[test]
fn a_wrong_key_is_named_with_its_line_and_the_nearest_right_one() {
    let text = SMALL.replace("memory = \"16MiB\"", "memroy = \"16MiB\"");
    let error = error_text(&text);
    assert!(
        error.starts_with("s.toml, line 7: no key is called `memroy`"),
        "{error}"
    );
    assert!(error.ends_with("did you mean `memory`?"), "{error}");
    let error = error_text(&SMALL.replace("size =", "sise ="));
    assert!(
        error.starts_with("s.toml, line 9: no key is called `sise`"),
        "{error}"
    );
    assert!(error.ends_with("did you mean `size`?"), "{error}");
    let error = error_text(&SMALL.replace("workload.zipf", "workload.zipff"));
    assert!(
        error.starts_with("s.toml, line 8: `zipff` is none of"),
        "{error}"
    );
    assert!(error.ends_with("did you mean `zipf`?"), "{error}");
}

#[test]
fn a_wrong_value_is_named_with_its_line() {
    let error = error_text(&SMALL.replace("\"64MiB\"\n[[", "\"64 furlongs\"\n[["));
    assert!(error.starts_with("s.toml, line 4: "), "{error}");
    assert!(error.contains("furlongs"), "{error}");
}

#[test]
fn values_out_of_bounds_are_named_with_their_line() {
    for (wrong, expected) in [
        ("exponent = -1.0", "must be 0 to 10, not -1"),
        ("exponent = nan", "must be 0 to 10, not NaN"),
        ("write_share = 1.5", "must be 0 to 1, not 1.5"),
        ("record = \"0\"", "must be more than nothing"),
        ("operations = 0", "must be more than nothing"),
    ] {
        let error = error_text(&format!("{SMALL}{wrong}\n"));
        let line = SMALL.lines().count() + 1;
        assert!(
            error.starts_with(&format!("s.toml, line {line}: ")),
            "{error}"
        );
        assert!(error.contains(expected), "{error}");
    }
    for (from, to, line, expected) in [
        (
            "[host]",
            "[host]\nprocessors = 0",
            4,
            "must be more than nothing",
        ),
        (
            "memory = \"16MiB\"",
            "memory = \"16MiB\"\nswap_ahead = \"adaptiv\"",
            8,
            "did you mean `adaptive`?",
        ),
        ("size =", "arrivals = \"145\"\nsize =", 9, "as in 145/s"),
        (
            "size =",
            "arrival = \"145/s\"\nsize =",
            9,
            "did you mean `arrivals`?",
        ),
        (
            "[host]",
            "[host]\nprocesors = 2",
            4,
            "did you mean `processors`?",
        ),
    ] {
        let error = error_text(&SMALL.replace(from, to));
        let place = format!("s.toml, line {line}: ");
        assert!(
            error.starts_with(&place) && error.contains(expected),
            "{error}"
        );
    }
    let slow = SMALL.replace("[[vm]]", "[disk]\nbandwidth = \"0\"\n[[vm]]");
    assert!(error_text(&slow).starts_with("s.toml, line 6: "));
}

#[test]
fn what_makes_no_sense_is_told_with_a_remedy() {
    for (from, to, line, expected) in [
        ("16MiB", "1KiB", 6, "needs at least"),
        ("name = \"a\"", "name = \"-\"", 6, "no name for a tenant"),
        (
            "[host]",
            "warm_up = \"1d\"\n[host]",
            3,
            "ends before it has warmed up",
        ),
        ("[host]", "[policy]\nname = \"gready\"\n[host]", 4, "greedy"),
        (
            "memory = \"16MiB\"",
            "memory = \"16MiB\"\nread_ahead = 7",
            6,
            "1, 2, 4, 8",
        ),
        (
            "memory = \"16MiB\"",
            "memory = \"16MiB\"\nstart = { vms = [\"A\"], begin = \"x\" }",
            6,
            "no virtual machine \"A\"",
        ),
        (
            "memory = \"16MiB\"",
            "memory = \"16MiB\"\nstart = { vms = [\"a\"], begin = \"x\" }",
            6,
            "\"a\" never begins \"x\"; it begins nothing that has a name",
        ),
        (
            "memory = \"16MiB\"",
            "memory = \"16MiB\"\nstart = { vms = [], begin = \"x\" }",
            6,
            "never reached",
        ),
        (
            "[vm.workload.zipf]\nsize = \"64MiB\"",
            "start = { vms = [\"a\"], begin = \"x\" }\n[vm.workload.usemem]",
            6,
            "it begins \"128 MiB\", \"256 MiB\", \"384 MiB\"",
        ),
        (
            "[vm.workload.zipf]\nsize = \"64MiB\"",
            "start = { vms = [\"a\"], begin = \"run 1\" }\n[vm.workload.graph-analytics]",
            6,
            "waits for one that waits for it",
        ),
        (
            "[vm.workload.zipf]\nsize = \"64MiB\"",
            "[vm.workload.file-server]\nwrite_share = 0.7\ndelete_share = 0.4",
            6,
            "1 at the most",
        ),
        (
            "size = \"64MiB\"",
            "arrivals = \"5/s\"\nthink = \"1ms\"",
            6,
            "leave out think or arrivals",
        ),
        (
            "[vm.workload.zipf]\nsize = \"64MiB\"",
            "[[vm.workload.phases]]\nworkload = { zipf = { arrivals = \"5/s\", think = \"1ms\" } }",
            6,
            "leave out think or arrivals",
        ),
        (
            "[vm.workload.zipf]\nsize = \"64MiB\"",
            "[vm.workload.trace]\nfile = \"a.png\"",
            6,
            "trace format",
        ),
    ] {
        let error = error_text(&SMALL.replace(from, to));
        let place = format!("s.toml, line {line}: ");
        assert!(
            error.starts_with(&place) && error.contains(expected),
            "{error}"
        );
    }
}
