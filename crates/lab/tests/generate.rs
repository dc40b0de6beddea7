//! The files that are shipped beside `sublet-lab`.

use std::process::Command;

fn generated(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sublet-lab"))
        .arg("generate")
        .args(arguments)
        .output()
        .expect("sublet-lab runs");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn man_page_and_completions_know_every_bench_and_simulation() {
    let page = generated(&["man"]);
    for shell in ["bash", "zsh", "fish"] {
        let completions = generated(&["completions", shell]);
        for command in ["bench", "store", "pressure", "sim", "compare", "sharing"] {
            assert!(completions.contains(command), "{shell}: {command}");
            assert!(page.contains(command), "man: {command}");
        }
    }
    assert!(page.contains("\\-\\-sublet") && page.contains(".TH sublet-lab 1"));
}
