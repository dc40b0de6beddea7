//! Requests of drivers that ignore every limit. For each request one of these holds: the daemon carries it out, or its
//! status says that it did not, or the queue stops. Such a driver zeroes the status byte first, so a request that is
//! answered without a status counts as done.

#[path = "../examples/memory_disk/mod.rs"]
mod memory_disk;

use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use memory_disk::{DiskBehavior, MemoryDisk, backend};
use sublet_frontends::block_device::DiskShape;
use sublet_frontends::vhost_user::serve::{Settings, VhostUserService, start};
use sublet_vhost_driver::{Driver, DriverRequest, DriverSettings};
use vhost::VhostUserMemoryRegionInfo;
use vhost::vhost_user::VhostUserFrontend;
use vm_memory::{Bytes, GuestAddress};

const LONGEST: Duration = Duration::from_secs(10);

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

const IO_ERR: u8 = 1;

/// Where a guest puts the descriptors of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DescriptorTable {
    /// In the queue's own table.
    Direct,
    /// In a table of the request's own.
    Indirect,
}

/// Where things lie in the driver's only slot: header and status, an indirect table, buffers.
const STATUS_AT: u64 = 16;
const TABLE_AT: u64 = 4096;
const BUFFER_AT: u64 = 128 << 10;
const STRIDE: u64 = 1024;
const SEGMENT: u32 = 512;

struct Guest {
    driver: Driver,
    room: u64,
    table: DescriptorTable,
}

struct DiskFixture {
    disk: Arc<MemoryDisk>,
    running: VhostUserService,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

fn serve() -> DiskFixture {
    let (backend, tenant) = backend();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    let shape = DiskShape {
        bytes: 1 << 20,
        read_only: false,
        trims: true,
    };
    let behavior = DiskBehavior {
        hits: 4,
        takes_writes: true,
        delay_max: Duration::from_micros(100),
    };
    let file = tempfile::tempfile().expect("a file");
    file.set_len(shape.bytes).expect("its length");
    let disk = MemoryDisk::new("chains", tenant, shape, file, behavior);
    let settings = Settings {
        queues: 1,
        ..Settings::default()
    };
    let running =
        start(Arc::clone(&disk) as _, &path, 0o600, &backend, settings).expect("it is served");
    DiskFixture {
        disk,
        running,
        path,
        _folder: folder,
    }
}

impl Guest {
    fn connect(fixture: &DiskFixture, queue_size: u16, table: DescriptorTable) -> Guest {
        let layout = DriverSettings {
            queue_size,
            slots: 1,
            slot_bytes: 4 << 20,
            indirect: table == DescriptorTable::Indirect,
            ..DriverSettings::default()
        };
        let mut driver = Driver::new(layout).expect("a driver");
        driver.connect(&fixture.path).expect("a connection");
        let room = driver.queues[0].bytes_at(0);
        Guest {
            driver,
            room,
            table,
        }
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        let memory = self.driver.memory();
        memory
            .write_slice(bytes, GuestAddress(self.room + at))
            .expect("in memory");
    }

    fn get(&self, at: u64, len: u32) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        let memory = self.driver.memory();
        memory
            .read_slice(&mut bytes, GuestAddress(self.room + at))
            .expect("in memory");
        bytes
    }

    /// Lays out a chain, with a zero where the status will be, and offers it.
    fn offer(&mut self, kind: u8, middle: &[(u64, u32, u16)], last: (u64, u32, u16)) {
        let mut header = [0; 16];
        header[0] = kind;
        self.put(0, &header);
        self.put(STATUS_AT, &[0]);
        let mut rows = vec![(0, 16, 0)];
        rows.extend_from_slice(middle);
        rows.push(last);
        for (n, &(at, len, direction)) in rows.iter().enumerate() {
            let next = if n + 1 < rows.len() { NEXT } else { 0 };
            let row = (self.room + at, len, direction | next, n as u16 + 1);
            self.lay(n as u64, row);
        }
        if self.table == DescriptorTable::Indirect {
            let table = (self.room + TABLE_AT, 16 * rows.len() as u32, INDIRECT, 0);
            self.driver.queues[0]
                .write_descriptor(0, table)
                .expect("in memory");
        }
        self.driver.queues[0].push_available(0).expect("a place");
        self.driver.queues[0].kick_anyway().expect("a kick");
    }

