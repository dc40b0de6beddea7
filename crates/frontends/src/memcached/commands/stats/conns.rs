//! `stats conns`: who is connected.

use crate::memcached::caller::Caller;
use crate::memcached::connections::Doing;
use crate::memcached::wire::rows::{Rows, put};

pub(super) fn write(caller: Caller<'_>, rows: &mut dyn Rows) {
    let now = caller.tenancy.clock().now();
    for peer in caller.instance.connections.all() {
        let fd = peer.fd;
        put(rows, &format!("{fd}:addr"), &peer.address);
        if let Some(listener) = &peer.listener {
            put(rows, &format!("{fd}:listen_addr"), listener);
        }
        put(rows, &format!("{fd}:state"), state(peer.doing()));
        let idle = now.0.saturating_sub(peer.last_request().0);
        put(rows, &format!("{fd}:secs_since_last_cmd"), idle);
    }
}

fn state(doing: Doing) -> &'static str {
    match doing {
        Doing::Listening => "conn_listening",
        Doing::Reading => "conn_read",
        Doing::Running => "conn_parse_cmd",
        Doing::AwaitingValue => "conn_nread",
        Doing::Swallowing => "conn_swallow",
        Doing::Writing => "conn_mwrite",
        Doing::Watching => "conn_watch",
    }
}
