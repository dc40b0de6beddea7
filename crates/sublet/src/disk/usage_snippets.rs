//! What to paste so that a guest, or this host, uses a disk.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use sublet_types::{DiskKind, DiskListen, DiskSettings, DiskTls};

/// Lines to paste.
pub(super) struct UsageSnippet {
    /// The file or program to paste them into.
    pub(super) for_whom: &'static str,
    /// The lines.
    pub(super) lines: String,
}

/// How long a guest's requests wait for a daemon that is away, in seconds.
const RECONNECT_SECS: u32 = 60;

/// The longest serial number of a virtio disk, and of an NVMe one.
const SERIAL_LEN_MAX: usize = 20;

/// The longest node name in QEMU.
const NODE_LEN_MAX: usize = 31;

/// All ways to use a disk at one of its places.
pub(super) fn snippets(disk: &DiskSettings, place: &DiskListen) -> Vec<UsageSnippet> {
    let recipe = |for_whom, lines| UsageSnippet { for_whom, lines };
    let mut all = match place {
        DiskListen::VhostUser(path) => vec![
            recipe(
                "QEMU (size is the guest's memory, as in -m; any shared memory will do that is no file on a disk)",
                qemu_vhost_user(disk, path),
            ),
            recipe(
                "libvirt (memoryBacking stands beside devices)",
                libvirt_vhost_user(disk, path),
            ),
        ],
        DiskListen::Unix(_) | DiskListen::Tcp(..) => vec![
            recipe("QEMU", qemu_nbd(disk, place)),
            recipe(
                "libvirt, of any version (in place of the guest's first line, and before its last)",
                libvirt_arguments(disk, place),
            ),
            recipe(
                "libvirt 9.1 or later (9.0 drops <reconnect>, and the guest sees I/O errors when Sublet restarts)",
                libvirt_nbd(disk, place),
            ),
            recipe("this host, or any with nbd-client", nbd_client(disk, place)),
        ],
    };
    if let DiskListen::Unix(path) | DiskListen::VhostUser(path) = place {
        all.push(recipe(
            "AppArmor, where it confines libvirt's guests (they may then connect, from their next start on)",
            apparmor(path),
        ));
    }
    if disk.kind == DiskKind::Swap {
        all.push(recipe("the guest, once", swap_in_guest(place)));
    }
    all
}

/// A device of QEMU, and its properties.
struct QemuDevice {
    driver: &'static str,
    properties: Vec<(&'static str, Value)>,
}

impl QemuDevice {
    /// The device in the form that people write.
    fn words(&self) -> String {
        let mut words = self.driver.to_owned();
        for (name, value) in &self.properties {
            let value = value.as_str().map_or(value.to_string(), commas_doubled);
            let _ = write!(words, ",{name}={value}");
        }
        words
    }

