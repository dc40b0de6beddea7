//! The admin socket's path if the user gives none.

use std::env;
use std::path::PathBuf;

use rustix::process::geteuid;

/// The default path of the admin socket. It is the first of:
///
/// - `$SUBLET_ADMIN`, unless that is an endpoint over TCP,
/// - `/run/sublet/admin.sock` for root,
/// - `$XDG_RUNTIME_DIR/sublet/admin.sock`,
/// - `$HOME/.sublet/admin.sock`.
pub fn default_socket() -> PathBuf {
    let folder = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(path) = folder("SUBLET_ADMIN").and_then(unix_path) {
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

/// The socket's path, with or without `unix:`. `None` for an endpoint over TCP.
fn unix_path(place: PathBuf) -> Option<PathBuf> {
    let Some(text) = place.to_str() else {
        return Some(place);
    };
    match text.starts_with("tcp:") {
        true => None,
        false => Some(text.strip_prefix("unix:").unwrap_or(text).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_named_as_the_daemon_shows_it() {
        assert_eq!(
            unix_path("unix:/run/a.sock".into()),
            Some("/run/a.sock".into())
        );
        assert_eq!(unix_path("a.sock".into()), Some("a.sock".into()));
        assert_eq!(unix_path("tcp:10.0.0.1:7070".into()), None);
    }
}
