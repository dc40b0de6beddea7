//! The page: each section's template with its record's figures in it.

use super::error::ResultsError;
use super::experiment::Experiment;
use super::experiments::EXPERIMENTS;
use super::record::Record;

const HEAD: &str = include_str!("sections/head.template");

/// Renders the page of these records, one for each experiment.
///
/// # Errors
///
/// A record lacks a figure, or a template names one that its section does not give.
pub(super) fn render(records: &[Record]) -> Result<String, ResultsError> {
    let mut page = HEAD.to_owned();
    for (experiment, record) in EXPERIMENTS.iter().zip(records) {
        page.push('\n');
        page.push_str(&section(experiment, record)?);
    }
    Ok(page)
}

/// Renders a section.
fn section(experiment: &Experiment, record: &Record) -> Result<String, ResultsError> {
    let mut words = (experiment.words)(record)?;
    words.push(("commands", commands(record)));
    words.push(("recorded", recorded(record)));
    filled(experiment.template, &words)
}

/// The template with each word in double braces replaced.
fn filled(template: &str, words: &[(&str, String)]) -> Result<String, ResultsError> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (word, after) = after.split_once("}}").unwrap_or((after, ""));
        let found = words.iter().find(|(name, _)| *name == word);
        let (_, value) = found.ok_or_else(|| ResultsError::Lacks(format!("the word {word:?}")))?;
        text.push_str(before);
        text.push_str(value);
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

/// The commands in a block, each with the time that it took.
fn commands(record: &Record) -> String {
    let lines = record
        .commands
        .iter()
        .map(|ran| format!("$ {}\n", ran.line));
    format!("```console\n{}```", lines.collect::<String>())
}

/// When it was recorded, or copied, and how long it took.
fn recorded(record: &Record) -> String {
    let secs: f64 = record.commands.iter().map(|ran| ran.secs).sum();
    let day = &record.recorded;
    match &record.recorded_from {
        Some(from) => format!("Copied on {day} from {from}."),
        None => {
            let processors = record.processors;
            format!(
                "Recorded on {day}. The commands took {secs:.0} s on {processors} processors that had other work, too."
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_filled_in_and_a_strange_one_is_an_error() {
        let words = [("a", "1".to_owned()), ("b", "2".to_owned())];
        let text = filled("{{a}} and {{b}}, {{a}}", &words);
        assert_eq!(text.expect("filled"), "1 and 2, 1");
        let strange = filled("{{c}}", &words).expect_err("no such word");
        assert!(strange.to_string().contains("the word \"c\""));
    }
}
