//! `sublet memcached`: a drop-in replacement of memcached that takes memcached's own command line.

mod detach;
mod exit_statuses;
mod flags;
mod main_event;
mod parse;
mod parsed_options;
mod process;
mod process_controls;
mod suboptions;
mod usage;
mod values;

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use sublet_frontends::memcached::instance::Instance;
use sublet_frontends::memcached::passwords::{Passwords, PasswordsError, UserNameForm};
use sublet_frontends::memcached::serve::{
    self, Group, ListenError, MemcachedService, StartError, StopMode, TlsCertificates, TlsError,
};
use sublet_host::chores::{Chores, ChoresError};
use sublet_host::standalone::{StandaloneError, StandaloneStore, StandaloneStoreSettings};
use sublet_types::Bytes;

use self::detach::BackgroundOutput;
use self::exit_statuses::{EX_OSERR, EX_USAGE, FAILURE};
use self::main_event::MainEvent;
use self::parsed_options::{Invocation, NoteLevel, ServePlan};
use self::process::{PidFile, ProcessError};
use self::process_controls::StandaloneControls;
use crate::exit::print_error;

/// Why the command does not serve.
#[derive(Debug, thiserror::Error)]
enum MemcachedError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("-Y {path}: {source}")]
    AuthFile {
        path: PathBuf,
        source: PasswordsError,
    },
    #[error("-S: MEMCACHED_SASL_PWDB names no usable file of user:password lines: {0}")]
    Sasl(PasswordsError),
    #[error("-S: no user could log in; name a file of user:password lines in MEMCACHED_SASL_PWDB")]
    NoSaslFile,
    #[error("-m: {0}")]
    Memory(#[from] StandaloneError),
    #[error("cannot write the ports to {path}: {source}")]
    Ports { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Chores(#[from] ChoresError),
    #[error("cannot run in the background: {0}")]
    Detach(io::Error),
    #[error("cannot handle signals: {0}")]
    Signals(io::Error),
}

impl MemcachedError {
    fn exit(&self) -> u8 {
        match self {
            MemcachedError::Process(error) => error.exit(),
            MemcachedError::Tls(_) | MemcachedError::NoSaslFile => EX_USAGE,
            MemcachedError::AuthFile { .. } | MemcachedError::Sasl(_) => FAILURE,
            _ => EX_OSERR,
        }
    }
}

/// memcached's own command line, passed on unchanged.
#[derive(clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Args {
    /// Pass memcached's options; -h lists them
    #[arg(
        value_name = "OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    options: Vec<OsString>,
}

/// Serves with memcached's options until a signal ends it.
pub(crate) fn run(args: Args) -> ExitCode {
    let arguments = args.options;
    let plan = match parse::read(arguments.iter().cloned()) {
        Ok(Invocation::Show(shown)) => {
            print!("{}", usage::text(shown));
            return ExitCode::SUCCESS;
        }
        Ok(Invocation::Serve(plan)) => plan,
        Err(usage) => return fail(&usage, usage.exit()),
    };
    if plan.daemon && !detach::is_detached() {
        return match detach::detach(&arguments).map_err(MemcachedError::Detach) {
            Ok(exit) => ExitCode::from(exit),
            Err(failure) => fail(&failure, failure.exit()),
        };
    }
    match serve(&plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure, failure.exit()),
    }
}

fn fail(why: &dyn std::fmt::Display, exit: u8) -> ExitCode {
    print_error(format_args!("sublet memcached: {why}"));
    ExitCode::from(exit)
}

fn serve(plan: &ServePlan) -> Result<(), MemcachedError> {
    print_notes(plan);
    prepare_process(plan)?;
    let (events, received) = mpsc::channel();
    forward_signals(events.clone()).map_err(MemcachedError::Signals)?;
    let instance = RunningMemcached::open(plan, events)?;
    let pid_file = plan.pid_file.as_deref().map(PidFile::write).transpose()?;
    if plan.daemon {
        let says = match plan.settings.verbosity {
            0 => BackgroundOutput::Nothing,
            _ => BackgroundOutput::OnStderr,
        };
        detach::report_ready(says).map_err(MemcachedError::Detach)?;
    }
    instance.run_until_stopped(&received, plan);
    drop(pid_file);
    Ok(())
}

fn print_notes(plan: &ServePlan) {
    let asked = plan.settings.verbosity > 0;
    for note in &plan.notes {
        if note.said == NoteLevel::Verbosely && !asked {
            continue;
        }
        print_error(format_args!(
            "{}: without effect: {}",
            note.option, note.why
        ));
    }
}

