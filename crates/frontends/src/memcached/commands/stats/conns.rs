//! `stats conns`: the open connections and listeners.

use crate::memcached::caller::Caller;
use crate::memcached::connections::ConnectionState;
use crate::memcached::wire::stat_writer::{StatWriter, write_one};

pub(super) fn write(caller: Caller<'_>, writer: &mut dyn StatWriter) {
    let now = caller.tenancy.clock().now();
    for peer in caller.instance.connections.all() {
        let fd = peer.fd;
        write_one(writer, &format!("{fd}:addr"), &peer.address);
        if let Some(listener) = &peer.listener {
            write_one(writer, &format!("{fd}:listen_addr"), listener);
        }
        write_one(writer, &format!("{fd}:state"), state(peer.state()));
        let idle = now.0.saturating_sub(peer.last_request().0);
        write_one(writer, &format!("{fd}:secs_since_last_cmd"), idle);
    }
}

fn state(doing: ConnectionState) -> &'static str {
    match doing {
        ConnectionState::Listening => "conn_listening",
        ConnectionState::Reading => "conn_read",
        ConnectionState::Running => "conn_parse_cmd",
        ConnectionState::AwaitingValue => "conn_nread",
        ConnectionState::Swallowing => "conn_swallow",
        ConnectionState::Writing => "conn_mwrite",
        ConnectionState::Watching => "conn_watch",
    }
}
