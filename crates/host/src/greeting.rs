//! The first lines: what was found, what is served where, what to type next.

use std::io::{self, Write};

use sublet_client::messages::{DiskState, DiskStatus, LeftBehind, Status};
use sublet_types::{Bytes, DiskListen, DiskSettings, Pages, TenantName};

use crate::bounds::Bounds;
use crate::config::{Config, TenantConfig};

/// What the kernel granted.
pub(crate) struct Granted {
    /// Where the admin interface over TCP is.
    pub(crate) tcp: Option<String>,
    /// Where the metrics are.
    pub(crate) metrics: Option<String>,
    /// Files that may be open at once; `None` for any number.
    pub(crate) descriptors: Option<u64>,
}

/// Prints them to stdout. A closed stdout is no reason not to serve.
pub(crate) fn print(status: &Status, config: &Config, granted: &Granted) {
    let mut stdout = io::stdout();
    for (name, text) in lines(status, config, granted) {
        let _ = writeln!(stdout, "{name:<9} {text}");
    }
    let _ = stdout.flush();
}

fn lines(status: &Status, config: &Config, granted: &Granted) -> Vec<(&'static str, String)> {
    let (host, arena) = (&status.host, &status.arena);
    let bounds = Bounds::of(config);
    let mut lines = vec![
        (
            "sublet",
            format!("{}, process {}", status.daemon.release, status.daemon.pid),
        ),
        (
            "host",
            format!(
                "{} of memory, {} idle, {} kept in reserve",
                host.memory, host.idle, host.reserve
            ),
        ),
        (
            "arena",
            format!("up to {} now ({})", arena.limit, status.headroom.why),
        ),
    ];
    for tenant in &config.tenants {
        let name = &tenant.settings.name;
        let listed = status.tenants.iter().find(|status| status.name == *name);
        let mut places = listed.map_or(Vec::new(), |status| status.listen.clone());
        places.extend(
            tenant
                .users
                .iter()
                .map(|user| format!("any login of {user}")),
        );
        let places = match places.is_empty() {
            true => "for disks".to_owned(),
            false => format!("at {}", places.join(", ")),
        };
        lines.push(("tenant", format!("{name}: {places}")));
    }
    lines.extend(status.disks.iter().map(|disk| ("disk", disk_line(disk))));
    let left = status.left_behind.iter();
    lines.extend(left.map(|left| ("disk", left_line(left))));
    lines.push(("admin", status.daemon.admin.clone()));
    lines.extend(
        granted
            .tcp
            .iter()
            .map(|place| ("", format!("{place}, with TLS and the token"))),
    );
    lines.extend(
        granted
            .metrics
            .iter()
            .map(|place| ("metrics", place.clone())),
    );
    lines.push((
        "at most",
        format!(
            "{} threads, {} connections, {} of buffers beside the arena{}",
            config.daemon.threads,
            bounds.connections,
            bounds.memory,
            rings(bounds.rings)
        ),
    ));
    lines.extend(descriptors(&bounds, granted).map(|text| ("but", text)));
    lines.extend(first_words(status, config).map(|text| ("try", text)));
    lines.push(("then", "sublet status; Ctrl-C ends the daemon".into()));
    lines
}

fn rings(memory: Bytes) -> String {
    match memory {
        Bytes::ZERO => String::new(),
        memory => format!(", {memory} of page rings"),
    }
}

fn disk_line(disk: &DiskStatus) -> String {
    let DiskSettings {
        name,
        kind,
        tenant,
        listen,
        ..
    } = &disk.settings;
    if disk.state == DiskState::Closed {
        return format!(
            "{name}: closed, {}; mend that, then: sublet disk open {name}",
            disk.why
        );
    }
    let places: Vec<String> = listen.iter().map(DiskListen::to_string).collect();
    let (size, places) = (disk.size, places.join(", "));
    format!("{name}: {kind} of {size} for {tenant}, at {places}")
}

fn left_line(left: &LeftBehind) -> String {
    let (name, pages) = (&left.name, Pages(left.pages));
    format!("{name}: {pages} were left behind; sublet disk show {name} says what to do")
}

/// Says so when the process may not open as many files as it promises connections.
fn descriptors(bounds: &Bounds, granted: &Granted) -> Option<String> {
    let allowed = granted.descriptors?;
    let wanted = bounds.descriptors;
    (allowed < wanted)
        .then(|| format!("only {allowed} open files are allowed; type: ulimit -n {wanted}"))
}

/// What a newcomer can say to the first tenant that listens on TCP, and neither speaks TLS nor wants a login.
fn first_words(status: &Status, config: &Config) -> Option<String> {
    let plain = |name: &TenantName| {
        let is_plain = |tenant: &TenantConfig| tenant.tls.is_none() && tenant.auth_file.is_none();
        let mut named = config.tenants.iter();
        named.any(|tenant| tenant.settings.name == *name && is_plain(tenant))
    };
    let tenants = status.tenants.iter().filter(|tenant| plain(&tenant.name));
    let mut places = tenants.flat_map(|tenant| &tenant.listen);
    let (host, port) = places.find_map(|place| place.strip_prefix("tcp:")?.rsplit_once(':'))?;
    Some(format!(
        "printf 'set k 0 0 5\\r\\nhello\\r\\nget k\\r\\nquit\\r\\n' | nc {host} {port}"
    ))
}