    /// The device in the form that libvirt writes. QEMU makes such devices after the others, in order. So a device
    /// without an address takes none that libvirt gave to another.
    fn json(&self) -> String {
        let properties = self.properties.iter().cloned();
        let mut all: Map<_, _> = properties
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        all.insert("driver".to_owned(), self.driver.into());
        Value::Object(all).to_string()
    }
}

/// How a guest sees a disk over NBD.
fn nbd_devices(disk: &DiskSettings) -> Vec<QemuDevice> {
    let (node, serial) = (node(disk), serial(disk));
    let drive = [("drive", node.clone().into()), ("serial", serial.into())];
    match disk.kind {
        // A plain virtio disk counts as rotating, and Linux sends it no discards for freed swap. NVMe does not rotate
        // either, but QEMU's (7.2) misses a doorbell now and then, and its guest hangs. The bus is named because the
        // guest may have other SCSI controllers.
        DiskKind::Swap => {
            let bus = QemuDevice {
                driver: "virtio-scsi-pci",
                properties: vec![("id", format!("{node}-scsi").into())],
            };
            let mut properties = vec![("bus", format!("{node}-scsi.0").into())];
            properties.extend(drive);
            properties.push(("rotation_rate", 1.into()));
            let driver = "scsi-hd";
            vec![bus, QemuDevice { driver, properties }]
        }
        DiskKind::Disk => vec![QemuDevice {
            driver: "virtio-blk-pci",
            properties: drive.into(),
        }],
    }
}

/// What QEMU must know before it makes the devices: each option and its value.
fn nbd_backend(disk: &DiskSettings, place: &DiskListen) -> Vec<(&'static str, String)> {
    let mut arguments = Vec::new();
    if disk.tls_at(place).is_some() {
        // The folder holds ca-cert.pem, client-cert.pem and client-key.pem.
        let object = "tls-creds-x509,id=sublet-tls,endpoint=client,dir=/etc/pki/qemu";
        arguments.push(("-object", object.to_owned()));
    }
    arguments.push(("-blockdev", nbd_blockdev(disk, place)));
    arguments
}

fn nbd_blockdev(disk: &DiskSettings, place: &DiskListen) -> String {
    let node = node(disk);
    let at = match place {
        DiskListen::Tcp(host, port) => format!(
            "server.type=inet,server.host={},server.port={port}",
            commas_doubled(host)
        ),
        DiskListen::Unix(path) | DiskListen::VhostUser(path) => {
            format!("server.type=unix,server.path={}", commas_doubled(path))
        }
    };
    let credentials = disk.tls_at(place).map_or("", |_| ",tls-creds=sublet-tls");
    let read_only = if disk.read_only { ",read-only=on" } else { "" };
    format!(
        "driver=nbd,node-name={node},{at},export={},reconnect-delay={RECONNECT_SECS},discard=unmap{read_only}{credentials}",
        disk.name
    )
}

fn qemu_nbd(disk: &DiskSettings, place: &DiskListen) -> String {
    let mut arguments = nbd_backend(disk, place);
    let devices = nbd_devices(disk).into_iter();
    arguments.extend(devices.map(|device| ("-device", device.words())));
    let arguments = arguments.into_iter();
    let words = arguments.map(|(option, value)| format!("{option} {}", shell_word(&value)));
    let mut lines = words.collect::<Vec<_>>().join(" \\\n");
    lines.push('\n');
    if disk.kind == DiskKind::Swap {
        let (node, serial) = (node(disk), serial(disk));
        let _ = writeln!(
            lines,
            "# with QEMU 10 also: -device nvme,drive={node},serial={serial}"
        );
    }
    lines
}

/// QEMU's own arguments, which libvirt passes on unchanged.
fn libvirt_arguments(disk: &DiskSettings, place: &DiskListen) -> String {
    let mut lines = String::from(
        "<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\n\
         <qemu:commandline>\n",
    );
    let mut arguments = nbd_backend(disk, place);
    let devices = nbd_devices(disk).into_iter();
    arguments.extend(devices.map(|device| ("-device", device.json())));
    for (option, value) in arguments {
        let value = xml(&value);
        let _ = writeln!(
            lines,
            "  <qemu:arg value='{option}'/>\n  <qemu:arg value='{value}'/>"
        );
    }
    lines.push_str("</qemu:commandline>\n");
    lines
}

/// A rule for libvirt's AppArmor profile. The profile of a guest knows only the sockets of disks that libvirt itself
/// made.
fn apparmor(path: &str) -> String {
    let rule = shell_word(&format!("\"{path}\" rw,"));
    format!("echo {rule} >> /etc/apparmor.d/local/abstractions/libvirt-qemu\n")
}

fn qemu_vhost_user(disk: &DiskSettings, path: &str) -> String {
    let (node, queues) = (node(disk), disk.queues);
    let chardev = format!("socket,id={node},path={},reconnect=1", commas_doubled(path));
    format!(
        "-object memory-backend-memfd,id=mem,size=4G,share=on -numa node,memdev=mem \\\n\
         -chardev {} \\\n\
         -device vhost-user-blk-pci,chardev={node},num-queues={queues}\n",
        shell_word(&chardev)
    )
}

fn libvirt_nbd(disk: &DiskSettings, place: &DiskListen) -> String {
    let host = match place {
        DiskListen::Tcp(host, port) => format!("<host name='{}' port='{port}'/>", xml(host)),
        DiskListen::Unix(path) | DiskListen::VhostUser(path) => {
            format!("<host transport='unix' socket='{}'/>", xml(path))
        }
    };
    let tls = disk.tls_at(place).map_or("", |_| " tls='yes'");
    let target = match disk.kind {
        // A disk that does not rotate, so that Linux sends discards for freed swap.
        DiskKind::Swap => "<target dev='sdb' bus='scsi' rotation_rate='1'/>",
        DiskKind::Disk => "<target dev='vdb' bus='virtio'/>",
    };
    let mut lines = String::new();
    if disk.kind == DiskKind::Swap {
        lines.push_str("<controller type='scsi' model='virtio-scsi'/>\n");
    }
    let _ = write!(
        lines,
        "<disk type='network' device='disk'>\n  \
           <driver name='qemu' type='raw' cache='none' discard='unmap'/>\n  \
           <source protocol='nbd' name='{}'{tls}>\n    \
             {host}\n    \
             <reconnect delay='{RECONNECT_SECS}'/>\n  \
           </source>\n  \
           {target}\n  \
           <serial>{}</serial>\n{}\
         </disk>\n",
        disk.name,
        serial(disk),
        if disk.read_only {
            "  <readonly/>\n"
        } else {
            ""
        },
    );
    lines
}

fn libvirt_vhost_user(disk: &DiskSettings, path: &str) -> String {
    format!(
        "<memoryBacking>\n  \
           <source type='memfd'/>\n  \
           <access mode='shared'/>\n\
         </memoryBacking>\n\
         <disk type='vhostuser' device='disk'>\n  \
           <driver name='qemu' type='raw' queues='{}'/>\n  \
           <source type='unix' path='{}'>\n    \
             <reconnect enabled='yes' timeout='1'/>\n  \
           </source>\n  \
           <target dev='vdb' bus='virtio'/>\n\
         </disk>\n",
        disk.queues,
        xml(path)
    )
}

fn nbd_client(disk: &DiskSettings, place: &DiskListen) -> String {
    let at = match place {
        DiskListen::Tcp(host, port) => format!("{host} {port}"),
        DiskListen::Unix(path) | DiskListen::VhostUser(path) => {
            format!("-unix {}", shell_word(path))
        }
    };
    // The guest's memory must not be swapped out to the swap that it serves.
    let swap = match disk.kind {
        DiskKind::Swap => " -swap",
        DiskKind::Disk => "",
    };
    let tls = match disk.tls_at(place) {
        Some(DiskTls { client_ca, .. }) => {
            let own = client_ca
                .as_ref()
                .map_or("", |_| " -certfile CERT -keyfile KEY");
            format!(" -enable-tls -cacertfile CA{own}")
        }
        None => String::new(),
    };
    format!(
        "nbd-client {at} /dev/nbd0 -name {} -block-size 4096 -persist{swap}{tls}\n",
        disk.name
    )
}

/// How the guest must use a swap disk so that the memory it frees comes back to the pool.
fn swap_in_guest(place: &DiskListen) -> String {
    match place {
        DiskListen::VhostUser(_) => "\
echo 'ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"vd[a-z]\", ATTR{queue/rotational}=\"0\"' \\
  > /etc/udev/rules.d/60-sublet.rules   # without it Linux sends no discards for freed swap
udevadm trigger --subsystem-match=block --action=change
mkswap /dev/vdb && swapon --discard /dev/vdb\n"
            .to_owned(),
        DiskListen::Unix(_) | DiskListen::Tcp(..) => {
            "mkswap /dev/sdb && swapon --discard /dev/sdb   # /dev/nvme0n1 as an NVMe disk\n".to_owned()
        }
    }
}

/// A name that QEMU accepts: it begins with a letter and is not too long.
fn node(disk: &DiskSettings) -> String {
    let name = disk.name.as_str();
    let lead = match name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => "",
        false => "d",
    };
    format!("{lead}{name}").chars().take(NODE_LEN_MAX).collect()
}