/// Does everything that must happen before there are threads, or that is impossible without privileges.
fn prepare_process(plan: &ServePlan) -> Result<(), MemcachedError> {
    if detach::is_detached() {
        detach::leave_terminal().map_err(MemcachedError::Detach)?;
    }
    if plan.core_dumps {
        process::raise_core_limit()?;
    }
    process::raise_descriptors(plan.settings.connections_max)?;
    if let Some(user) = &plan.user {
        process::become_user(user)?;
    }
    if plan.daemon && !plan.core_dumps {
        let _ = env::set_current_dir("/");
    }
    if plan.lock_memory {
        process::lock_memory();
    }
    Ok(())
}

fn forward_signals(events: Sender<MainEvent>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1, SIGHUP])?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if events.send(MainEvent::Signal(signal)).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}

/// A running instance.
struct RunningMemcached {
    lone: StandaloneStore,
    instance: Arc<Instance>,
    chores: Chores,
    running: MemcachedService,
}

impl RunningMemcached {
    fn open(
        plan: &ServePlan,
        events: Sender<MainEvent>,
    ) -> Result<RunningMemcached, MemcachedError> {
        let tls = plan
            .settings
            .tls
            .clone()
            .map(TlsCertificates::load)
            .transpose()?;
        let tls = tls.map(Arc::new);
        let passwords = passwords(plan)?;
        let lone = StandaloneStore::open(StandaloneStoreSettings {
            limit: plan.memory,
            item_max: Bytes(plan.settings.item_max),
            evicts: plan.settings.evictions,
        })?;
        let surroundings = StandaloneControls {
            lone: lone.clone(),
            tls: tls.clone(),
            events: events.clone(),
        };
        let instance = Instance::new(plan.settings.clone(), Box::new(surroundings), passwords);
        let (instance, tenant) = (Arc::new(instance), lone.tenant());
        let listeners = serve::bind(&plan.endpoints, plan.settings.backlog)?;
        write_ports(&listeners)?;
        let chores = Chores::start(lone.backend(), vec![(Arc::clone(&instance), tenant)])?;
        let group = Group {
            instance: Arc::clone(&instance),
            tenant,
            tls,
        };
        let asked = Arc::new(move |stop| {
            let _ = events.send(MainEvent::StopRequested(stop));
        });
        let threads = plan.settings.threads;
        let running = serve::start(vec![(group, listeners)], threads, lone.backend(), asked)?;
        Ok(RunningMemcached {
            lone,
            instance,
            chores,
            running,
        })
    }

    /// Serves until the end, and logs the reason of the end.
    fn run_until_stopped(self, events: &Receiver<MainEvent>, plan: &ServePlan) {
        let stop = self.wait(events, plan);
        match stop {
            StopMode::Graceful => print_error(format_args!("Gracefully stopping")),
            StopMode::Now if plan.settings.verbosity > 0 => {
                print_error(format_args!("Exiting normally"))
            }
            StopMode::Now => {}
        }
        self.running.stop(stop);
        drop(self.chores);
    }

    fn wait(&self, events: &Receiver<MainEvent>, plan: &ServePlan) -> StopMode {
        loop {
            match events.recv() {
                Ok(MainEvent::Signal(SIGHUP)) => self.reread_passwords(plan),
                Ok(MainEvent::Signal(SIGUSR1)) => return StopMode::Graceful,
                Ok(MainEvent::Signal(_)) | Err(_) => return StopMode::Now,
                Ok(MainEvent::StopRequested(stop)) => return stop,
                Ok(MainEvent::Shrink) => self.lone.shrink(),
            }
        }
    }

    fn reread_passwords(&self, plan: &ServePlan) {
        match passwords(plan) {
            Ok(passwords) => self.instance.set_passwords(passwords),
            Err(failure) => print_error(format_args!(
                "sublet memcached: {failure}; the old users stay"
            )),
        }
    }
}

fn passwords(plan: &ServePlan) -> Result<Passwords, MemcachedError> {
    if let Some(path) = &plan.settings.auth_file {
        return Passwords::read(path).map_err(|source| MemcachedError::AuthFile {
            path: path.clone(),
            source,
        });
    }
    if plan.settings.sasl {
        let path = env::var_os("MEMCACHED_SASL_PWDB").ok_or(MemcachedError::NoSaslFile)?;
        let read = Passwords::read(Path::new(&path)).map_err(MemcachedError::Sasl)?;
        return Ok(read.with_names(UserNameForm::WithoutHost));
    }
    Ok(Passwords::default())
}

fn write_ports(listeners: &[serve::Listener]) -> Result<(), MemcachedError> {
    let Some(path) = env::var_os("MEMCACHED_PORT_FILENAME") else {
        return Ok(());
    };
    let path = PathBuf::from(path);
    serve::write_ports(&path, listeners).map_err(|source| MemcachedError::Ports { path, source })
}
