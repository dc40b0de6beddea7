//! How a node asks its leader about the cluster, and how a leader answers.

use std::time::Duration;

use sublet_lend::control::{
    ControlMessage, ListUpTo, VIEW_NODES_MAX, ViewNode, ViewPart, ViewQuery,
};
use sublet_lend::node::{LeaderNaming, LendingInput, MEMBERS_MAX};

use crate::told::{Told, name, secs};

/// A part of a leader's answer, with nodes of these names.
fn view_part(query: &ViewQuery, names: &[&str], more: bool) -> ControlMessage {
    let node = |text: &&str| -> ViewNode {
        let figures = r#""total":1,"free":1,"lendable":1,"wanted":0,"lent":0,"borrowed":0"#;
        let line = format!(r#"{{"name":"{text}","state":"active","for_millis":0,{figures}}}"#);
        serde_json::from_str(&line).expect("a node")
    };
    ControlMessage::View(Box::new(ViewPart {
        tag: query.tag,
        nodes: ListUpTo::first(names.iter().map(node)),
        more,
        ..ViewPart::default()
    }))
}

#[test]
fn a_late_answer_to_a_question_before_is_no_part_of_the_next_answer() {
    let mut m = Told::new(LeaderNaming::Fixed(name("l")), &["l"]);
    m.pass(secs(1));
    let leader = m.up("l");
    m.tell(LendingInput::AskView);
    m.hear(
        leader,
        view_part(&m.questions[0].clone(), &["a", "b"], true),
    );
    m.pass_with(secs(3), &[leader]);
    m.tell(LendingInput::AskView);
    let [first, _, second] = &m.questions.clone()[..] else {
        panic!("{:?}", m.questions);
    };
    assert_ne!(first.tag, second.tag);
    m.hear(leader, view_part(first, &["c"], false));
    assert_eq!((m.node.told_view(), m.ignored()), (None, 1));
    m.hear(leader, view_part(second, &["a", "b"], true));
    m.hear(leader, view_part(second, &["c"], false));
    let view = m.node.told_view().expect("it is whole");
    let names: Vec<_> = view.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn an_answer_that_never_ends_is_asked_for_no_further() {
    for stuck in [&["b"][..], &["a"], &[]] {
        let mut m = Told::new(LeaderNaming::Fixed(name("l")), &["l"]);
        m.pass(secs(1));
        let leader = m.up("l");
        m.tell(LendingInput::AskView);
        for names in [&["a", "b"][..], stuck, stuck, stuck] {
            let query = m.questions.last().expect("a question").clone();
            m.hear(leader, view_part(&query, names, true));
        }
        assert_eq!(m.questions.len(), 2, "{stuck:?}");
        assert_eq!(m.ignored(), 3);
    }
}

/// One member that asks and asks costs the leader a bounded part of a second.
#[test]
fn a_leader_answers_as_many_questions_in_a_second_as_a_whole_view_takes() {
    let mut m = Told::new(LeaderNaming::Fixed(name("m")), &["a"]);
    m.pass(secs(1));
    let member = m.accepted("a");
    m.greet(member, "a", 7);
    m.pass_with(secs(2), &[member]);
    for second in 1..=2 {
        for _ in 0..1500 {
            m.hear(member, ControlMessage::AskView(Box::default()));
        }
        let most = second * (MEMBERS_MAX / VIEW_NODES_MAX + 1);
        assert_eq!(m.answers.len(), most);
        m.pass_with(Duration::from_millis(1100), &[member]);
    }
    assert!(m.closed.is_empty());
}
