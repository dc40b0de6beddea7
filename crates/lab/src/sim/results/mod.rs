//! `sublet-lab sim results`: runs the experiments of docs/simulator/results.md, keeps what they came to, and renders the page.
//!
//! ```text
//! commands --JSON--> condense --> results/NAME.json --> words, pictures --> results.md, results/NAME.svg
//! ```
//!
//! The page and its pictures come from the kept records alone, so that anybody can render them anew without a run.
//! To add an experiment, copy the smallest section and give it a row in [`EXPERIMENTS`].

mod command;
mod error;
mod experiment;
mod experiments;
mod layout;
mod markdown;
mod page;
mod played;
mod record;
mod recording;
mod sections;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;

use crate::exit::Exit;
use error::ResultsError;
use experiment::{Experiment, Reads};
use experiments::EXPERIMENTS;
use record::Record;
pub(super) use recording::peak_of;
use recording::print_progress;

/// The folder of records and pictures, beside the page.
const FOLDER: &str = "results";
const PAGE: &str = "results.md";

/// What to record and where.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder of the public traces; without it, experiments that read them stay as they were recorded
    #[arg(long, value_name = "FOLDER", conflicts_with = "render")]
    traces: Option<PathBuf>,
    /// The folder of the page
    #[arg(long, default_value = "docs/simulator", value_name = "FOLDER")]
    dir: PathBuf,
    /// Run only these experiments, with commas between
    #[arg(long, value_delimiter = ',', value_name = "NAMES", conflicts_with = "render",
          value_parser = PossibleValuesParser::new(EXPERIMENTS.map(|experiment| experiment.name)))]
    only: Vec<String>,
    /// Run nothing; render the page from what was recorded
    #[arg(long)]
    render: bool,
}

/// Records what is asked for, and renders the page.
pub(super) fn run(args: &Args) -> Exit {
    match record_and_render(args) {
        Ok(files) => Exit::written(print_summary(args, files)),
        Err(error) => error.exit(),
    }
}

fn print_summary(args: &Args, files: usize) -> io::Result<()> {
    let page = args.dir.join(PAGE);
    writeln!(
        io::stdout(),
        "rendered {} and {} pictures",
        page.display(),
        files - 1
    )
}

/// Returns how many files it rendered.
fn record_and_render(args: &Args) -> Result<usize, ResultsError> {
    if !args.dir.is_dir() {
        return Err(ResultsError::NoFolder(args.dir.display().to_string()));
    }
    if !args.render {
        record_all(args)?;
    }
    let files = render(&args.dir)?;
    for file in &files {
        write(&args.dir.join(&file.path), &file.text)?;
    }
    Ok(files.len())
}

/// Records each experiment that is asked for and can be run.
fn record_all(args: &Args) -> Result<(), ResultsError> {
    let no_folder = |folder: &Path| ResultsError::NoFolder(folder.display().to_string());
    let traces = args.traces.as_deref();
    let traces = traces.map(|folder| folder.canonicalize().map_err(|_| no_folder(folder)));
    let traces = traces.transpose()?;
    let is_asked = |experiment: &&Experiment| {
        args.only.is_empty() || args.only.iter().any(|name| name == experiment.name)
    };
    for experiment in EXPERIMENTS.iter().filter(is_asked) {
        let name = experiment.name;
        let folder = match (experiment.reads, &traces) {
            (Reads::Traces, None) => {
                print_progress(&format!(
                    "{name} reads public traces and stays as it was recorded; run it with --traces FOLDER"
                ));
                continue;
            }
            (Reads::Traces, Some(traces)) => traces.as_path(),
            (Reads::Scenarios, _) => Path::new("."),
        };
        let record = recording::record(experiment, folder)?;
        write(&record_file(&args.dir, experiment), &record.text()?)?;
    }
    Ok(())
}

fn record_file(dir: &Path, experiment: &Experiment) -> PathBuf {
    dir.join(FOLDER).join(format!("{}.json", experiment.name))
}

/// Writes a file, and the folder that it lies in.
fn write(file: &Path, text: &str) -> Result<(), ResultsError> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(file, text));
    written.map_err(|cause| ResultsError::Unwritable {
        file: file.display().to_string(),
        cause,
    })
}

/// A file that is rendered.
struct Rendered {
    /// Beside the page.
    path: PathBuf,
    text: String,
}

/// Renders the page and its pictures from the records in `dir`; the page is the first.
fn render(dir: &Path) -> Result<Vec<Rendered>, ResultsError> {
    let read = |experiment: &Experiment| Record::read(&record_file(dir, experiment));
    let records: Result<Vec<Record>, _> = EXPERIMENTS.iter().map(read).collect();
    let records = records?;
    let mut files = vec![Rendered {
        path: PAGE.into(),
        text: page::render(&records)?,
    }];
    for (experiment, record) in EXPERIMENTS.iter().zip(&records) {
        for picture in (experiment.pictures)(record)? {
            let file = format!("{}.svg", picture.name);
            files.push(Rendered {
                path: Path::new(FOLDER).join(file),
                text: picture.plot.draw()?,
            });
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator")
    }

    #[test]
    fn the_page_and_its_pictures_are_those_of_the_records() {
        let dir = documents();
        for file in render(&dir).expect("the records are there") {
            let kept = fs::read_to_string(dir.join(&file.path)).expect("a rendered file");
            let name = file.path.display();
            assert!(
                kept == file.text,
                "{name}: render it anew: sublet-lab sim results --render"
            );
        }
    }

    #[test]
    fn nothing_lies_beside_the_records_but_pictures_of_theirs() {
        let dir = documents();
        let rendered = render(&dir).expect("the records are there");
        let pictures = rendered.into_iter().map(|file| dir.join(file.path));
        let records = EXPERIMENTS
            .iter()
            .map(|experiment| record_file(&dir, experiment));
        let known: Vec<PathBuf> = pictures.chain(records).collect();
        for entry in fs::read_dir(dir.join(FOLDER)).expect("a folder") {
            let file = entry.expect("an entry").path();
            assert!(known.contains(&file), "{}: what is it of?", file.display());
        }
    }

    #[test]
    fn every_command_is_one_that_this_program_knows() {
        for experiment in &EXPERIMENTS {
            for command in experiment.commands {
                let words = command.resolved(Path::new("/s"), Path::new("/t"));
                let words = words.iter().map(String::as_str);
                let line: Vec<&str> = ["sublet-lab"].into_iter().chain(words).collect();
                let read = <crate::Cli as clap::Parser>::try_parse_from(&line);
                assert!(read.is_ok(), "{line:?}");
                let edited = command.scenario;
                assert!(edited.is_none_or(|edited| edited.text(Path::new("/t")).is_some()));
            }
        }
    }
}
