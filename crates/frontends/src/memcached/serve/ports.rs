//! The file with the ports that the kernel chose.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::listeners::Listener;

/// Writes the file that `MEMCACHED_PORT_FILENAME` names, with a line per TCP socket. The file appears whole.
pub fn write_ports(path: &Path, listeners: &[Listener]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".lck");
    let mut file = fs::File::create(&draft)?;
    for address in listeners.iter().filter_map(Listener::tcp_address) {
        let family = if address.is_ipv4() { "INET" } else { "INET6" };
        writeln!(file, "TCP {family}: {}", address.port())?;
    }
    fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listeners::{Endpoint, Transport, bind};

    #[test]
    fn the_port_file_names_every_tcp_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ports");
        let any_port = Endpoint::Tcp {
            host: Some("127.0.0.1".to_owned()),
            port: 0,
            transport: Transport::Plain,
        };
        let listeners = bind(&[any_port], 8).expect("any port");
        write_ports(&path, &listeners).expect("written");
        let port = listeners[0].tcp_address().expect("tcp").port();
        let written = fs::read_to_string(&path).expect("a file");
        assert_eq!(written, format!("TCP INET: {port}\n"));
        assert!(!folder.path().join("ports.lck").exists());
    }
}
