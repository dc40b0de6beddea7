//! The project's own tasks: `cargo xtask ci|tidy|fmt|soak`.

mod checkout;
mod ci;
mod command;
mod fuzz;
mod machine;
mod soak;
mod step;
mod summary;
mod tidy;
mod usage;

use std::process::ExitCode;

use checkout::root;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.split_first() {
        Some((&"ci", rest)) => ci::run(rest),
        Some((&"tidy", [])) => tidy::run(&root()),
        Some((&"tidy", ["--circles"])) => tidy::show_circles(&root()),
        Some((&"fmt", [])) => command::CommandLine::new("cargo")
            .args(["fmt", "--all"])
            .status(),
        Some((&"soak", rest)) => soak::run(rest),
        Some((&"fuzz", ["all", seconds])) => fuzz::run_all(seconds),
        Some((&"fuzz", [target, seconds])) => fuzz::run(target, seconds),
        Some((&("-h" | "--help"), _)) => {
            print!("{}", usage::TEXT);
            ExitCode::SUCCESS
        }
        _ => usage::wrong(),
    }
}
