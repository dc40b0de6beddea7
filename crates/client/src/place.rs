//! Where the admin socket is when nobody says.

use std::env;
use std::path::PathBuf;

use rustix::process::geteuid;

/// `$SUBLET_ADMIN` if it is no place over TCP, else `/run/sublet/admin.sock` for root, else `$XDG_RUNTIME_DIR/sublet/admin.sock`,
/// else `$HOME/.sublet/admin.sock`.
pub fn default_socket() -> PathBuf {
    let folder = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(path) = folder("SUBLET_ADMIN").and_then(named) {
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

/// The socket's path, with or without `unix:`; none where a place over TCP is named.
fn named(place: PathBuf) -> Option<PathBuf> {
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
        assert_eq!(named("unix:/run/a.sock".into()), Some("/run/a.sock".into()));
        assert_eq!(named("a.sock".into()), Some("a.sock".into()));
        assert_eq!(named("tcp:10.0.0.1:7070".into()), None);
    }
}
