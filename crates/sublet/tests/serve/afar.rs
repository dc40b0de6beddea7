//! The admin interface over TCP: a client trusts only the owner of the certificate's key, and the daemon obeys only
//! clients with the token.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use sublet_client::messages::{AllowFolder, ChangeLifetime};
use sublet_client::{Admin, AdminEndpoint, AdminError};

use crate::daemon::{Daemon, Folder, text};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

const CONFIG: &str = "\
[admin]
tcp = \"tcp:127.0.0.1:0\"
tls_cert = \"FOLDER/crt\"
tls_key = \"FOLDER/key\"
token_file = \"FOLDER/token\"
[tenants.web]
listen = [\"tcp:127.0.0.1:0\"]
";

pub(crate) fn config(folder: &Folder) -> String {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    folder.write("crt", &pair.cert.pem());
    folder.write("key", &pair.signing_key.serialize_pem());
    write_token(folder, "token", TOKEN);
    CONFIG.replace("FOLDER", folder.path("").to_str().expect("text"))
}

fn write_token(folder: &Folder, name: &str, token: &str) {
    let path = folder.write(name, token);
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).expect("set");
}

pub(crate) fn port(daemon: &Daemon) -> u16 {
    let line = daemon
        .greeting
        .lines()
        .find(|line| line.contains("with TLS and the token"));
    let place = line.expect("a place").split(',').next().expect("a place");
    place
        .rsplit_once(':')
        .expect("a port")
        .1
        .parse()
        .expect("a port")
}

pub(crate) fn admin(folder: &Folder, port: u16, ca: &str, token: &str) -> Admin {
    let door = AdminEndpoint::Tcp {
        host: "localhost".to_owned(),
        port,
        ca: folder.path(ca),
        token_file: folder.path(token),
    };
    Admin::at(door).expect("a handle")
}

#[test]
fn who_shows_the_token_is_answered_and_nobody_else() {
    let folder = Folder::new();
    let daemon = folder.serve_config(&config(&folder));
    let port = port(&daemon);
    let status = admin(&folder, port, "crt", "token")
        .status()
        .expect("answered");
    assert_eq!(status.daemon.pid, daemon.pid());

    write_token(&folder, "wrong", &TOKEN.replace('0', "1"));
    let refused = admin(&folder, port, "crt", "wrong")
        .status()
        .expect_err("refused");
    assert!(matches!(refused, AdminError::Refused(_)), "{refused}");

    let stranger =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    folder.write("other", &stranger.cert.pem());
    let unknown = admin(&folder, port, "other", "token")
        .status()
        .expect_err("not believed");
    assert!(matches!(unknown, AdminError::Untrusted { .. }), "{unknown}");
    assert!(!unknown.to_string().contains("no daemon"), "{unknown}");
}

#[test]
fn a_token_that_others_can_read_is_refused_at_the_start() {
    let folder = Folder::new();
    let file = folder.write("c.toml", &config(&folder));
    std::fs::set_permissions(folder.path("token"), Permissions::from_mode(0o644)).expect("set");
    let file = file.to_str().expect("text");
    let refused = folder
        .command(&["--config", file])
        .output()
        .expect("it runs");
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("can be read by everybody"),
        "{refused:?}"
    );
}

/// A client that only has the token must not change which of the host's files may be served.
#[test]
fn where_backings_may_lie_is_not_said_from_afar() {
    let folder = Folder::new();
    let daemon = folder.serve_config(&config(&folder));
    let asked = AllowFolder {
        folder: folder.path("").display().to_string(),
        lasts: ChangeLifetime::UntilRestart,
    };
    let afar = admin(&folder, port(&daemon), "crt", "token");
    let refused = afar.allow_folder(&asked).expect_err("refused");
    assert!(
        refused.to_string().contains("Unix socket only"),
        "{refused}"
    );
    folder.admin().allow_folder(&asked).expect("allowed");
}

/// Other listeners of the same daemon: one without TLS, and one that asks for a client's certificate.
#[test]
fn who_answers_in_an_admin_interfaces_stead_is_told_and_no_start_is_advised() {
    let folder = Folder::new();
    let shut = "[tenants.shut]\nlisten = [\"tcp:127.0.0.1:0\"]\ntls_cert = \"FOLDER/crt\"\n\
                tls_key = \"FOLDER/key\"\ntls_ca = \"FOLDER/crt\"\n";
    let shut = shut.replace("FOLDER/", folder.path("").to_str().expect("text"));
    let _daemon = folder.serve_config(&(config(&folder) + &shut));
    let status = folder.admin().status().expect("answered");
    for (tenant, expected) in [("web", "without TLS"), ("shut", "a client's certificate")] {
        let tenant = status
            .tenants
            .iter()
            .find(|one| one.name.to_string() == tenant);
        let place = &tenant.expect("a tenant").listen[0];
        let port = place.rsplit_once(':').expect("a port").1;
        let asked = folder.sublet(&[
            "status",
            "--admin",
            &format!("tcp:localhost:{port}"),
            "--admin-ca",
            folder.path("crt").to_str().expect("text"),
            "--admin-token",
            folder.path("token").to_str().expect("text"),
        ]);
        let said = text(&asked.stderr);
        assert!(said.contains(expected), "{said}");
        assert!(
            !said.contains("sublet serve") && !said.contains("no daemon"),
            "{said}"
        );
    }
    let asked = folder.sublet(&["status", "--admin", "https://localhost:7070"]);
    assert!(text(&asked.stderr).contains("tcp:HOST:PORT"), "{asked:?}");
}
