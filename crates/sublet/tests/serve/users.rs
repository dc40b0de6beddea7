//! Users that log in: the daemon serves each as the tenant that names the user.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::daemon::Folder;
use crate::wait::wait_until;

/// A connection that sends and receives lines.
struct LineClient(BufReader<UnixStream>);

impl LineClient {
    fn at(socket: &Path) -> LineClient {
        LineClient(BufReader::new(
            UnixStream::connect(socket).expect("connected"),
        ))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("sent");
    }

    fn request(&mut self, request: &str) -> String {
        self.send(request.as_bytes());
        let mut line = String::new();
        self.0.read_line(&mut line).expect("answered");
        line.trim_end().to_owned()
    }

    fn log_in(&mut self, user: &str, password: &str) -> String {
        let login = format!("{user} {password}");
        self.request(&format!("set auth 0 0 {}\r\n{login}\r\n", login.len()))
    }
}

fn config(folder: &Folder, sasl: bool) -> String {
    let users = folder.write("users", "ann:secret\nbob:hidden\neve:nobody\n");
    format!(
        "[tenants.front]\nlisten = [\"unix:{}\"]\nauth_file = \"{}\"\nsasl = {sasl}\n\n\
         [tenants.ann]\nusers = [\"ann\"]\n\n[tenants.bob]\nusers = [\"bob\"]\n",
        folder.path("front.sock").display(),
        users.display()
    )
}

#[test]
fn who_logs_in_meets_his_own_tenant_and_no_other() {
    let folder = Folder::new();
    let _daemon = folder.serve_config(&config(&folder, false));
    let socket = folder.path("front.sock");
    let logged_in = |user: &str, password: &str| {
        let mut client = LineClient::at(&socket);
        assert_eq!(client.log_in(user, password), "STORED");
        client
    };
    for (user, password) in [("ann", "secret"), ("bob", "hidden"), ("eve", "nobody")] {
        let mut client = logged_in(user, password);
        let len = user.len();
        assert_eq!(client.request("get mine\r\n"), "END", "{user}");
        let set = format!("set mine 0 0 {len}\r\n{user}\r\n");
        assert_eq!(client.request(&set), "STORED");
    }
    for (user, password) in [("ann", "secret"), ("bob", "hidden"), ("eve", "nobody")] {
        let mut client = logged_in(user, password);
        let head = client.request("get mine\r\n");
        assert_eq!(head, format!("VALUE mine 0 {}", user.len()));
        assert_eq!(client.request(""), user);
    }
    let listed = folder.sublet_ok(&["tenants", "list"]);
    for tenant in ["ann", "bob", "front"] {
        let line = listed.lines().find(|line| line.starts_with(tenant));
        let line = line.unwrap_or_else(|| panic!("no {tenant} in {listed}"));
        assert!(line.contains(" 1 "), "{line}");
    }
    let mut wrong = LineClient::at(&socket);
    assert!(wrong.log_in("ann", "hidden").starts_with("CLIENT_ERROR"));
    assert!(wrong.request("get mine\r\n").starts_with("CLIENT_ERROR"));
}

#[test]
fn a_hangup_signal_has_passwords_read_anew() {
    let folder = Folder::new();
    let daemon = folder.serve_config(&config(&folder, false));
    let socket = folder.path("front.sock");
    let let_in = |password: &str| LineClient::at(&socket).log_in("ann", password) == "STORED";
    assert!(let_in("secret") && !let_in("changed"));
    folder.write("users", "no colon");
    daemon.hang_up();
    assert!(let_in("secret"), "what cannot be used changes nothing");
    folder.write("users", "ann:changed\n");
    daemon.hang_up();
    wait_until("it is read anew", || let_in("changed"));
    assert!(!let_in("secret"));
}

/// A binary request without extras.
fn packet(opcode: u8, key: &str, value: &str) -> Vec<u8> {
    let mut packet = vec![0x80, opcode, 0, key.len() as u8, 0, 0, 0, 0, 0, 0, 0];
    packet.push((key.len() + value.len()) as u8);
    packet.resize(24, 0);
    packet.extend_from_slice(key.as_bytes());
    packet.extend_from_slice(value.as_bytes());
    packet
}

/// A binary `addq`, which gets no reply if all went well.
fn add(key: &str, value: &str) -> Vec<u8> {
    const ADDQ: u8 = 0x12;
    const EXTRAS: u8 = 8;
    let mut packet = packet(ADDQ, key, value);
    packet[4] = EXTRAS;
    packet[11] += EXTRAS;
    packet.splice(24..24, [0; EXTRAS as usize]);
    packet
}

#[test]
fn sasl_leads_to_the_users_tenant_too() {
    const AUTH: u8 = 0x21;
    const NOOP: u8 = 0x0a;
    let folder = Folder::new();
    let _daemon = folder.serve_config(&config(&folder, true));
    let status = |client: &mut LineClient, request: Vec<u8>| {
        client.send(&request);
        let mut head = [0; 24];
        client.0.read_exact(&mut head).expect("a head");
        let len = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        let mut body = vec![0; len as usize];
        client.0.read_exact(&mut body).expect("a body");
        u16::from_be_bytes([head[6], head[7]])
    };
    const AUTH_ERROR: u16 = 0x20;
    for stranger in [packet(NOOP, "", ""), packet(AUTH, "PLAIN", "\0bob\0wrong")] {
        let mut client = LineClient::at(&folder.path("front.sock"));
        assert_eq!(status(&mut client, stranger), AUTH_ERROR);
    }
    let mut client = LineClient::at(&folder.path("front.sock"));
    assert_eq!(
        status(&mut client, packet(AUTH, "PLAIN", "\0bob\0hidden")),
        0
    );
    assert_eq!(status(&mut client, packet(NOOP, "", "")), 0);
    client.send(&add("mine", "his"));
    assert_eq!(status(&mut client, packet(NOOP, "", "")), 0);
    let listed = folder.sublet_ok(&["tenants", "list"]);
    let bob = listed.lines().find(|line| line.starts_with("bob"));
    assert!(bob.is_some_and(|line| line.contains(" 1 ")), "{listed}");
}
