//! `sublet cluster status`: who leads, how each node is, and what was advised lately.

use sublet_client::messages::{
    ChangeLifetime, ClusterMode, ClusterNodeState, ClusterStatus, ClusterView, EtcdState,
    EtcdStatus, LendPhase,
};
use sublet_types::Bytes;

use super::tables;
use crate::exit::Exit;
use crate::formatting::{duration, format_count};
use crate::watch::WatchOptions;

/// So many pieces of advice are shown, the newest ones.
const ADVICE_SHOWN: usize = 10;

/// How to show it.
#[derive(clap::Args)]
pub(super) struct ClusterStatusArgs {
    #[command(flatten)]
    watch: WatchOptions,
}

impl ClusterStatusArgs {
    /// Shows it, once or again and again.
    pub(super) fn run(&self) -> Exit {
        self.watch.show(|admin| admin.cluster(), page)
    }
}

/// The page for people.
pub(super) fn page(status: &ClusterStatus) -> String {
    let mut page: String = lines(status)
        .into_iter()
        .map(|(name, text)| format!("{name:<9} {text}\n"))
        .collect();
    let Some(view) = &status.view else {
        return page;
    };
    page.push_str(&format!("\n{}", tables::nodes(view)));
    if !view.advice.is_empty() {
        let skipped = view.advice.len().saturating_sub(ADVICE_SHOWN);
        page.push_str(&format!("\n{}", tables::given(&view.advice[skipped..])));
    }
    page
}

fn lines(status: &ClusterStatus) -> Vec<(&'static str, String)> {
    let node = format!(
        "{} of cluster {}; {}",
        status.node,
        status.cluster,
        participation(status)
    );
    let mut lines = vec![("node", node), ("leader", leader(status))];
    if has_leaders(status.how) {
        let advice = format!(
            "{} followed here, {} ignored",
            status.advice_followed, status.advice_ignored
        );
        lines.push(("advice", advice));
    }
    lines.extend(status.etcd.as_ref().map(|it| ("etcd", etcd(it))));
    match &status.view {
        Some(view) => lines.extend(view_lines(view)),
        None => lines.push((
            "but",
            "the leader has not said how the others are".to_owned(),
        )),
    }
    lines
}

/// Whether the node takes part, and for how long not.
fn participation(status: &ClusterStatus) -> String {
    let until = match status.leave_lasts {
        Some(ChangeLifetime::UntilRestart) => "until `sublet cluster join` or the daemon's end",
        Some(ChangeLifetime::Always) | None => "until `sublet cluster join`",
    };
    match status.phase {
        LendPhase::Lending => "it takes part".to_owned(),
        LendPhase::Draining => "it takes part and lends nothing, because it drains".to_owned(),
        LendPhase::Paused => "it takes part and lends again soon".to_owned(),
        LendPhase::Leaving => format!("it leaves, and stays out {until}"),
        LendPhase::Left => format!("it has left {until}"),
    }
}

fn has_leaders(how: ClusterMode) -> bool {
    matches!(how, ClusterMode::NamedLeader | ClusterMode::Etcd)
}

/// Who leads, or how the node finds lenders without.
fn leader(status: &ClusterStatus) -> String {
    let chosen = match status.how {
        ClusterMode::Mesh => {
            return "none: each node is connected with each, and asks those that have most"
                .to_owned();
        }
        ClusterMode::NoLeader => {
            return "none: the node asks two others at random, and the freer one lends".to_owned();
        }
        ClusterMode::NamedLeader => "named in the config",
        ClusterMode::Etcd => "elected",
    };
    let term = status.term;
    match (&status.leader, status.leads_here) {
        (_, true) => format!("this node, {chosen}; term {term}"),
        (Some(name), false) => {
            let silent = status.leader_silent_millis;
            let silent = silent.map_or(String::new(), |millis| format!("; {}", silence(millis)));
            format!("{name}, {chosen}; term {term}{silent}")
        }
        (None, false) => format!("none at present; the last term was {term}"),
    }
}

