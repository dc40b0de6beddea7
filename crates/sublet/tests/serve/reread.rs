//! SIGHUP: which files are read again, which are refused, and that the config is not among them.

use std::path::Path;

use crate::daemon::Folder;

fn certify(folder: &Folder, name: &str) {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    folder.write(&format!("{name}.crt"), &pair.cert.pem());
    folder.write(&format!("{name}.key"), &pair.signing_key.serialize_pem());
}

/// The files that the log names after a word.
fn files<'a>(log: &'a str, word: &str) -> Vec<&'a str> {
    let summary = log.lines().rfind(|line| line.contains("were read anew"));
    let said = summary.and_then(|line| line.split(&format!(" {word}=\"")).nth(1));
    let said = said.and_then(|said| said.split('"').next()).expect(log);
    let names = said.split(", ").map(|path| Path::new(path).file_name());
    names.filter_map(|name| name?.to_str()).collect()
}

#[test]
fn a_bad_certificate_is_named_and_hides_no_other_file() {
    let folder = Folder::new();
    for name in ["bad", "good", "disk"] {
        certify(&folder, name);
    }
    folder.write("users", "ann:secret\n");
    let image = folder.write("db.img", "");
    std::fs::write(&image, vec![0; 1 << 20]).expect("written");
    let at = |name: &str| folder.path(name).display().to_string();
    let tenant = |name: &str| {
        format!(
            "[tenants.{name}]\nlisten = [\"tcp:127.0.0.1:0\"]\ntls_cert = \"{}\"\ntls_key = \"{}\"\n",
            at(&format!("{name}.crt")),
            at(&format!("{name}.key"))
        )
    };
    let config = format!(
        "{}{}[tenants.users]\nlisten = [\"unix:{}\"]\nauth_file = \"{}\"\n\
         [disks.db]\ntenant = \"good\"\nbacking = \"{}\"\nlisten = [\"tcp:127.0.0.1:0\"]\ntls_cert = \"{}\"\ntls_key = \"{}\"\n",
        tenant("bad"),
        tenant("good"),
        at("users.sock"),
        at("users"),
        at("db.img"),
        at("disk.crt"),
        at("disk.key"),
    );
    let daemon = folder.serve_config(&config);
    folder.write("bad.crt", "no certificate");
    daemon.hang_up();
    let (code, log) = daemon.end();
    assert_eq!(code, Some(0), "{log}");
    let mut read = files(&log, "read");
    read.sort_unstable();
    assert_eq!(
        read,
        ["disk.crt", "disk.key", "good.crt", "good.key", "users"]
    );
    assert_eq!(files(&log, "refused"), ["bad.crt", "bad.key"]);
    assert_eq!(files(&log, "config"), ["sublet.toml"]);
    assert!(log.contains("the config was not"), "{log}");
    let why = log
        .lines()
        .find(|line| line.contains("what was read before holds"));
    assert!(why.is_some_and(|why| why.contains("bad.crt")), "{log}");
}
