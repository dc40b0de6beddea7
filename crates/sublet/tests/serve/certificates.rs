//! `sublet lend ca`: certificates of a cluster's nodes, made without a PKI.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sublet_tls::peer::{
    CertificateSummary, DefaultTimeProvider, NodeIdentity, PeerCredentialError, PeerCredentials,
    PeerTlsSettings,
};

use crate::daemon::{Folder, SUBLET, text};

const DAY: u64 = 24 * 3600;

/// Runs `sublet lend ca …` in a folder. Returns its exit code, and all that it printed.
fn ca(folder: &Folder, args: &[&str]) -> (Option<i32>, String) {
    let place = folder.path("");
    let place = place.to_str().expect("text");
    let (verb, rest) = args.split_first().expect("a verb");
    let output = folder.sublet(&[&["lend", "ca", verb, "--dir", place], rest].concat());
    let printed = text(&output.stdout) + &text(&output.stderr);
    (output.status.code(), printed)
}

/// Runs `sublet lend ca …`, which must succeed.
fn ca_ok(folder: &Folder, args: &[&str]) -> String {
    let (code, printed) = ca(folder, args);
    assert_eq!(code, Some(0), "{args:?}: {printed}");
    printed
}

/// Runs `sublet lend ca …`, which must fail with this code and say this, and change no file.
fn ca_fails(folder: &Folder, args: &[&str], expected: i32, says: &str) {
    let before = files(folder);
    let (code, printed) = ca(folder, args);
    assert_eq!(code, Some(expected), "{args:?}: {printed}");
    assert!(printed.contains(says), "{args:?}: {printed}");
    assert_eq!(files(folder), before, "{args:?}");
}

/// The names and contents of all files.
fn files(folder: &Folder) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder.path("")).expect("read");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("one").path())
        .map(|path| (path.display().to_string(), fs::read(&path).expect("read")))
        .collect();
    files.sort();
    files
}

fn summary(folder: &Folder, file: &str) -> CertificateSummary {
    CertificateSummary::read(&folder.path(file)).expect("a certificate")
}