/// A leader that is silent for long may never have been heard.
fn silence(millis: u64) -> String {
    match millis {
        0..10_000 => format!("heard {}", ago(millis)),
        _ => format!("silent for {}", duration(millis / 1000)),
    }
}

/// `0.3 s ago`, `2m 5s ago`.
fn ago(millis: u64) -> String {
    match millis {
        0..10_000 => format!("{:.1} s ago", millis as f64 / 1e3),
        _ => format!("{} ago", duration(millis / 1000)),
    }
}

fn etcd(etcd: &EtcdStatus) -> String {
    let endpoints = format_count(etcd.endpoints.len() as u64, "endpoint");
    let state = match (etcd.state, etcd.why.is_empty()) {
        (_, true) | (EtcdState::Connected, _) => etcd.state.name().to_owned(),
        (_, false) => format!("{} ({})", etcd.state.name(), etcd.why),
    };
    let lease = match etcd.lease_ttl_secs {
        Some(secs) => format!(
            "the others forget this node {} after etcd last heard of it",
            duration(secs)
        ),
        None => "the node is no member there".to_owned(),
    };
    format!("{state}, {endpoints}; {lease}")
}

fn view_lines(view: &ClusterView) -> Vec<(&'static str, String)> {
    let policy = match view.whole {
        true => format!(
            "{}; as the leader saw it {}",
            view.placement,
            ago(view.as_of_millis)
        ),
        false => "each node's own; what this node knows of its peers is below".to_owned(),
    };
    let mut lines = vec![
        ("policy", policy),
        ("nodes", states(view)),
        ("memory", sums(view)),
    ];
    lines.extend(view.alarms.iter().map(|alarm| {
        let text = format!(
            "{} counts {} lent to {}, which counts {}, for {}",
            alarm.lender,
            alarm.lent,
            alarm.borrower,
            alarm.borrowed,
            duration(alarm.since_secs)
        );
        ("but", text)
    }));
    lines
}

/// How many nodes are in which state.
fn states(view: &ClusterView) -> String {
    let all = [
        ClusterNodeState::Active,
        ClusterNodeState::Expected,
        ClusterNodeState::Leaving,
        ClusterNodeState::Away,
        ClusterNodeState::Gone,
    ];
    let count = |state| view.nodes.iter().filter(|node| node.state == state).count();
    let counted = all.into_iter().map(|state| (state, count(state)));
    let named: Vec<String> = counted
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!("{count} {}", state.name()))
        .collect();
    match named.is_empty() {
        true => "none".to_owned(),
        false => named.join(", "),
    }
}

