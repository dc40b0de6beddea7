//! A scrape of `/metrics`, as Prometheus does it.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n";

/// How long a scrape took, from the connection to the last byte.
pub(super) fn timed(socket: impl AsRef<Path>) -> io::Result<Duration> {
    let begun = Instant::now();
    page(socket)?;
    Ok(begun.elapsed())
}

/// The response, including its head.
pub(super) fn page(socket: impl AsRef<Path>) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(REQUEST)?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    match page.starts_with("HTTP/1.1 200") {
        true => Ok(page),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The pages of all disks that are in memory.
pub(super) fn disk_pages(page: &str) -> u64 {
    let lines = page
        .lines()
        .filter(|line| line.starts_with("sublet_disk_pages{"));
    let figures = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    figures.sum::<f64>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_all_disks_are_added() {
        let page = "HTTP/1.1 200 OK\r\n\r\n# TYPE sublet_disk_pages gauge\nsublet_disk_pages{disk=\"a\"} 3\n\
                    sublet_disk_pages{disk=\"b\"} 4\nsublet_disk_pages_ahead{disk=\"b\"} 9\n";
        assert_eq!(disk_pages(page), 7);
        assert_eq!(disk_pages(""), 0);
    }
}
