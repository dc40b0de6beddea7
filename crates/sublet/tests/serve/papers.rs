//! Certificates and keys as `openssl` makes them, on every listener that speaks TLS, with clients of other projects.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use sublet_client::{Admin, AdminEndpoint};

use crate::daemon::{Daemon, Folder, text};

const CONFIG: &str = "\
[admin]
tcp = \"tcp:127.0.0.1:0\"
tls_cert = \"FOLDER/server-cert.pem\"
tls_key = \"FOLDER/server-key.pem\"
token_file = \"FOLDER/token\"
[tenants.web]
listen = [\"tcp:127.0.0.1:0\"]
tls_cert = \"FOLDER/server-cert.pem\"
tls_key = \"FOLDER/server-key.pem\"
tls_ca = \"FOLDER/ca-cert.pem\"
[disks.db]
tenant = \"web\"
backing = \"FOLDER/db.img\"
listen = [\"tcp:127.0.0.1:0\"]
tls_cert = \"FOLDER/server-cert.pem\"
tls_key = \"FOLDER/server-key.pem\"
tls_client_ca = \"FOLDER/ca-cert.pem\"
";

const RSA_2048: &[&str] = &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
const RSA_2049: &[&str] = &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2049"];
const RSA_2432: &[&str] = &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2432"];
const RSA_1024: &[&str] = &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"];
const P_256: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
const P_521: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"];
const P_224: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-224"];

/// The version of X.509 of a certificate. `openssl x509 -req` writes the first version unless it gets extensions.
#[derive(Clone, Copy)]
enum X509 {
    V1,
    V3,
}

fn openssl(folder: &Folder, args: &[&str]) -> Output {
    let mut command = Command::new("openssl");
    command.args(args).current_dir(folder.path(""));
    command.output().expect("openssl runs")
}

fn make(folder: &Folder, args: &[&str]) {
    let output = openssl(folder, args);
    assert!(output.status.success(), "{args:?}: {output:?}");
}

fn has_openssl() -> bool {
    let there = Command::new("openssl").arg("version").output().is_ok();
    if !there {
        eprintln!("openssl is missing: skipped");
    }
    there
}

fn make_key(folder: &Folder, name: &str, algorithm: &[&str]) {
    let key = format!("{name}-key.pem");
    make(folder, &[&["genpkey", "-out", &key], algorithm].concat());
}

/// Makes a certificate request in `NAME.csr`, for the key in `NAME-key.pem`.
fn request_certificate(folder: &Folder, name: &str, subject: &str) {
    let (key, request) = (format!("{name}-key.pem"), format!("{name}.csr"));
    let subject = format!("/CN={subject}");
    let args = [
        "req", "-new", "-key", &key, "-subj", &subject, "-out", &request,
    ];
    make(folder, &args);
}

/// Makes an authority that signed itself.
fn authority(folder: &Folder, algorithm: &[&str], version: X509) {
    make_key(folder, "ca", algorithm);
    request_certificate(folder, "ca", "authority");
    let own = [
        "x509",
        "-req",
        "-in",
        "ca.csr",
        "-signkey",
        "ca-key.pem",
        "-out",
        "ca-cert.pem",
    ];
    folder.write("ca.ext", "basicConstraints=critical,CA:TRUE\n");
    match version {
        X509::V1 => make(folder, &own),
        X509::V3 => make(folder, &[&own[..], &["-extfile", "ca.ext"]].concat()),
    }
}

/// Makes a key, and a certificate that the authority signed, in `NAME-cert.pem`.
fn sign(folder: &Folder, name: &str, algorithm: &[&str], subject: &str, version: X509) {
    make_key(folder, name, algorithm);
    certify(folder, name, subject, version);
}

fn certify(folder: &Folder, name: &str, subject: &str, version: X509) {
    request_certificate(folder, name, subject);
    let (request, certificate) = (format!("{name}.csr"), format!("{name}-cert.pem"));
    let from = ["x509", "-req", "-in", &request, "-out", &certificate];
    let by = [
        "-CA",
        "ca-cert.pem",
        "-CAkey",
        "ca-key.pem",
        "-CAcreateserial",
    ];
    let signed = [from.as_slice(), by.as_slice()].concat();
    folder.write("leaf.ext", &format!("subjectAltName=DNS:{subject}\n"));
    match version {
        X509::V1 => make(folder, &signed),
        X509::V3 => make(folder, &[&signed[..], &["-extfile", "leaf.ext"]].concat()),
    }
}

/// Signs `NAME`'s request again with `ISSUER`, and appends the issuer's certificate.
fn sign_by(folder: &Folder, name: &str, issuer: &str, version: X509) {
    let (request, certificate) = (format!("{name}.csr"), format!("{name}-cert.pem"));
    let (theirs, key) = (format!("{issuer}-cert.pem"), format!("{issuer}-key.pem"));
    let child = ["x509", "-req", "-in", &request, "-out", &certificate];
    let by = ["-CA", &theirs, "-CAkey", &key, "-CAcreateserial"];
    folder.write("leaf.ext", "subjectAltName=DNS:client.test\n");
    let with: &[&str] = match version {
        X509::V1 => &[],
        X509::V3 => &["-extfile", "leaf.ext"],
    };
    make(folder, &[&child[..], &by[..], with].concat());
    let theirs = fs::read_to_string(folder.path(&theirs)).expect("read");
    rewrite(folder, &certificate, |text| text + &theirs);
}

/// Trusts a certificate with these extensions, beside the authority.
fn pin(folder: &Folder, name: &str, extensions: &str) {
    make_key(folder, name, P_256);
    request_certificate(folder, name, name);
    folder.write("pinned.ext", extensions);
    let (request, key) = (format!("{name}.csr"), format!("{name}-key.pem"));
    let certificate = format!("{name}-cert.pem");
    let own = ["x509", "-req", "-in", &request, "-signkey", &key];
    let with = ["-extfile", "pinned.ext", "-out", &certificate];
    make(folder, &[&own[..], &with[..]].concat());
    let pinned = fs::read_to_string(folder.path(&certificate)).expect("read");
    rewrite(folder, "ca-cert.pem", |text| text + &pinned);
}

/// Makes a folder with an authority, a server and a client.
fn make_credentials(algorithm: &[&str], version: X509) -> Folder {
    let folder = Folder::new();
    authority(&folder, algorithm, version);
    sign(&folder, "server", algorithm, "localhost", version);
    sign(&folder, "client", algorithm, "client.test", version);
    folder
}

fn write_config(folder: &Folder) -> String {
    fs::write(folder.path("db.img"), vec![0; 1 << 20]).expect("written");
    let token = folder.write("token", "0123456789abcdef0123456789abcdef");
    fs::set_permissions(token, Permissions::from_mode(0o600)).expect("set");
    CONFIG.replace("FOLDER", folder.path("").to_str().expect("text"))
}

fn serve(folder: &Folder) -> Daemon {
    folder.serve_config(&write_config(folder))
}

/// What the daemon prints when it does not start.
fn refusal(folder: &Folder) -> String {
    let file = folder.write("c.toml", &write_config(folder));
    let file = file.to_str().expect("text");
    let refused = folder
        .command(&["--config", file])
        .output()
        .expect("it runs");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    text(&refused.stderr)
}

fn port(place: &str) -> u16 {
    let port = place.rsplit_once(':').expect(place).1;
    port.parse().expect("a port")
}

/// What memcached's listener answers to `openssl s_client`, which presents the certificate of `client`.
fn memcached_says(folder: &Folder, port: u16, client: &str, version: &str) -> String {
    let (certificate, key) = (format!("{client}-cert.pem"), format!("{client}-key.pem"));
    let mut command = Command::new("openssl");
    command
        .args(["s_client", "-quiet", "-verify_return_error", version])
        .args(["-connect", &format!("127.0.0.1:{port}")])
        .args([
            "-CAfile",
            "trusted.pem",
            "-cert",
            &certificate,
            "-key",
            &key,
        ])
        .args(["-cert_chain", &certificate])
        .current_dir(folder.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("openssl runs");
    let mut stdin = child.stdin.take().expect("piped");
    // A refused client reads nothing.
    let _ = stdin.write_all(b"mn\r\nquit\r\n");
    let said = child.wait_with_output().expect("it ends");
    drop(stdin);
    text(&said.stdout)
}

fn nbdinfo_says(folder: &Path, port: u16) -> Option<Output> {
    let folder = folder.display();
    let uri = format!("nbds://localhost:{port}/db?tls-certificates={folder}");
    let output = Command::new("nbdinfo").arg("--size").arg(uri).output();
    if output.is_err() {
        eprintln!("nbdinfo is missing: skipped");
    }
    output.ok()
}

/// Starts every listener with the certificates of this folder. Clients of other projects present theirs, which are of
/// the same kind.
#[track_caller]
fn everybody_comes_in(folder: &Folder) {
    let daemon = serve(folder);
    let status = folder.admin().status().expect("answered");
    let memcached = port(&status.tenants[0].listen[0]);
    for version in ["-tls1_2", "-tls1_3"] {
        let said = memcached_says(folder, memcached, "client", version);
        assert_eq!(said, "MN\r\n", "{version}");
    }
    let disk = folder.admin().disks().expect("answered");
    let nbd = port(&disk.disks[0].settings.listen[0].to_string());
    if let Some(said) = nbdinfo_says(&folder.path("clients"), nbd) {
        assert_eq!(text(&said.stdout), "1048576\n", "{said:?}");
    }
    let line = |line: &&str| line.contains("with TLS and the token");
    let line = daemon.greeting.lines().find(line).expect("a place");
    let door = AdminEndpoint::Tcp {
        host: "localhost".to_owned(),
        port: port(line.split(',').next().expect("a place")),
        ca: folder.path("ca-cert.pem"),
        token_file: folder.path("token"),
    };
    let afar = Admin::at(door).expect("a handle").status();
    assert_eq!(afar.expect("answered").daemon.pid, daemon.pid());
}

/// Copies what clients read, before the server's files are written in another way.
fn hand_out(folder: &Folder) {
    fs::create_dir(folder.path("clients")).expect("made");
    fs::copy(folder.path("ca-cert.pem"), folder.path("trusted.pem")).expect("copied");
    for file in ["ca-cert.pem", "client-cert.pem", "client-key.pem"] {
        let to = folder.path("clients").join(file);
        fs::copy(folder.path(file), to).expect("copied");
    }
}

fn rewrite(folder: &Folder, file: &str, change: impl Fn(String) -> String) {
    let text = fs::read_to_string(folder.path(file)).expect("read");
    folder.write(file, &change(text));
}

#[test]
fn keys_of_every_size_and_curve_serve_and_are_shown() {
    if !has_openssl() {
        return;
    }
    for algorithm in [RSA_2049, RSA_2432, P_521] {
        let folder = make_credentials(algorithm, X509::V3);
        hand_out(&folder);
        everybody_comes_in(&folder);
    }
}

#[test]
fn a_key_of_certtool_serves() {
    let there = Command::new("certtool").arg("--version").output().is_ok();
    if !has_openssl() || !there {
        eprintln!("certtool is missing: skipped");
        return;
    }
    let folder = make_credentials(P_256, X509::V3);
    let output = Command::new("certtool")
        .args(["--generate-privkey", "--key-type=rsa", "--bits=2432"])
        .output()
        .expect("it runs");
    // It writes the parts of the key before the key itself.
    fs::write(folder.path("server-key.pem"), output.stdout).expect("written");
    certify(&folder, "server", "localhost", X509::V1);
    hand_out(&folder);
    everybody_comes_in(&folder);
}

#[test]
fn x509_v1_serves_and_is_shown() {
    if !has_openssl() {
        return;
    }
    for algorithm in [RSA_2048, P_256, P_521] {
        let folder = make_credentials(algorithm, X509::V1);
        hand_out(&folder);
        let version = openssl(
            &folder,
            &["x509", "-in", "client-cert.pem", "-noout", "-text"],
        );
        assert!(text(&version.stdout).contains("Version: 1 (0x0)"));
        everybody_comes_in(&folder);
    }
}

#[test]
fn files_may_begin_with_a_byte_order_mark_and_labels_may_lie() {
    if !has_openssl() {
        return;
    }
    let folder = make_credentials(RSA_2048, X509::V3);
    hand_out(&folder);
    for file in ["server-cert.pem", "server-key.pem", "ca-cert.pem"] {
        rewrite(&folder, file, |text| {
            format!("\u{feff}{text}").replace('\n', "\r\n")
        });
    }
    rewrite(&folder, "server-key.pem", |text| {
        text.replace(" PRIVATE KEY", " RSA PRIVATE KEY")
    });
    everybody_comes_in(&folder);
}

#[test]
fn a_certificate_that_signed_itself_serves_and_is_shown() {
    if !has_openssl() {
        return;
    }
    let folder = Folder::new();
    // What most guides recommend: an authority that is its own server and client.
    let name = ["-subj", "/CN=localhost", "-newkey", "rsa:2048", "-nodes"];
    let files = ["-keyout", "ca-key.pem", "-out", "ca-cert.pem"];
    make(
        &folder,
        &[&["req", "-x509"], &name[..], &files[..]].concat(),
    );
    for role in ["server", "client"] {
        for kind in ["cert", "key"] {
            let copy = folder.path(&format!("{role}-{kind}.pem"));
            fs::copy(folder.path(&format!("ca-{kind}.pem")), copy).expect("copied");
        }
    }
    hand_out(&folder);
    everybody_comes_in(&folder);
}

#[test]
fn x509_v1_of_a_stranger_or_out_of_time_or_of_somebody_elses_key_stays_outside() {
    if !has_openssl() {
        return;
    }
    let folder = make_credentials(P_256, X509::V1);
    hand_out(&folder);
    for name in ["late", "twin", "false", "child"] {
        sign(&folder, name, P_256, "client.test", X509::V1);
    }
    let late = [
        "x509",
        "-req",
        "-in",
        "late.csr",
        "-out",
        "late-cert.pem",
        "-days",
        "-1",
    ];
    let by = ["-CA", "ca-cert.pem", "-CAkey", "ca-key.pem"];
    make(&folder, &[&late[..], &by[..]].concat());
    // An authority of the same name signed it, but not the same authority.
    let stranger = make_credentials(P_256, X509::V1);
    for file in ["false-cert.pem", "false-key.pem"] {
        let theirs = stranger.path(&file.replace("false", "client"));
        fs::copy(theirs, folder.path(file)).expect("copied");
    }
    // The client signed it, and its certificate of version 1 does not say that it may sign.
    sign_by(&folder, "child", "client", X509::V1);
    let _daemon = serve(&folder);
    let status = folder.admin().status().expect("answered");
    let memcached = port(&status.tenants[0].listen[0]);
    for version in ["-tls1_2", "-tls1_3"] {
        let says = |client| memcached_says(&folder, memcached, client, version);
        assert_eq!(says("twin"), "MN\r\n");
        for client in ["late", "false", "child"] {
            assert_eq!(says(client), "", "{client} {version}");
        }
    }
}

#[test]
fn x509_v1_is_believed_of_whom_an_authority_lets_sign() {
    if !has_openssl() {
        return;
    }
    let folder = make_credentials(P_256, X509::V3);
    hand_out(&folder);
    for (between, extensions) in [
        (
            "good",
            "basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=keyCertSign\n",
        ),
        ("plain", "subjectAltName=DNS:x\n"),
        (
            "useless",
            "basicConstraints=critical,CA:TRUE\nkeyUsage=digitalSignature\n",
        ),
        (
            "servers",
            "basicConstraints=critical,CA:TRUE\nextendedKeyUsage=serverAuth\n",
        ),
        (
            "named",
            "basicConstraints=critical,CA:TRUE\nnameConstraints=critical,permitted;DNS:x\n",
        ),
    ] {
        make_key(&folder, between, P_256);
        request_certificate(&folder, between, between);
        folder.write("between.ext", extensions);
        let (request, certificate) = (format!("{between}.csr"), format!("{between}-cert.pem"));
        let from = ["x509", "-req", "-in", &request, "-out", &certificate];
        let by = [
            "-CA",
            "ca-cert.pem",
            "-CAkey",
            "ca-key.pem",
            "-CAcreateserial",
        ];
        let with = ["-extfile", "between.ext"];
        make(&folder, &[&from[..], &by[..], &with[..]].concat());
        let leaf = format!("of-{between}");
        make_key(&folder, &leaf, P_256);
        request_certificate(&folder, &leaf, "client.test");
        sign_by(&folder, &leaf, between, X509::V1);
    }
    pin(&folder, "pinned", "basicConstraints=critical,CA:FALSE\n");
    pin(&folder, "named-only", "subjectAltName=DNS:client.test\n");
    pin(&folder, "key-only", "keyUsage=critical,digitalSignature\n");
    pin(&folder, "signing", "keyUsage=critical,keyCertSign\n");
    pin(
        &folder,
        "unsigning",
        "basicConstraints=critical,CA:TRUE\nkeyUsage=digitalSignature\n",
    );
    for (issuer, leaf, version) in [
        ("pinned", "of-pinned", X509::V1),
        ("pinned", "v3-of-pinned", X509::V3),
        ("named-only", "of-named-only", X509::V1),
        ("named-only", "v3-of-named-only", X509::V3),
        ("key-only", "v3-of-key-only", X509::V3),
        ("signing", "v3-of-signing", X509::V3),
        ("unsigning", "v3-of-unsigning", X509::V3),
    ] {
        sign(&folder, leaf, P_256, "client.test", version);
        sign_by(&folder, leaf, issuer, version);
    }
    let _daemon = serve(&folder);
    let status = folder.admin().status().expect("answered");
    let memcached = port(&status.tenants[0].listen[0]);
    let says = |client| memcached_says(&folder, memcached, client, "-tls1_3");
    for client in [
        "of-good",
        "pinned",
        "named-only",
        "key-only",
        "v3-of-signing",
    ] {
        assert_eq!(says(client), "MN\r\n", "{client}");
    }
    for client in [
        "of-plain",
        "of-useless",
        "of-servers",
        "of-named",
        "of-pinned",
        "v3-of-pinned",
        "of-named-only",
        "v3-of-named-only",
        "v3-of-key-only",
        "v3-of-unsigning",
    ] {
        assert_eq!(says(client), "", "{client}");
    }
}

#[test]
fn what_cannot_be_used_is_named_with_its_file_and_what_it_is() {
    if !has_openssl() {
        return;
    }
    let folder = make_credentials(P_256, X509::V3);
    let good = fs::read_to_string(folder.path("server-key.pem")).expect("read");
    for (algorithm, found) in [
        (RSA_1024, "an RSA key of 1024 bits"),
        (P_224, "a key on the curve P-224"),
        (&["-algorithm", "ED448"], "a key of the algorithm Ed448"),
    ] {
        make(
            &folder,
            &[&["genpkey", "-out", "server-key.pem"], algorithm].concat(),
        );
        let said = refusal(&folder);
        assert!(said.contains("cannot use the key in "), "{said}");
        assert!(
            said.contains(&format!("server-key.pem: it is {found}; RSA of 2048")),
            "{said}"
        );
    }
    let encrypted = ["-aes128", "-pass", "pass:x", "-out", "server-key.pem"];
    make(&folder, &[&["genpkey"], P_256, &encrypted[..]].concat());
    assert!(
        refusal(&folder).contains("is encrypted; write it without its password: openssl pkey -in")
    );
    make(
        &folder,
        &[&["genpkey", "-out", "server-key.pem"], P_256].concat(),
    );
    assert!(refusal(&folder).contains("is not the one of the first certificate in"));
    let certificate = fs::read_to_string(folder.path("server-cert.pem")).expect("read");
    folder.write("server-key.pem", &certificate);
    assert!(refusal(&folder).contains("server-key.pem holds no private key but CERTIFICATE;"));
    folder.write("server-key.pem", &good);
    folder.write("server-cert.pem", &good);
    assert!(refusal(&folder).contains("server-cert.pem holds no certificate but PRIVATE KEY;"));
    folder.write("server-cert.pem", &certificate);
    folder.write(
        "ca-cert.pem",
        "-----BEGIN CERTIFICATE-----\nMAAw\n-----END CERTIFICATE-----\n",
    );
    assert!(refusal(&folder).contains("certificate 1 in "));
    make(
        &folder,
        &[
            "x509",
            "-in",
            "server-cert.pem",
            "-outform",
            "DER",
            "-out",
            "ca-cert.pem",
        ],
    );
    assert!(refusal(&folder).contains("but DER, which is not PEM; "));
}