    fn lay(&self, n: u64, row: (u64, u32, u16, u16)) {
        if self.table == DescriptorTable::Direct {
            return self.driver.queues[0]
                .write_descriptor(n as u16, row)
                .expect("in memory");
        }
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&row.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&row.1.to_le_bytes());
        bytes[12..14].copy_from_slice(&row.2.to_le_bytes());
        bytes[14..].copy_from_slice(&row.3.to_le_bytes());
        self.put(TABLE_AT + 16 * n, &bytes);
    }

    /// Submits a request with a sound last descriptor. Returns its status byte afterwards.
    fn submit_and_wait(&mut self, kind: u8, middle: &[(u64, u32, u16)]) -> u8 {
        self.offer(kind, middle, (STATUS_AT, 1, WRITE));
        let queue = &mut self.driver.queues[0];
        assert!(queue.wait(LONGEST).expect("a wait"), "no answer");
        assert!(
            queue.reap().is_err(),
            "of which the driver's slots know nothing"
        );
        self.get(STATUS_AT, 1)[0]
    }

    fn fill(&self, segments: u64, salt: u64) {
        for n in 0..segments {
            self.put(BUFFER_AT + n * STRIDE, &pattern(n, salt));
        }
    }

    fn has(&self, segments: u64, salt: u64) -> bool {
        let holds = |n| self.get(BUFFER_AT + n * STRIDE, SEGMENT) == pattern(n, salt);
        (0..segments).all(holds)
    }
}

fn pattern(n: u64, salt: u64) -> Vec<u8> {
    let byte = |i| (n * 7 + i * 13 + salt) as u8;
    (0..u64::from(SEGMENT)).map(byte).collect()
}

