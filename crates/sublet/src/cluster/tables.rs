//! The tables of a cluster: its nodes, and what was advised.

use comfy_table::{Table, presets};
use sublet_client::messages::{ClusterAdvice, ClusterNode, ClusterView};
use sublet_types::Bytes;

use crate::formatting::{duration, format_table};

/// The table of nodes.
pub(super) fn nodes(view: &ClusterView) -> String {
    let mut table = Table::new();
    let header = [
        "node",
        "state",
        "rack",
        "since",
        "in all",
        "free",
        "could lend",
        "lent",
        "borrowed",
        "wants more",
    ];
    table.load_style(presets::NOTHING).set_header(header);
    for node in &view.nodes {
        table.add_row(node_row(node));
    }
    format_table(table, 3..10)
}

fn node_row(node: &ClusterNode) -> [String; 10] {
    let dash = || "–".to_owned();
    let amount = |amount: Bytes| match node.total {
        // It has not said.
        Bytes::ZERO => dash(),
        _ => amount.to_string(),
    };
    [
        node.name.to_string(),
        node.state.name().to_owned(),
        node.rack.clone().unwrap_or_else(dash),
        duration(node.since_secs),
        amount(node.total),
        amount(node.free),
        node.lendable.to_string(),
        node.lent.to_string(),
        node.borrowed.to_string(),
        node.wanted.to_string(),
    ]
}

/// The table of advice that was given, the newest first.
pub(super) fn given(advice: &[ClusterAdvice]) -> String {
    let mut table = Table::new();
    let header = ["ago", "who borrows", "of whom", "memory", "why"];
    table.load_style(presets::NOTHING).set_header(header);
    for one in advice.iter().rev() {
        let mut row = vec![duration(one.age_millis / 1000)];
        row.extend(advice_row(one));
        table.add_row(row);
    }
    format_table(table, 3..4)
}

/// The table of advice that would be given.
pub(super) fn planned(advice: &[ClusterAdvice]) -> String {
    let mut table = Table::new();
    let header = ["who borrows", "of whom", "memory", "why"];
    table.load_style(presets::NOTHING).set_header(header);
    for one in advice {
        table.add_row(advice_row(one));
    }
    format_table(table, 2..3)
}

fn advice_row(advice: &ClusterAdvice) -> [String; 4] {
    let shortage = advice.shortage.as_ref();
    let shortage = shortage.map_or(String::new(), |why| format!("; {why}"));
    [
        advice.borrower.to_string(),
        advice.lender.to_string(),
        advice.bytes.to_string(),
        format!("{}{shortage}", advice.why),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use sublet_client::messages::{ClusterNodeState, CountAlarm};

    pub(in super::super) fn advice() -> ClusterAdvice {
        ClusterAdvice {
            age_millis: 2500,
            borrower: "a".parse().expect("a name"),
            lender: "b".parse().expect("a name"),
            bytes: Bytes::mib(40),
            why: "at most 20 come from one lender".to_owned(),
            shortage: Some("it wants 90".to_owned()),
        }
    }

    fn node(name: &str, state: ClusterNodeState) -> ClusterNode {
        ClusterNode {
            name: name.parse().expect("a name"),
            state,
            since_secs: 61,
            rack: None,
            total: Bytes::gib(1),
            free: Bytes::mib(512),
            lendable: Bytes::mib(256),
            lent: Bytes::mib(8),
            borrowed: Bytes::ZERO,
            wanted: Bytes::mib(2),
        }
    }

    /// The view of a leader of two nodes, one of which is away.
    pub(in super::super) fn view() -> ClusterView {
        ClusterView {
            as_of_millis: 300,
            whole: true,
            nodes: vec![
                node("a", ClusterNodeState::Active),
                node("b", ClusterNodeState::Away),
            ],
            advice: vec![advice()],
            alarms: vec![CountAlarm {
                lender: "b".parse().expect("a name"),
                borrower: "a".parse().expect("a name"),
                lent: Bytes::mib(8),
                borrowed: Bytes::mib(6),
                since_secs: 12,
            }],
            placement: "spread part=25".to_owned(),
        }
    }

    fn cells(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn each_node_is_a_line_with_its_state_and_amounts() {
        let mut view = view();
        let page = nodes(&view);
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines.len(), 3, "{page}");
        assert_eq!(
            cells(lines[2]).join(" "),
            "b away – 1m 1s 1.00 GiB 512 MiB 256 MiB 8.00 MiB 0 B 2.00 MiB"
        );
        view.nodes[0].rack = Some("r7".to_owned());
        let page = nodes(&view);
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(cells(lines[1])[2], "r7");
    }

    #[test]
    fn the_newest_advice_comes_first_with_why_and_what_lacks() {
        let mut newer = advice();
        (newer.age_millis, newer.shortage) = (900, None);
        let page = given(&[advice(), newer]);
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(
            cells(lines[1]).join(" "),
            "0s a b 40.0 MiB at most 20 come from one lender"
        );
        assert!(lines[2].ends_with("from one lender; it wants 90"), "{page}");
        let page = planned(&[advice()]);
        let line = page.lines().nth(1).expect(&page);
        assert_eq!(cells(line)[..4], ["a", "b", "40.0", "MiB"]);
    }
}