/// Loads a node's files as a daemon would, and judges them as its peers would.
fn load(folder: &Folder, cluster: &str, node: &str) -> Result<(), PeerCredentialError> {
    let settings = PeerTlsSettings {
        identity: NodeIdentity {
            cluster: cluster.parse().expect("a name"),
            node: node.parse().expect("a name"),
        },
        ca: folder.path("ca.crt"),
        certificate: folder.path(&format!("{node}.crt")),
        key: folder.path(&format!("{node}.key")),
        denied: Vec::new(),
    };
    PeerCredentials::load(&settings, Arc::new(DefaultTimeProvider)).map(drop)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn a_ca_and_its_nodes_are_made_and_accepted() {
    let folder = Folder::new();
    let said = ca_ok(&folder, &["init", "--cluster", "blue"]);
    let authority = summary(&folder, "ca.crt");
    assert!(
        said.contains("cluster blue") && said.contains("ca issue NODE --dir"),
        "{said}"
    );
    assert!(said.contains(&authority.fingerprint.to_string()), "{said}");
    assert_eq!(
        authority.uri.expect("a cluster").to_string(),
        "sublet://blue"
    );
    let now = authority.starts_unix + 3600;
    assert_eq!(authority.ends_unix - now, 3652 * DAY);

    // A node that is named as its cluster is no authority for that.
    for node in ["a", "blue"] {
        let said = ca_ok(&folder, &["issue", node]);
        let made = summary(&folder, &format!("{node}.crt"));
        assert!(said.contains(&format!("sublet://blue/{node}")), "{said}");
        assert!(said.contains(&made.fingerprint.to_string()), "{said}");
        assert!(
            said.contains(&format!("node = \"{node}\"\ncluster = \"blue\"")),
            "{said}"
        );
        assert_eq!(made.ends_unix - made.starts_unix, 365 * DAY + 3600);
        load(&folder, "blue", node).expect("it is accepted");
        load(&folder, "default", node).expect_err("it is of another cluster");
        assert_eq!(mode(&folder.path(&format!("{node}.key"))), 0o600);
    }
    assert_eq!(mode(&folder.path("ca.key")), 0o600);
    assert_eq!(files(&folder).len(), 6, "nothing else is left");
}

#[test]
fn an_existing_key_is_kept_and_its_certificate_renewed() {
    let folder = Folder::new();
    ca_ok(&folder, &["init"]);
    ca_ok(&folder, &["issue", "a", "--days", "30"]);
    let (before, inode) = (summary(&folder, "a.crt"), inode_of(&folder, "a.crt"));
    let key = fs::read(folder.path("a.key")).expect("read");
    let old_serial = serial(&folder, "a.crt");
    let said = ca_ok(&folder, &["issue", "a"]);
    assert!(
        said.contains("renewed") && said.contains("as it was"),
        "{said}"
    );
    let after = summary(&folder, "a.crt");
    assert_eq!(fs::read(folder.path("a.key")).expect("read"), key);
    assert_ne!(after.fingerprint, before.fingerprint);
    assert!(after.ends_unix >= before.ends_unix + 335 * DAY);
    // The old file was not written into: who has it open reads it to its end.
    assert_ne!(inode_of(&folder, "a.crt"), inode);
    assert_ne!(
        serial(&folder, "a.crt"),
        old_serial,
        "an issuer never repeats one"
    );
    load(&folder, "default", "a").expect("it is accepted");
    assert!(!said.contains("chmod"), "{said}");
    let everybody = fs::Permissions::from_mode(0o644);
    fs::set_permissions(folder.path("a.key"), everybody).expect("set");
    let said = ca_ok(&folder, &["issue", "a"]);
    let advice = format!("chmod 600 {}\n", folder.path("a.key").display());
    assert!(said.ends_with(&advice), "{said}");

    // A lost certificate is made again, for a key of any kind.
    fs::remove_file(folder.path("a.crt")).expect("removed");
    let foreign = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
    fs::write(folder.path("a.key"), foreign.serialize_pem()).expect("written");
    ca_ok(&folder, &["issue", "a"]);
    load(&folder, "default", "a").expect("it is accepted");
}

/// The serial number, in the bytes of the certificate.
fn serial(folder: &Folder, file: &str) -> Vec<u8> {
    let pem = fs::read(folder.path(file)).expect("read");
    let der = CertificateDer::from_pem_slice(&pem).expect("a certificate");
    // Two sequences with lengths of two bytes, the version in five bytes, and the integer of 16 bytes.
    let header = [&der[..1], &der[4..5], &der[8..13], &der[13..15]].concat();
    assert_eq!(header, [0x30, 0x30, 0xa0, 3, 2, 1, 2, 2, 16]);
    der[15..31].to_vec()
}

fn inode_of(folder: &Folder, file: &str) -> u64 {
    fs::metadata(folder.path(file)).expect("there").ino()
}

#[test]
fn what_cannot_be_done_is_said_and_changes_nothing() {
    let folder = Folder::new();
    ca_fails(
        &folder,
        &["issue", "a"],
        1,
        "make one with `sublet lend ca init`",
    );
    for bad in ["", "a/b", "../a", "a b", "-a", "ä", "ca", "CA"] {
        ca_fails(&folder, &["issue", "--", bad], 2, "name");
    }
    ca_fails(
        &folder,
        &["init", "--cluster", "a/b"],
        2,
        "no name for a cluster",
    );
    ca_ok(&folder, &["init"]);
    ca_fails(&folder, &["init"], 1, "ca.key is there already");
    ca_fails(&folder, &["issue", "a", "--days", "0"], 2, "0");
    ca_fails(&folder, &["issue", "a", "--days", "3653"], 1, " at most");
    ca_fails(
        &folder,
        &["issue", "a", "--days", "4294967295"],
        1,
        "outlast the CA",
    );

    ca_ok(&folder, &["issue", "a"]);
    ca_ok(&folder, &["issue", "b"]);
    fs::copy(folder.path("b.key"), folder.path("a.key")).expect("copied");
    ca_fails(
        &folder,
        &["issue", "a"],
        1,
        "is not the one of the first certificate",
    );
    fs::remove_file(folder.path("a.key")).expect("removed");
    ca_fails(&folder, &["issue", "a"], 1, "without its key");
    fs::write(folder.path("a.key"), "no key").expect("written");
    ca_fails(&folder, &["issue", "a"], 1, "no private key");

    fs::copy(folder.path("b.key"), folder.path("ca.key")).expect("copied");
    ca_fails(
        &folder,
        &["issue", "c"],
        1,
        "is not the one of the first certificate",
    );
    fs::remove_file(folder.path("ca.key")).expect("removed");
    ca_fails(&folder, &["issue", "c"], 1, "ca.key is missing");
    ca_fails(&folder, &["init"], 1, "ca.crt is there already");
    fs::copy(folder.path("b.crt"), folder.path("ca.crt")).expect("copied");
    fs::copy(folder.path("b.key"), folder.path("ca.key")).expect("copied");
    ca_fails(&folder, &["issue", "c"], 1, "names no cluster");
}

/// A limit on the size of files stands in for a disk that is full: a few bytes are written, and then no more.
#[test]
fn a_folder_that_takes_no_file_is_left_as_it_was() {
    let folder = Folder::new();
    let missing = folder.path("missing");
    let output = folder.sublet(&[
        "lend",
        "ca",
        "init",
        "--dir",
        missing.to_str().expect("text"),
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("make the folder first"),
        "{output:?}"
    );

    // A folder that cannot be looked into is no folder without a CA.
    let file = folder.write("file", "");
    let output = folder.sublet(&[
        "lend",
        "ca",
        "issue",
        "a",
        "--dir",
        file.to_str().expect("text"),
    ]);
    fs::remove_file(file).expect("removed");
    assert!(text(&output.stderr).contains("cannot read"), "{output:?}");

    let limited = |args: &str, blocks: &str| {
        let place = folder.path("");
        let line = format!(
            "ulimit -f {blocks}; exec {SUBLET} lend ca {args} --dir {}",
            place.display()
        );
        let output = Command::new("sh").args(["-c", &line]).output();
        let output = output.expect("it runs");
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = limited("init", "0");
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("cannot write") && said.contains("half-written"),
        "{said}"
    );
    assert!(files(&folder).is_empty());
    ca_ok(&folder, &["init"]);
    ca_ok(&folder, &["issue", "a"]);
    let before = files(&folder);
    assert_eq!(limited("issue a", "0").0, Some(1));
    assert_eq!(limited("issue b", "0").0, Some(1));
    // The key fits, and the certificate does not.
    let key = fs::metadata(folder.path("a.key")).expect("there").len();
    assert!(key <= 512 && fs::metadata(folder.path("a.crt")).expect("there").len() > 512);
    assert_eq!(limited("issue b", "1").0, Some(1));
    assert_eq!(files(&folder), before);
}

/// Another library's opinion of the same files.
#[test]
fn openssl_takes_the_certificates_for_both_ends() {
    let there = Command::new("openssl")
        .arg("version")
        .stdout(Stdio::null())
        .status();
    if there.is_err() {
        eprintln!("openssl is missing: skipped");
        return;
    }
    let folder = Folder::new();
    ca_ok(&folder, &["init", "--cluster", "blue"]);
    ca_ok(&folder, &["issue", "a"]);
    let openssl = |args: &[&str]| {
        let mut command = Command::new("openssl");
        let output = command.args(args).current_dir(folder.path("")).output();
        let output = output.expect("it runs");
        (
            output.status.success(),
            text(&output.stdout) + &text(&output.stderr),
        )
    };
    // A node that is named as its cluster does not look as if it were its own issuer.
    ca_ok(&folder, &["issue", "blue"]);
    let named = |which: &str| openssl(&["x509", "-in", "blue.crt", "-noout", which]).1;
    let names = ["-subject", "-issuer"].map(named);
    let names = names.each_ref().map(|name| name.trim().split_once('='));
    let [Some((_, subject)), Some((_, issuer))] = names else {
        panic!("{names:?}");
    };
    assert_ne!(subject, issuer);
    for (purpose, file) in [
        ("sslserver", "a.crt"),
        ("sslclient", "a.crt"),
        ("sslserver", "blue.crt"),
    ] {
        let strictly = ["verify", "-x509_strict", "-CAfile", "ca.crt"];
        let (good, said) = openssl(&[&strictly[..], &["-purpose", purpose, file]].concat());
        assert!(good, "{file}: {said}");
    }
    let (good, said) = openssl(&["x509", "-in", "a.crt", "-noout", "-ext", "subjectAltName"]);
    assert!(good && said.contains("URI:sublet://blue/a"), "{said}");
    let (good, said) = openssl(&["x509", "-in", "a.crt", "-noout", "-fingerprint", "-sha256"]);
    let printed = said
        .trim()
        .split_once('=')
        .map(|(_, printed)| printed.parse());
    assert_eq!(
        printed,
        Some(Ok(summary(&folder, "a.crt").fingerprint)),
        "{good}"
    );
}
