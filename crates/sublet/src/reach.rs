//! How the daemon is reached: the options that every command which asks it has.

use std::path::PathBuf;

use sublet_client::{Admin, CallError, Door};

use crate::exit::Exit;

/// Where the daemon is.
#[derive(clap::Args)]
pub(crate) struct Reach {
    /// The daemon's admin socket, or tcp:HOST:PORT [default: /run/sublet/admin.sock for root, else
    /// $XDG_RUNTIME_DIR/sublet/admin.sock or ~/.sublet/admin.sock]
    #[arg(long, env = "SUBLET_ADMIN", value_name = "PLACE")]
    admin: Option<String>,
    /// Over TCP: who signed the daemon's certificate, PEM
    #[arg(long, value_name = "FILE")]
    admin_ca: Option<PathBuf>,
    /// Over TCP: file whose first line is the token
    #[arg(long, value_name = "FILE")]
    admin_token: Option<PathBuf>,
}

impl Reach {
    /// A handle on the daemon.
    pub(crate) fn admin(&self) -> Result<Admin, Exit> {
        let door = Door::meant(
            self.admin.as_deref(),
            self.admin_ca.clone(),
            self.admin_token.clone(),
        );
        Admin::at(door.map_err(Exit::usage)?).map_err(Exit::failed)
    }

    /// Whether paths mean the same to the daemon: it is on this host.
    pub(crate) fn is_here(&self) -> bool {
        let admin = self.admin.as_deref();
        !admin.is_some_and(|place| place.starts_with("tcp:"))
    }

    /// Asks the daemon one thing.
    pub(crate) fn ask<A>(
        &self,
        question: impl FnOnce(&Admin) -> Result<A, CallError>,
    ) -> Result<A, Exit> {
        question(&self.admin()?).map_err(|error| Exit::uncalled(&error))
    }
}