fn buffers(segments: u64, direction: u16) -> Vec<(u64, u32, u16)> {
    let segment = |n| (BUFFER_AT + n * STRIDE, SEGMENT, direction);
    (0..segments).map(segment).collect()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONGEST;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn as_many_segments_as_the_ring_has_places_are_written_and_read() {
    let fixture = serve();
    for table in [DescriptorTable::Indirect, DescriptorTable::Direct] {
        let mut guest = Guest::connect(&fixture, 1024, table);
        for segments in [1, 126, 300, 515, 1022] {
            guest.fill(segments, segments);
            assert_eq!(guest.submit_and_wait(1, &buffers(segments, 0)), 0);
            guest.fill(segments, 99);
            assert_eq!(guest.submit_and_wait(0, &buffers(segments, WRITE)), 0);
            assert!(guest.has(segments, segments), "{segments}, {table:?}");
        }
    }
    let mut small = Guest::connect(&fixture, 128, DescriptorTable::Indirect);
    small.fill(515, 3);
    assert_eq!(
        small.submit_and_wait(1, &buffers(515, 0)),
        0,
        "the table is not the ring"
    );
    assert_eq!(fixture.running.figures().faults.get(), 0);
    fixture.running.stop();
}

/// Waits for the count of faults, which changes just after the answer.
fn faults_become(fixture: &DiskFixture, count: u64) {
    let faults = || fixture.running.figures().faults.get();
    until("the faults are counted", || faults() >= count);
    assert_eq!(faults(), count);
}

#[test]
fn more_segments_than_that_are_told_to_have_failed() {
    let fixture = serve();
    let mut guest = Guest::connect(&fixture, 128, DescriptorTable::Indirect);
    guest.fill(1023, 5);
    assert_eq!(guest.submit_and_wait(1, &buffers(1023, 0)), IO_ERR);
    assert_eq!(guest.submit_and_wait(0, &buffers(1023, WRITE)), IO_ERR);
    assert!(guest.has(1023, 5), "nothing was read into them");
    assert_eq!(guest.submit_and_wait(0, &buffers(8, WRITE)), 0);
    assert!(!guest.has(1, 5), "and nothing had been written");
    faults_become(&fixture, 2);
    fixture.running.stop();
}

#[test]
fn an_empty_descriptor_does_no_harm_and_one_out_of_order_fails() {
    let fixture = serve();
    for table in [DescriptorTable::Indirect, DescriptorTable::Direct] {
        let mut guest = Guest::connect(&fixture, 128, table);
        guest.fill(4, 8);
        let mut middle = buffers(4, 0);
        middle.insert(2, (BUFFER_AT, 0, 0));
        assert_eq!(guest.submit_and_wait(1, &middle), 0);
        guest.fill(4, 9);
        let mut middle = buffers(4, WRITE);
        middle.insert(2, (BUFFER_AT, 0, WRITE));
        assert_eq!(guest.submit_and_wait(0, &middle), 0);
        assert!(guest.has(4, 8), "what was written is read");
        let mut middle = buffers(4, WRITE);
        middle.insert(2, (0, 16, 0));
        assert_eq!(guest.submit_and_wait(0, &middle), IO_ERR);
    }
    faults_become(&fixture, 2);
    fixture.running.stop();
}

#[test]
fn a_request_that_cannot_be_told_how_it_ended_stops_the_queue() {
    let fixture = serve();
    let figures = fixture.running.figures();
    let lost = [
        (STATUS_AT, 1, 0),
        (STATUS_AT, 0, WRITE),
        (1 << 40, 1, WRITE),
    ];
    for (n, last) in (1..).zip(lost.into_iter().cycle().take(2 * lost.len())) {
        let mut guest = Guest::connect(
            &fixture,
            128,
            if n % 2 == 0 {
                DescriptorTable::Indirect
            } else {
                DescriptorTable::Direct
            },
        );
        assert_eq!(guest.submit_and_wait(0, &buffers(4, WRITE)), 0);
        guest.offer(1, &buffers(4, 0), last);
        until("the queue stops", || figures.broken_rings.get() == n);
        let answered = guest.driver.queues[0].used_index().expect("in memory");
        assert_eq!(answered, 1, "only the first, not {last:?}");
        assert_eq!(figures.faults.get(), n);
    }
    let mut anew = Guest::connect(&fixture, 128, DescriptorTable::Indirect);
    assert_eq!(anew.submit_and_wait(0, &buffers(4, WRITE)), 0);
    fixture.running.stop();
}

#[test]
fn a_name_is_cut_to_the_room_there_is() {
    let fixture = serve();
    let mut guest = Guest::connect(&fixture, 128, DescriptorTable::Indirect);
    for (room, want) in [(3, &b"cha\xff"[..]), (8, b"chains\0\0\xff")] {
        guest.put(BUFFER_AT, &[0xff; 32]);
        assert_eq!(guest.submit_and_wait(8, &[(BUFFER_AT, room, WRITE)]), 0);
        assert_eq!(guest.get(BUFFER_AT, room + 1), want);
    }
    fixture.running.stop();
}

#[test]
fn rings_of_up_to_1024_places_are_served() {
    let fixture = serve();
    for queue_size in [2, 256, 512, 1024] {
        let layout = DriverSettings {
            queue_size,
            slots: (queue_size / 2).min(128),
            slot_bytes: 4096,
            ..DriverSettings::default()
        };
        let mut driver = Driver::new(layout).expect("a driver");
        driver.connect(&fixture.path).expect("a connection");
        let queue = &mut driver.queues[0];
        let mut under_way = 0;
        while let Some(slot) = queue.take_slot() {
            queue.submit(slot, DriverRequest::Flush).expect("it fits");
            under_way += 1;
        }
        queue.kick_anyway().expect("a kick");
        while under_way > 0 {
            assert!(queue.wait(LONGEST).expect("a wait"), "of {queue_size}");
            let answer = queue.reap().expect("honest").expect("an answer");
            assert_eq!(answer.status, 0);
            under_way -= 1;
        }
    }
    let flushes = fixture.disk.counts.flushes.load(Ordering::Relaxed);
    assert_eq!(flushes, 1 + 3 * 128, "each was carried out");
    let layout = DriverSettings {
        queue_size: 2048,
        ..DriverSettings::default()
    };
    let mut large = Driver::new(layout).expect("a driver");
    assert!(large.connect(&fixture.path).is_err());
    fixture.running.stop();
}

/// The status lies in memory of its own. The ring does not, so an answer could still be put there.
#[test]
fn a_request_whose_status_has_gone_when_the_disk_answers_stops_the_queue() {
    const AWAY_AT: u64 = 1 << 40;
    let fixture = serve();
    let figures = fixture.running.figures();
    for (n, table) in (1..).zip([DescriptorTable::Indirect, DescriptorTable::Direct]) {
        let mut guest = Guest::connect(&fixture, 128, table);
        let away = Driver::new(DriverSettings::default()).expect("memory");
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: AWAY_AT,
            memory_size: away.file().metadata().expect("a file").len(),
            userspace_addr: 1 << 20,
            mmap_offset: 0,
            mmap_handle: away.file().as_raw_fd(),
        };
        let connection = guest.driver.connection().expect("a connection");
        connection.add_mem_region(&region).expect("it is taken");
        fixture.disk.counts.is_held.store(true, Ordering::Relaxed);
        guest.offer(4, &[], (AWAY_AT - guest.room, 1, WRITE));
        let is_there = || fixture.disk.counts.flushes.load(Ordering::Relaxed) == n;
        until("the disk has the flush", is_there);
        let connection = guest.driver.connection().expect("a connection");
        connection.remove_mem_region(&region).expect("it goes");
        fixture.disk.counts.is_held.store(false, Ordering::Relaxed);
        let used = |guest: &Guest| guest.driver.queues[0].used_index().expect("in memory");
        let has_ended = || figures.broken_rings.get() == n || used(&guest) != 0;
        until("the queue stops", has_ended);
        assert_eq!((used(&guest), figures.broken_rings.get()), (0, n));
    }
    fixture.running.stop();
}
