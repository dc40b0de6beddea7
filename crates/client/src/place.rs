//! Where the admin socket is when nobody says.

use std::env;
use std::path::PathBuf;

use rustix::process::geteuid;

/// `$SUBLET_ADMIN`, else `/run/sublet/admin.sock` for root, else `$XDG_RUNTIME_DIR/sublet/admin.sock`,
/// else `$HOME/.sublet/admin.sock`.
pub fn default_socket() -> PathBuf {
    let folder = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(path) = folder("SUBLET_ADMIN") {
        return path;
    }
    if geteuid().is_root() {
        return "/run/sublet/admin.sock".into();
    }
    let runtime = folder("XDG_RUNTIME_DIR").map(|runtime| runtime.join("sublet"));
    let home = || folder("HOME").map(|home| home.join(".sublet"));
    runtime
        .or_else(home)
        .unwrap_or_else(|| ".sublet".into())
        .join("admin.sock")
}
