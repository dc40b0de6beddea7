//! The first lines on stdout: what the daemon found, what it serves where, and what to type next.

use std::io::{self, Write};

use sublet_client::messages::{DiskState, DiskStatus, OrphanedPages, Status};
use sublet_types::{Bytes, DiskListen, DiskSettings, Pages, TenantName};

use crate::config::{Config, TenantConfig};
use crate::resource_bounds::ResourceBounds;

/// What the kernel granted.
pub(crate) struct GrantedResources {
    /// The TCP address of the admin interface.
    pub(crate) tcp: Option<String>,
    /// The address of the metrics.
    pub(crate) metrics: Option<String>,
    /// The most files that may be open at once. `None` means any number.
    pub(crate) descriptors: Option<u64>,
}

/// Prints the lines to stdout. The daemon serves even if stdout is closed.
pub(crate) fn print(status: &Status, config: &Config, granted: &GrantedResources) {
    let mut stdout = io::stdout();
    for (name, text) in banner_lines(status, config, granted) {
        let _ = writeln!(stdout, "{name:<9} {text}");
    }
    let _ = stdout.flush();
}

type BannerLine = (&'static str, String);

fn banner_lines(status: &Status, config: &Config, granted: &GrantedResources) -> Vec<BannerLine> {
    let bounds = ResourceBounds::of(config);
    let mut lines = memory_lines(status);
    lines.extend(config.tenants.iter().map(|tenant| {
        let line = tenant_line(tenant, status);
        ("tenant", line)
    }));
    lines.extend(status.disks.iter().map(|disk| ("disk", disk_line(disk))));
    let left = status.left_behind.iter();
    lines.extend(left.map(|left| ("disk", left_line(left))));
    lines.extend(peers_line(config).map(|text| ("peers", text)));
    lines.extend(control_lines(status, granted));
    lines.push(("at most", bounds_line(&bounds, config)));
    lines.extend(descriptors(&bounds, granted).map(|text| ("but", text)));
    lines.extend(first_words(status, config).map(|text| ("try", text)));
    lines.push(("then", "sublet status; Ctrl-C ends the daemon".into()));
    lines
}

/// The daemon, the host's memory and the arena.
fn memory_lines(status: &Status) -> Vec<BannerLine> {
    let (daemon, host) = (&status.daemon, &status.host);
    let (memory, idle, reserve) = (host.memory, host.idle, host.reserve);
    let (limit, why) = (status.arena.limit, &status.headroom.why);
    vec![
        (
            "sublet",
            format!("{}, process {}", daemon.release, daemon.pid),
        ),
        (
            "host",
            format!("{memory} of memory, {idle} idle, {reserve} kept in reserve"),
        ),
        ("arena", format!("up to {limit} now ({why})")),
    ]
}

/// A tenant and the places where it is served.
fn tenant_line(tenant: &TenantConfig, status: &Status) -> String {
    let name = &tenant.settings.name;
    let listed = status.tenants.iter().find(|status| status.name == *name);
    let mut places = listed.map_or(Vec::new(), |status| status.listen.clone());
    let users = tenant.users.iter();
    places.extend(users.map(|user| format!("any login of {user}")));
    match places.is_empty() {
        true => format!("{name}: for disks"),
        false => format!("{name}: at {}", places.join(", ")),
    }
}

/// Who the host is among its peers, where they reach it, and what it lends and borrows.
fn peers_line(config: &Config) -> Option<String> {
    let peers = &config.peers;
    let node = &peers.tls.as_ref()?.identity.node;
    let place = match &peers.listen {
        Some(place) => format!("at {place}"),
        None => "calls only".to_owned(),
    };
    let members = match (&peers.etcd, &peers.leader) {
        (Some(_), _) => "members from etcd".to_owned(),
        (None, Some(leader)) => format!("{}, led by {leader}", format_members(peers.members.len())),
        (None, None) => format_members(peers.members.len()),
    };
    let lends = match config.lend.max {
        None => "lends what headroom leaves".to_owned(),
        Some(Bytes::ZERO) => "lends nothing".to_owned(),
        Some(max) => format!("lends up to {max}"),
    };
    let borrows = match config.borrow.max {
        Bytes::ZERO => "borrows nothing".to_owned(),
        max => format!("borrows up to {max}"),
    };
    Some(format!("{node}: {place}, {members}; {lends}, {borrows}"))
}

fn format_members(members: usize) -> String {
    match members {
        1 => "1 member".to_owned(),
        members => format!("{members} members"),
    }
}

/// Where the daemon is controlled and measured.
fn control_lines(status: &Status, granted: &GrantedResources) -> Vec<BannerLine> {
    let mut lines = vec![("admin", status.daemon.admin.clone())];
    let tcp = granted.tcp.iter();
    lines.extend(tcp.map(|place| ("", format!("{place}, with TLS and the token"))));
    let metrics = granted.metrics.iter();
    lines.extend(metrics.map(|place| ("metrics", place.clone())));
    lines
}

/// The most that the daemon takes beside the arena.
fn bounds_line(bounds: &ResourceBounds, config: &Config) -> String {
    let (threads, connections) = (config.daemon.threads, bounds.connections);
    let (memory, rings) = (bounds.memory, rings(bounds.rings));
    format!(
        "{threads} threads, {connections} connections, {memory} of buffers beside the arena{rings}"
    )
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

fn left_line(left: &OrphanedPages) -> String {
    let (name, pages) = (&left.name, Pages(left.pages));
    format!("{name}: {pages} were left behind; sublet disk show {name} says what to do")
}

/// A line if the process may not open as many files as it promises connections.
fn descriptors(bounds: &ResourceBounds, granted: &GrantedResources) -> Option<String> {
    let allowed = granted.descriptors?;
    let wanted = bounds.descriptors;
    (allowed < wanted)
        .then(|| format!("only {allowed} open files are allowed; type: ulimit -n {wanted}"))
}

/// A command to try at the first tenant that listens on TCP and wants neither TLS nor a login.
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config;

    fn line(more: &str) -> Option<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("c.toml");
        let web = "[tenants.web]\nlisten = [\"unix:/web.sock\"]\n";
        fs::write(&file, format!("{web}{more}")).expect("written");
        peers_line(&config::check(&file).expect("a config"))
    }

    #[test]
    fn a_host_with_peers_says_where_they_reach_it_and_what_it_lends_and_borrows() {
        assert_eq!(line(""), None);
        let peers = "[peers]\nnode = \"a\"\nlisten = \"tcp:10.0.0.1:7171\"\nmembers = [\"b=tcp:10.0.0.2:7171\"]\n\
                     ca = \"/ca.crt\"\ncertificate = \"/a.crt\"\nkey = \"/a.key\"\n";
        assert_eq!(
            line(peers).as_deref(),
            Some("a: at tcp:10.0.0.1:7171, 1 member; lends what headroom leaves, borrows nothing")
        );
        let limits = "[lend]\nmax = 0\n[borrow]\nmax = \"1GiB\"\n";
        assert_eq!(
            line(&format!("{peers}{limits}")).as_deref(),
            Some("a: at tcp:10.0.0.1:7171, 1 member; lends nothing, borrows up to 1.00 GiB")
        );
    }
}
