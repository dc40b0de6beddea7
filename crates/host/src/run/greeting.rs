//! The first lines: what was found, what is served where, what to type next.

use std::io::{self, Write};

use rustix::process::{Resource, getrlimit};
use sublet_client::messages::Status;

use super::bounds::Bounds;
use crate::config::Config;

/// Prints them to stdout. A closed stdout is no reason not to serve.
pub(super) fn print(
    status: &Status,
    config: &Config,
    tcp: Option<String>,
    metrics: Option<String>,
) {
    let mut text = text(status, config);
    for (what, place) in [("admin, over TLS", tcp), ("metrics", metrics)] {
        if let Some(place) = place {
            text.push_str(&format!("{:<9} {place} ({what})\n", ""));
        }
    }
    text.push_str(&next(status));
    let mut stdout = io::stdout();
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
}

fn text(status: &Status, config: &Config) -> String {
    let (host, arena) = (&status.host, &status.arena);
    let bounds = Bounds::of(config);
    let mut text = format!(
        "sublet {}: {} of memory on this host, {} idle, {} kept in reserve\n\
         {:<9} up to {} now ({})\n",
        status.daemon.release,
        host.memory,
        host.idle,
        host.reserve,
        "arena",
        arena.limit,
        status.headroom.why,
    );
    for tenant in &status.tenants {
        text.push_str(&format!(
            "{:<9} {}: memcached at {}\n",
            "tenant",
            tenant.name,
            tenant.listen.join(", ")
        ));
    }
    text.push_str(&format!("{:<9} {}\n", "admin", status.daemon.admin));
    text.push_str(&format!(
        "{:<9} {} connections, {} for their buffers beside the arena, {} threads{}\n",
        "at most",
        bounds.connections,
        bounds.memory,
        config.threads,
        descriptors(&bounds),
    ));
    text
}

/// Says so when the process may not open as many files as it promises connections.
fn descriptors(bounds: &Bounds) -> String {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < bounds.descriptors => {
            format!(
                "\n{:<9} only {limit} open files are allowed; type: ulimit -n {}",
                "but", bounds.descriptors
            )
        }
        _ => String::new(),
    }
}

fn next(status: &Status) -> String {
    let tcp = status
        .tenants
        .iter()
        .flat_map(|tenant| &tenant.listen)
        .find_map(|place| {
            let (host, port) = place.strip_prefix("tcp:")?.rsplit_once(':')?;
            Some(format!("nc -q1 {host} {port}"))
        });
    let first = tcp.map_or(String::new(), |nc| {
        format!(
            "{:<9} printf 'set k 0 0 5\\r\\nhello\\r\\nget k\\r\\n' | {nc}\n",
            "try"
        )
    });
    format!("{first}{:<9} sublet status; Ctrl-C ends it\n", "then")
}
