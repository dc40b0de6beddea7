//! `sublet memcached`: the drop-in face. memcached's own command line, in memcached's place.

mod detach;
mod event;
mod flags;
mod process;
mod reading;
mod statuses;
mod suboptions;
mod surroundings;
mod usage;
mod values;
mod written;

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
use sublet_frontends::memcached::passwords::{Names, Passwords, PasswordsError};
use sublet_frontends::memcached::serve::{
    self, Group, ListenError, Running, StartError, Stop, Tls, TlsError,
};
use sublet_host::chores::{Chores, ChoresError};
use sublet_host::lone::{Lone, LoneError, LoneSettings};
use sublet_types::Bytes;

use self::detach::Says;
use self::event::Event;
use self::process::{PidFile, ProcessError};
use self::statuses::{EX_OSERR, EX_USAGE, FAILURE};
use self::surroundings::Surroundings;
use self::written::{Plan, Request, Said};
use crate::exit::say;

/// Why there is nothing served.
#[derive(Debug, thiserror::Error)]
enum Failure {
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
    #[error("-S: no user could come in; name a file of user:password lines in MEMCACHED_SASL_PWDB")]
    NoSaslFile,
    #[error("-m: {0}")]
    Memory(#[from] LoneError),
    #[error("cannot write the ports to {path}: {source}")]
    Ports { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Chores(#[from] ChoresError),
    #[error("cannot run in the background: {0}")]
    Detach(io::Error),
    #[error("cannot hear signals: {0}")]
    Signals(io::Error),
}

impl Failure {
    fn exit(&self) -> u8 {
        match self {
            Failure::Process(error) => error.exit(),
            Failure::Tls(_) | Failure::NoSaslFile => EX_USAGE,
            Failure::AuthFile { .. } | Failure::Sasl(_) => FAILURE,
            _ => EX_OSERR,
        }
    }
}

/// memcached's own command line, taken as it is.
#[derive(clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Args {
    /// memcached's options; -h lists them
    #[arg(
        value_name = "OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    options: Vec<OsString>,
}

/// Runs with memcached's options until a signal ends it.
pub(crate) fn run(args: Args) -> ExitCode {
    let arguments = args.options;
    let plan = match reading::read(arguments.iter().cloned()) {
        Ok(Request::Show(shown)) => {
            print!("{}", usage::text(shown));
            return ExitCode::SUCCESS;
        }
        Ok(Request::Serve(plan)) => plan,
        Err(usage) => return ended(&usage, usage.exit()),
    };
    if plan.daemon && !detach::is_detached() {
        return match detach::detach(&arguments).map_err(Failure::Detach) {
            Ok(exit) => ExitCode::from(exit),
            Err(failure) => ended(&failure, failure.exit()),
        };
    }
    match serve(&plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ended(&failure, failure.exit()),
    }
}

fn ended(why: &dyn std::fmt::Display, exit: u8) -> ExitCode {
    say(format_args!("sublet memcached: {why}"));
    ExitCode::from(exit)
}

fn serve(plan: &Plan) -> Result<(), Failure> {
    say_notes(plan);
    prepare_process(plan)?;
    let (events, heard) = mpsc::channel();
    hear_signals(events.clone()).map_err(Failure::Signals)?;
    let shop = Shop::open(plan, events)?;
    let pid_file = plan.pid_file.as_deref().map(PidFile::write).transpose()?;
    if plan.daemon {
        let says = match plan.settings.verbosity {
            0 => Says::Nothing,
            _ => Says::OnStderr,
        };
        detach::tell_ready(says).map_err(Failure::Detach)?;
    }
    shop.keep(&heard, plan);
    drop(pid_file);
    Ok(())
}

fn say_notes(plan: &Plan) {
    let asked = plan.settings.verbosity > 0;
    for note in &plan.notes {
        if note.said == Said::Verbosely && !asked {
            continue;
        }
        say(format_args!(
            "{}: without effect: {}",
            note.option, note.why
        ));
    }
}

/// Everything that needs doing before there are threads or after which there are no privileges.
fn prepare_process(plan: &Plan) -> Result<(), Failure> {
    if detach::is_detached() {
        detach::leave_terminal().map_err(Failure::Detach)?;
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

fn hear_signals(events: Sender<Event>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1, SIGHUP])?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if events.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}

/// All that serves.
struct Shop {
    lone: Lone,
    instance: Arc<Instance>,
    chores: Chores,
    running: Running,
}

impl Shop {
    fn open(plan: &Plan, events: Sender<Event>) -> Result<Shop, Failure> {
        let tls = plan.settings.tls.clone().map(Tls::load).transpose()?;
        let tls = tls.map(Arc::new);
        let passwords = passwords(plan)?;
        let lone = Lone::open(LoneSettings {
            limit: plan.memory,
            item_max: Bytes(plan.settings.item_max),
            evicts: plan.settings.evictions,
        })?;
        let surroundings = Surroundings {
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
            let _ = events.send(Event::Asked(stop));
        });
        let threads = plan.settings.threads;
        let running = serve::start(vec![(group, listeners)], threads, lone.backend(), asked)?;
        Ok(Shop {
            lone,
            instance,
            chores,
            running,
        })
    }

    /// Serves until the end, and says how it came.
    fn keep(self, heard: &Receiver<Event>, plan: &Plan) {
        let stop = self.wait(heard, plan);
        match stop {
            Stop::Graceful => say(format_args!("Gracefully stopping")),
            Stop::Now if plan.settings.verbosity > 0 => say(format_args!("Exiting normally")),
            Stop::Now => {}
        }
        self.running.stop(stop);
        drop(self.chores);
    }

    fn wait(&self, heard: &Receiver<Event>, plan: &Plan) -> Stop {
        loop {
            match heard.recv() {
                Ok(Event::Signal(SIGHUP)) => self.reread_passwords(plan),
                Ok(Event::Signal(SIGUSR1)) => return Stop::Graceful,
                Ok(Event::Signal(_)) | Err(_) => return Stop::Now,
                Ok(Event::Asked(stop)) => return stop,
                Ok(Event::Shrink) => self.lone.shrink(),
            }
        }
    }

    fn reread_passwords(&self, plan: &Plan) {
        match passwords(plan) {
            Ok(passwords) => self.instance.set_passwords(passwords),
            Err(failure) => say(format_args!(
                "sublet memcached: {failure}; the old users stay"
            )),
        }
    }
}

fn passwords(plan: &Plan) -> Result<Passwords, Failure> {
    if let Some(path) = &plan.settings.auth_file {
        return Passwords::read(path).map_err(|source| Failure::AuthFile {
            path: path.clone(),
            source,
        });
    }
    if plan.settings.sasl {
        let path = env::var_os("MEMCACHED_SASL_PWDB").ok_or(Failure::NoSaslFile)?;
        let read = Passwords::read(Path::new(&path)).map_err(Failure::Sasl)?;
        return Ok(read.with_names(Names::WithoutHost));
    }
    Ok(Passwords::default())
}

fn write_ports(listeners: &[serve::Listener]) -> Result<(), Failure> {
    let Some(path) = env::var_os("MEMCACHED_PORT_FILENAME") else {
        return Ok(());
    };
    let path = PathBuf::from(path);
    serve::write_ports(&path, listeners).map_err(|source| Failure::Ports { path, source })
}
