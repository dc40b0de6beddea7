//! How to show what changes: as text or as JSON, once or again and again.

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use sublet_client::{Admin, AdminError};

use crate::admin_options::AdminOptions;
use crate::exit::Exit;
use crate::formatting::json;

/// How to show an answer that changes.
#[derive(clap::Args)]
pub(crate) struct WatchOptions {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    /// Show it again every SECONDS
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    watch: Option<u32>,
    #[command(flatten)]
    daemon: AdminOptions,
}

/// What was answered at the look before this one.
pub(crate) struct EarlierAnswer<'a, A> {
    /// How long ago it came.
    pub(crate) ago: Duration,
    /// It.
    pub(crate) answer: &'a A,
}

impl WatchOptions {
    /// Asks and shows the answer, once or again and again. `page` makes the text for people.
    pub(crate) fn show<A: Serialize>(
        &self,
        question: impl Fn(&Admin) -> Result<A, AdminError>,
        page: impl Fn(&A) -> String,
    ) -> Exit {
        self.show_since(question, |answer, _| page(answer))
    }

    /// Asks and shows the answer, once or again and again. `page` makes the text for people, and may compare.
    pub(crate) fn show_since<A: Serialize>(
        &self,
        question: impl Fn(&Admin) -> Result<A, AdminError>,
        page: impl Fn(&A, Option<&EarlierAnswer<'_, A>>) -> String,
    ) -> Exit {
        let admin = match self.daemon.admin() {
            Ok(admin) => admin,
            Err(exit) => return exit,
        };
        let home = match self.watch {
            Some(_) if !self.json && io::stdout().is_terminal() => "\x1b[H\x1b[J",
            _ => "",
        };
        let mut before: Option<(Instant, A)> = None;
        loop {
            let answer = match question(&admin) {
                Ok(answer) => answer,
                Err(error) => return Exit::call_failed(&error),
            };
            let now = Instant::now();
            let earlier = before.as_ref().map(|(at, answer)| EarlierAnswer {
                ago: now - *at,
                answer,
            });
            let text = match self.json {
                true => json(&answer),
                false => page(&answer, earlier.as_ref()),
            };
            let written = io::stdout().write_all(format!("{home}{text}").as_bytes());
            match (written, self.watch) {
                (Ok(()), Some(secs)) => thread::sleep(Duration::from_secs(secs.into())),
                (written, _) => return Exit::written(written),
            }
            before = Some((now, answer));
        }
    }
}
