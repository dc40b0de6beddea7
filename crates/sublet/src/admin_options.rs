//! How commands reach the daemon: options of every command that asks it something.

use std::path::PathBuf;

use sublet_client::{Admin, AdminEndpoint, AdminError};

use crate::exit::Exit;

/// The address of the daemon.
#[derive(clap::Args)]
pub(crate) struct AdminOptions {
    /// Ask the daemon at this admin socket, or tcp:HOST:PORT [default: /run/sublet/admin.sock for root, else
    /// $XDG_RUNTIME_DIR/sublet/admin.sock or ~/.sublet/admin.sock]
    #[arg(long, env = "SUBLET_ADMIN", value_name = "PLACE")]
    admin: Option<String>,
    /// Over TCP, trust this authority for the daemon's certificate (PEM)
    #[arg(long, value_name = "FILE")]
    admin_ca: Option<PathBuf>,
    /// Over TCP, read the token from the first line of this file
    #[arg(long, value_name = "FILE")]
    admin_token: Option<PathBuf>,
}

impl AdminOptions {
    /// A handle on the daemon.
    pub(crate) fn admin(&self) -> Result<Admin, Exit> {
        let door = AdminEndpoint::parse(
            self.admin.as_deref(),
            self.admin_ca.clone(),
            self.admin_token.clone(),
        );
        Admin::at(door.map_err(Exit::usage)?).map_err(Exit::failed)
    }

    /// Returns whether paths mean the same to the daemon, because it runs on this host.
    pub(crate) fn is_here(&self) -> bool {
        let admin = self.admin.as_deref();
        !admin.is_some_and(|place| place.starts_with("tcp:"))
    }

    /// Asks the daemon one thing.
    pub(crate) fn call<A>(
        &self,
        question: impl FnOnce(&Admin) -> Result<A, AdminError>,
    ) -> Result<A, Exit> {
        question(&self.admin()?).map_err(|error| Exit::call_failed(&error))
    }
}
