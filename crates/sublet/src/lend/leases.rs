//! `sublet lend list`: every lease between this host and its peers.

use comfy_table::{Table, presets};
use sublet_client::messages::LeaseList;

use crate::admin_options::AdminOptions;
use crate::exit::Exit;
use crate::formatting::{format_table, json};

/// How to show the leases.
#[derive(clap::Args)]
pub(super) struct ListArgs {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: AdminOptions,
}

impl ListArgs {
    /// The leases as text.
    pub(super) fn text(&self) -> Result<String, Exit> {
        let all = self.daemon.call(|admin| admin.leases())?;
        Ok(match self.json {
            true => json(&all),
            false => table(&all),
        })
    }
}

fn table(all: &LeaseList) -> String {
    if all.leases.is_empty() {
        return "nothing is lent, and nothing is borrowed\n".to_owned();
    }
    let mut table = Table::new();
    let header = ["peer", "direction", "lease", "blocks", "memory"];
    table.load_style(presets::NOTHING).set_header(header);
    for lease in &all.leases {
        table.add_row([
            lease.peer.to_string(),
            lease.direction.name().to_owned(),
            lease.lease.to_string(),
            lease.blocks.to_string(),
            lease.bytes.to_string(),
        ]);
    }
    format_table(table, 2..5)
}

#[cfg(test)]
mod tests {
    use sublet_client::messages::{LeaseDirection, LeaseStatus, VERSION};
    use sublet_types::Bytes;

    use super::*;

    #[test]
    fn each_lease_is_a_line_with_its_peer_and_direction() {
        let lease = |direction, lease| LeaseStatus {
            peer: "b".parse().expect("a name"),
            direction,
            lease,
            blocks: 3,
            bytes: Bytes::mib(6),
        };
        let leases = vec![
            lease(LeaseDirection::Lent, 7),
            lease(LeaseDirection::Borrowed, 12),
        ];
        let page = table(&LeaseList {
            version: VERSION,
            leases,
        });
        let lines: Vec<Vec<&str>> = page
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["b", "lent", "7", "3", "6.00", "MiB"]);
        assert_eq!(lines[2], ["b", "borrowed", "12", "3", "6.00", "MiB"]);
    }
}