fn serial(disk: &DiskSettings) -> String {
    disk.name.as_str().chars().take(SERIAL_LEN_MAX).collect()
}

/// Doubles commas, which is how QEMU takes a comma in a value.
fn commas_doubled(text: &str) -> String {
    text.replace(',', ",,")
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('\'', "&apos;")
}

/// Quotes a text as one word of a shell.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    match text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str, kind: DiskKind) -> DiskSettings {
        DiskSettings {
            name: name.parse().expect(name),
            kind,
            tenant: "web".parse().expect("a name"),
            backing: None,
            size: None,
            listen: Vec::new(),
            mode: 0o600,
            queues: 2,
            read_only: false,
            durability: None,
            fill: None,
            windows: None,
            sequential_max: None,
            slow: None,
            tls: None,
        }
    }

    fn lines(disk: &DiskSettings, place: &str) -> Vec<String> {
        let place = place.parse().expect(place);
        let all = snippets(disk, &place).into_iter();
        all.map(|recipe| recipe.lines).collect()
    }

    #[test]
    fn a_disk_on_a_unix_socket_is_a_virtio_disk() {
        let lines = lines(&disk("db", DiskKind::Disk), "unix:/run/db.sock");
        let [qemu, arguments, libvirt, client, apparmor] = &lines[..] else {
            panic!("{lines:?}")
        };
        assert_eq!(
            *qemu,
            "-blockdev driver=nbd,node-name=db,server.type=unix,server.path=/run/db.sock,export=db,\
             reconnect-delay=60,discard=unmap \\\n-device virtio-blk-pci,drive=db,serial=db\n"
        );
        assert_eq!(
            *arguments,
            "<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\n\
             <qemu:commandline>\n  \
               <qemu:arg value='-blockdev'/>\n  \
               <qemu:arg value='driver=nbd,node-name=db,server.type=unix,server.path=/run/db.sock,export=db,\
             reconnect-delay=60,discard=unmap'/>\n  \
               <qemu:arg value='-device'/>\n  \
               <qemu:arg value='{\"drive\":\"db\",\"driver\":\"virtio-blk-pci\",\"serial\":\"db\"}'/>\n\
             </qemu:commandline>\n"
        );
        assert_eq!(
            *apparmor,
            "echo '\"/run/db.sock\" rw,' >> /etc/apparmor.d/local/abstractions/libvirt-qemu\n"
        );
        assert!(libvirt.contains("<host transport='unix' socket='/run/db.sock'/>"));
        assert!(libvirt.contains("<reconnect delay='60'/>"));
        assert_eq!(
            *client,
            "nbd-client -unix /run/db.sock /dev/nbd0 -name db -block-size 4096 -persist\n"
        );
    }

    #[test]
    fn swap_is_a_disk_that_does_not_rotate() {
        let swap = disk("web-swap", DiskKind::Swap);
        let nbd = lines(&swap, "tcp:[::1]:10809");
        assert!(nbd[0].contains("server.type=inet,server.host=::1,server.port=10809"));
        assert!(nbd[0].contains("-device virtio-scsi-pci,id=web-swap-scsi \\\n-device scsi-hd,"));
        assert!(
            nbd[0].contains("bus=web-swap-scsi.0,drive=web-swap,serial=web-swap,rotation_rate=1")
        );
        assert!(nbd[1].contains("\"rotation_rate\":1,"));
        assert!(nbd[2].contains("rotation_rate='1'"));
        assert!(nbd[3].contains("nbd-client ::1 10809 ") && nbd[3].contains(" -swap"));
        assert!(nbd[4].contains("swapon --discard"));
        let vhost = lines(&swap, "vhost-user:/run/w");
        assert!(vhost[0].contains("socket,id=web-swap,path=/run/w,reconnect=1"));
        assert!(vhost[0].contains("num-queues=2"));
        assert!(vhost[1].contains("<driver name='qemu' type='raw' queues='2'/>"));
        assert!(vhost[3].contains("ATTR{queue/rotational}=\"0\""));
    }

    #[test]
    fn odd_names_and_paths_are_written_so_that_they_are_read_back() {
        let long = format!("9{}", "x".repeat(40));
        let odd = disk(&long, DiskKind::Disk);
        let lines = lines(&odd, "unix:/run/a, b's&.sock");
        assert!(lines[0].contains(&format!("node-name=d9{},", "x".repeat(29))));
        assert!(lines[0].contains(&format!("serial=9{}\n", "x".repeat(19))));
        assert!(lines[0].contains(r"server.path=/run/a,, b'\''s&.sock,"));
        assert!(lines[1].contains("server.path=/run/a,, b&apos;s&amp;.sock,"));
        assert!(lines[2].contains("socket='/run/a, b&apos;s&amp;.sock'"));
        assert!(lines[3].contains(r"-unix '/run/a, b'\''s&.sock' "));
    }

    #[test]
    fn tls_is_for_tcp_and_a_disk_may_be_read_only() {
        let mut db = disk("db", DiskKind::Disk);
        db.read_only = true;
        db.tls = Some(DiskTls {
            cert: "/c".into(),
            key: "/k".into(),
            client_ca: Some("/a".into()),
        });
        let tcp = lines(&db, "tcp:10.0.0.1:10809");
        assert!(tcp[0].starts_with("-object tls-creds-x509,id=sublet-tls,"));
        assert!(tcp[0].contains(",read-only=on,tls-creds=sublet-tls"));
        assert!(
            tcp[1].contains("<qemu:arg value='-object'/>") && tcp[1].contains(",read-only=on,")
        );
        assert!(tcp[2].contains(" tls='yes'>") && tcp[2].contains("<readonly/>"));
        assert!(tcp[3].contains("-cacertfile CA -certfile CERT"));
        assert!(!lines(&db, "unix:/run/db.sock")[0].contains("tls"));
    }
}
