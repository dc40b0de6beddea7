use std::fs::File;
use std::io::{Cursor, Write};
use std::path::PathBuf;

use lzma_rust2::{XzOptions, XzWriter};
use sublet_types::Bytes;

use super::*;
use crate::virtual_time::VirtualInstant;

fn read(name: &str, bytes: &[u8]) -> (Vec<TraceRequest>, Option<TraceError>) {
    let trace = match Trace::open(name, None, Cursor::new(bytes.to_vec())) {
        Ok(trace) => trace,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut accesses = Vec::new();
    for access in trace {
        match access {
            Ok(access) => accesses.push(access),
            Err(error) => return (accesses, Some(error)),
        }
    }
    (accesses, None)
}

/// The pages of requests, as numbers of one device.
fn pages(accesses: &[TraceRequest]) -> Vec<(u64, u32)> {
    let number =
        |access: &TraceRequest| access.page.object * EXTENT_PAGES + u64::from(access.page.index);
    accesses
        .iter()
        .map(|access| (number(access), access.count))
        .collect()
}

#[test]
fn lis_counts_in_sectors_unless_it_is_oltp() {
    let text = b"# a comment\n\n230027 8 0 0\n16 8 0 1\n";
    let (accesses, error) = read("P3.lis", text);
    assert!(error.is_none());
    // Sectors 230027 to 230034 touch two pages.
    assert_eq!(pages(&accesses), [(28753, 2), (2, 1)]);
    let (accesses, _) = read("OLTP.lis", text);
    assert_eq!(pages(&accesses), [(230_027, 8), (16, 8)]);
}

#[test]
fn a_wrong_line_is_named_with_its_number_and_a_remedy() {
    let (accesses, error) = read("P3.lis", b"1 1 0 0\nnonsense 4 5\n2 1 0 0\n");
    assert_eq!(accesses.len(), 1);
    let value = error.expect("an error").to_string();
    assert_eq!(
        value,
        "P3.lis, line 2: start is \"nonsense\" where a whole number is due; \
         is the format lis (start count ignore reqno)?"
    );
}

#[test]
fn numbers_are_read_in_their_byte_order() {
    let (accesses, _) = read("w106.trace", &[0xca, 0xce, 0x0d, 0]);
    assert_eq!(pages(&accesses), [(0x000d_ceca, 1)]);
    let (accesses, _) = read("web07.trace", &[0, 0, 1, 2]);
    assert_eq!(pages(&accesses), [(0x102, 1)]);
}

#[test]
fn a_trace_that_ends_in_mid_record_says_so_after_the_records_before_it() {
    for (name, record) in [("a.raw32le", 4), ("a.vscsi", 32), ("a.oraclegeneral", 24)] {
        let mut bytes = vec![0u8; record * 2 + 3];
        for n in 0..3usize.min(bytes.len() / 32) {
            bytes[n * 32 + 12] = 0x28;
            bytes[n * 32 + 15] = 1;
        }
        let (accesses, error) = read(name, &bytes);
        assert_eq!(accesses.len(), 2, "{name}");
        let value = error.expect("an error").to_string();
        let wanted = format!(
            "{name}, byte {}: ends in mid-record, 3 of its {record}",
            record * 2
        );
        assert!(value.starts_with(&wanted), "{value}");
    }
}

#[test]
fn vscsi_records_are_read_as_vmware_writes_them() {
    let mut record = vec![0xf4, 0, 0, 0x80, 0, 0x1a, 0, 0, 1, 0, 0, 0, 0x2a, 0, 0, 1];
    record.extend_from_slice(&16u64.to_le_bytes());
    record.extend_from_slice(&1_000u64.to_le_bytes());
    let mut later = record.clone();
    later[12] = 0x28;
    later[24..].copy_from_slice(&3_000u64.to_le_bytes());
    let (accesses, error) = read("a.vscsi", &[record.clone(), later].concat());
    assert!(error.is_none());
    // 0x1a00 bytes are 13 sectors.
    assert_eq!(pages(&accesses), [(2, 2), (2, 2)]);
    assert_eq!(
        (accesses[0].op, accesses[1].op),
        (PageOp::Write, PageOp::Read)
    );
    assert_eq!(accesses[1].at, VirtualInstant(2_000_000));
    record[12] = 0x12;
    let (_, error) = read("a.vscsi", &record);
    assert!(
        error
            .expect("an error")
            .to_string()
            .contains("command is \"0x0012\"")
    );
}

#[test]
fn oracle_general_objects_are_as_long_as_their_bytes() {
    let mut bytes = 100u32.to_le_bytes().to_vec();
    bytes.extend_from_slice(&77u64.to_le_bytes());
    bytes.extend_from_slice(&4097u32.to_le_bytes());
    bytes.extend_from_slice(&(-1i64).to_le_bytes());
    let (accesses, error) = read("a.oracleGeneral", &bytes);
    assert!(error.is_none());
    assert_eq!(
        accesses[0].page,
        TracePage {
            object: 77,
            index: 0
        }
    );
    assert_eq!((accesses[0].at, accesses[0].count), (VirtualInstant(0), 2));
}

#[test]
fn csv_columns_are_found_by_name_or_given_by_number() {
    let text = b"timestamp,obj_id,size,op\n10,a,5000,get\n11.5,7,1,SET\n";
    let (accesses, error) = read("a.csv", text);
    assert!(error.is_none());
    assert_eq!(accesses[0].count, 2);
    assert_eq!(accesses[1].at, VirtualInstant(1_500_000_000));
    assert_eq!(
        accesses[1].page,
        TracePage {
            object: 7,
            index: 0
        }
    );
    assert_eq!(
        (accesses[0].op, accesses[1].op),
        (PageOp::Read, PageOp::Write)
    );

    let columns: CsvColumns = "page=2,op=1".parse().expect("columns");
    let bytes = Cursor::new(b"w,513\nr,1\n".to_vec());
    let trace = Trace::open("b", Some(TraceFormat::Csv(columns)), bytes).expect("it opens");
    let accesses: Vec<TraceRequest> = trace.collect::<Result<_, _>>().expect("it reads");
    assert_eq!(pages(&accesses), [(513, 1), (1, 1)]);
    assert_eq!(
        accesses[0].page,
        TracePage {
            object: 1,
            index: 1
        }
    );
}

#[test]
fn csv_faults_name_the_column() {
    let (_, error) = read("a.csv", b"alpha,beta\n1,2\n");
    let value = error.expect("an error").to_string();
    assert!(
        value.contains("line 1: there is no column \"object\" among alpha,beta"),
        "{value}"
    );
    let (_, error) = read("a.csv", b"id,op\n1,read\n2,erase\n");
    let value = error.expect("an error").to_string();
    assert!(
        value.starts_with("a.csv, line 3: op is \"erase\""),
        "{value}"
    );
    assert!("colour=1".parse::<CsvColumns>().is_err());
}

#[test]
fn names_tell_formats_and_packings() {
    for (name, format) in [
        ("x/OLTP.lis.zst", TraceFormat::Lis(LisUnit::Page)),
        ("P6.lis.zst", TraceFormat::Lis(LisUnit::Sector)),
        ("w106.trace.xz", TraceFormat::Raw32Le),
        ("web07.trace.xz", TraceFormat::I32Be),
        ("cloudPhysicsIO.vscsi", TraceFormat::Vscsi),
        ("a.oracleGeneral.zst", TraceFormat::OracleGeneral),
        ("a.csv.gz", TraceFormat::Csv(CsvColumns::default())),
    ] {
        assert_eq!(TraceFormat::of_name(name), Ok(format), "{name}");
    }
    let value = read("a.png", b"").1.expect("an error").to_string();
    assert!(value.contains("its name tells no format"), "{value}");
}

#[test]
fn packed_files_read_as_plain_ones_and_damage_is_an_error() {
    let plain = b"1 1 0 0\n9 1 0 0\n";
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(plain).expect("memory");
    let gzip = gzip.finish().expect("memory");
    let mut xz = XzWriter::new(Vec::new(), XzOptions::default()).expect("memory");
    xz.write_all(plain).expect("memory");
    let xz = xz.finish().expect("memory");
    let zstd = ruzstd::encoding::compress_to_vec(
        Cursor::new(plain),
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    for (ending, bytes) in [("gz", gzip), ("xz", xz), ("zst", zstd)] {
        let name = format!("OLTP.lis.{ending}");
        let (accesses, error) = read(&name, &bytes);
        assert!(error.is_none(), "{name}: {error:?}");
        assert_eq!(pages(&accesses), [(1, 1), (9, 1)]);
        let (_, error) = read(&name, &bytes[..bytes.len() - 9]);
        assert!(error.is_some(), "{name}");
        let (_, error) = read(&name, b"no such packing at all");
        assert!(error.is_some(), "{name}");
    }
}

#[test]
fn a_host_of_bitbrains_is_a_column() {
    let text = "t_s,h0,h1\ncap_MiB,100,200\n0,10,20\n300,30,5\n";
    let open = |host| HostSeries::read("b.csv", HostFormat::Bitbrains, host, text.as_bytes());
    let series = open("h1").expect("it reads");
    assert_eq!(series.free_at(VirtualInstant::START), Bytes::mib(20));
    assert_eq!(
        series.free_at(VirtualInstant(300_000_000_000)),
        Bytes::mib(5)
    );
    assert_eq!(series.least(), Bytes::mib(5));
    let condensed = series.condensed(10.0, Some(Bytes::mib(40)));
    assert_eq!(
        condensed.free_at(VirtualInstant(30_000_000_000)),
        Bytes::mib(10)
    );
    assert!(
        open("h9")
            .expect_err("no such host")
            .to_string()
            .contains("h9")
    );
}

#[test]
fn a_machine_of_alibaba_is_read_from_its_rows_in_order_of_time() {
    let text = "m_2,60,1,50,,,1,1,1\nm_1,20,1,75,,,1,1,1\nm_1,10,1,,,,1,1,1\nm_1,5,1,25,,,1,1,1\n";
    let memory = Bytes::gib(4);
    let format = HostFormat::Alibaba { memory };
    let series = HostSeries::read("a.csv", format, "m_1", text.as_bytes()).expect("it reads");
    let free: Vec<Bytes> = series.samples.iter().map(|sample| sample.free).collect();
    assert_eq!(free, [Bytes::gib(3), Bytes::gib(1)]);
}

/// The public traces, if they are there: how many requests each has.
#[test]
fn public_traces_read_to_their_end() {
    let folder = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/traces"
    ));
    for (name, requests) in [
        ("cloudPhysicsIO.vscsi", 113_872),
        ("OLTP.lis.zst", 914_145),
        ("P3.lis.zst", 238_578),
        ("web07.trace.xz", 76_118),
        ("web12.trace.xz", 95_607),
    ] {
        let Ok(file) = File::open(folder.join(name)) else {
            eprintln!("skipped: there is no {}", folder.join(name).display());
            continue;
        };
        let trace = Trace::open(name, None, file).expect("it opens");
        let accesses: Result<Vec<TraceRequest>, TraceError> = trace.collect();
        assert_eq!(accesses.expect("it reads").len(), requests, "{name}");
    }
}