/// The memory of all that report.
fn sums(view: &ClusterView) -> String {
    let reports = |state| matches!(state, ClusterNodeState::Active | ClusterNodeState::Leaving);
    let nodes: Vec<_> = view
        .nodes
        .iter()
        .filter(|node| reports(node.state))
        .collect();
    let total: Bytes = nodes.iter().map(|node| node.total).sum();
    let free: Bytes = nodes.iter().map(|node| node.free).sum();
    let lendable: Bytes = nodes.iter().map(|node| node.lendable).sum();
    let lent: Bytes = nodes.iter().map(|node| node.lent).sum();
    let wanted: Bytes = nodes.iter().map(|node| node.wanted).sum();
    let lending = format!("{lent} lent, {lendable} more could be, {wanted} more wanted");
    match view.whole {
        true => format!("{total} in all, {free} free; {lending}"),
        false => lending,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use sublet_client::messages::VERSION;

    use super::super::tables::tests::view;
    use super::*;

    /// A node that follows an elected leader.
    pub(crate) fn sample() -> ClusterStatus {
        ClusterStatus {
            version: VERSION,
            node: "a".parse().expect("a name"),
            cluster: "prod".parse().expect("a name"),
            how: ClusterMode::Etcd,
            phase: LendPhase::Lending,
            leave_lasts: None,
            leader: Some("b".parse().expect("a name")),
            leads_here: false,
            term: 17,
            leader_silent_millis: Some(400),
            advice_followed: 12,
            advice_ignored: 3,
            etcd: Some(EtcdStatus {
                endpoints: vec!["https://10.0.0.1:2379".to_owned()],
                state: EtcdState::Connected,
                why: String::new(),
                lease_ttl_secs: Some(5),
            }),
            view: Some(view()),
        }
    }

    /// The lines of one name.
    fn said(status: &ClusterStatus, name: &str) -> Vec<String> {
        let all = lines(status).into_iter();
        all.filter(|(line, _)| *line == name)
            .map(|(_, text)| text)
            .collect()
    }

    #[test]
    fn who_leads_and_how_it_came_to_it_is_one_line() {
        let mut status = sample();
        assert_eq!(
            said(&status, "leader"),
            ["b, elected; term 17; heard 0.4 s ago"]
        );
        status.leader_silent_millis = Some(16_000);
        assert!(said(&status, "leader")[0].ends_with("silent for 16s"));
        status.how = ClusterMode::NamedLeader;
        assert!(said(&status, "leader")[0].starts_with("b, named in the config"));
        (status.leads_here, status.leader_silent_millis) = (true, None);
        assert_eq!(
            said(&status, "leader"),
            ["this node, named in the config; term 17"]
        );
        (status.leads_here, status.leader) = (false, None);
        assert!(said(&status, "leader")[0].starts_with("none at present"));
        assert_eq!(said(&status, "advice"), ["12 followed here, 3 ignored"]);
        for how in [ClusterMode::Mesh, ClusterMode::NoLeader] {
            status.how = how;
            assert!(said(&status, "leader")[0].starts_with("none: "));
            assert!(said(&status, "advice").is_empty());
        }
    }

    #[test]
    fn a_node_that_left_says_how_long_it_stays_out() {
        let mut status = sample();
        let node = |status: &ClusterStatus| said(status, "node").remove(0);
        assert_eq!(node(&status), "a of cluster prod; it takes part");
        status.phase = LendPhase::Left;
        status.leave_lasts = Some(ChangeLifetime::Always);
        assert!(node(&status).ends_with("it has left until `sublet cluster join`"));
        status.phase = LendPhase::Leaving;
        status.leave_lasts = Some(ChangeLifetime::UntilRestart);
        assert!(node(&status).ends_with("join` or the daemon's end"));
    }

    #[test]
    fn etcd_is_shown_with_why_it_fails() {
        let mut status = sample();
        assert_eq!(
            said(&status, "etcd"),
            ["connected, 1 endpoint; the others forget this node 5s after etcd last heard of it"]
        );
        let etcd = status.etcd.as_mut().expect("it uses etcd");
        etcd.state = EtcdState::Failing;
        etcd.why = "no answer in 3 s".to_owned();
        etcd.lease_ttl_secs = None;
        assert_eq!(
            said(&status, "etcd"),
            ["failing (no answer in 3 s), 1 endpoint; the node is no member there"]
        );
        status.etcd = None;
        assert!(said(&status, "etcd").is_empty());
    }

    #[test]
    fn nodes_are_counted_by_state_and_only_who_reports_has_memory() {
        let status = sample();
        assert_eq!(said(&status, "nodes"), ["1 active, 1 away"]);
        assert_eq!(
            said(&status, "memory"),
            [
                "1.00 GiB in all, 512 MiB free; 8.00 MiB lent, 256 MiB more could be, 2.00 MiB more wanted"
            ]
        );
        assert_eq!(
            said(&status, "but"),
            ["b counts 8.00 MiB lent to a, which counts 6.00 MiB, for 12s"]
        );
        assert_eq!(
            said(&status, "policy"),
            ["spread part=25; as the leader saw it 0.3 s ago"]
        );
    }

    #[test]
    fn the_page_has_both_tables_and_the_newest_advice() {
        let mut status = sample();
        let view = status.view.as_mut().expect("a view");
        let one = view.advice[0].clone();
        view.advice = vec![one; ADVICE_SHOWN + 5];
        let text = page(&status);
        let advice = text.lines().filter(|line| line.contains("from one lender"));
        assert_eq!(advice.count(), ADVICE_SHOWN);
        status.view = None;
        let text = page(&status);
        assert!(
            text.ends_with("has not said how the others are\n"),
            "{text}"
        );
    }
}
