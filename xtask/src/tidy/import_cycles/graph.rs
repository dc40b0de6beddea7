//! Finds cycles in a graph, and a walk along one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The edges of each node.
pub(super) type Graph<'a, N> = BTreeMap<&'a N, BTreeSet<&'a N>>;

/// The largest sets of two nodes or more in which each node leads to each.
pub(super) fn strongly_connected<'a, N: Ord>(graph: &Graph<'a, N>) -> Vec<BTreeSet<&'a N>> {
    let mut found = Vec::new();
    let mut open: BTreeSet<&N> = graph.keys().copied().collect();
    let backwards = reversed(graph);
    while let Some(first) = open.first().copied() {
        let ahead = reached(graph, first);
        let knot: BTreeSet<_> = reached(&backwards, first)
            .intersection(&ahead)
            .copied()
            .collect();
        open.retain(|node| !knot.contains(node));
        if knot.len() > 1 {
            found.push(knot);
        }
    }
    found
}

fn reversed<'a, N: Ord>(graph: &Graph<'a, N>) -> Graph<'a, N> {
    let mut backwards = Graph::new();
    for (from, tos) in graph {
        for to in tos {
            backwards.entry(*to).or_default().insert(*from);
        }
    }
    backwards
}

/// The nodes that `first` leads to, and `first` itself.
fn reached<'a, N: Ord>(graph: &Graph<'a, N>, first: &'a N) -> BTreeSet<&'a N> {
    let mut reached = BTreeSet::from([first]);
    let mut ahead = vec![first];
    while let Some(node) = ahead.pop() {
        let next = graph.get(node).into_iter().flatten();
        ahead.extend(next.copied().filter(|to| reached.insert(to)));
    }
    reached
}

/// A closed walk through all of `knot`, in short steps from each node to the nearest one not yet seen.
pub(super) fn walk<'a, N: Ord>(graph: &Graph<'a, N>, knot: &BTreeSet<&'a N>) -> Vec<&'a N> {
    let mut walk: Vec<&N> = knot.first().copied().into_iter().collect();
    let mut unseen = knot.clone();
    while let (Some(&first), Some(&here)) = (walk.first(), walk.last()) {
        unseen.remove(here);
        let is_end = |node: &N| match unseen.is_empty() {
            true => node == first,
            false => unseen.contains(node),
        };
        let steps = shortest(graph, knot, here, is_end);
        unseen.retain(|node| !steps.contains(node));
        walk.extend(&steps);
        if steps.is_empty() || (unseen.is_empty() && walk.last() == Some(&first)) {
            break;
        }
    }
    walk
}

/// The shortest path within `knot` from `start` to a node for which `is_end` holds, without `start`.
fn shortest<'a, N: Ord>(
    graph: &Graph<'a, N>,
    knot: &BTreeSet<&'a N>,
    start: &'a N,
    is_end: impl Fn(&N) -> bool,
) -> Vec<&'a N> {
    let mut before: BTreeMap<&N, &N> = BTreeMap::new();
    let mut ahead = VecDeque::from([start]);
    while let Some(node) = ahead.pop_front() {
        let next = graph.get(node).into_iter().flatten();
        for &to in next.filter(|to| knot.contains(*to)) {
            if before.contains_key(to) {
                continue;
            }
            before.insert(to, node);
            if is_end(to) {
                return back(&before, start, to);
            }
            ahead.push_back(to);
        }
    }
    Vec::new()
}

fn back<'a, N: Ord>(before: &BTreeMap<&'a N, &'a N>, start: &'a N, end: &'a N) -> Vec<&'a N> {
    let mut steps = vec![end];
    while let Some(&node) = steps.last().and_then(|node| before.get(*node)) {
        if node == start {
            break;
        }
        steps.push(node);
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [char; 6] = ['a', 'b', 'c', 'd', 'e', 'f'];

    fn node(name: char) -> &'static char {
        NODES.iter().find(|node| **node == name).expect("it is one")
    }

    fn graph(edges: &[&str]) -> Graph<'static, char> {
        let mut graph = Graph::new();
        for edge in edges {
            let ends: Vec<char> = edge.chars().collect();
            graph
                .entry(node(ends[0]))
                .or_default()
                .insert(node(ends[1]));
        }
        graph
    }

    fn found(edges: &[&str]) -> Vec<String> {
        let sets = strongly_connected(&graph(edges));
        sets.into_iter()
            .map(|set| set.into_iter().collect())
            .collect()
    }

    fn walked(edges: &[&str]) -> String {
        let graph = graph(edges);
        walk(&graph, &strongly_connected(&graph)[0])
            .into_iter()
            .collect()
    }

    #[test]
    fn a_circle_is_found_and_what_hangs_on_it_is_not() {
        assert_eq!(found(&["ab", "bc", "ca", "cd", "ea"]), ["abc"]);
        assert_eq!(found(&["ab", "bc", "ca", "de", "ef", "fd"]), ["abc", "def"]);
        assert!(found(&["ab", "bc", "ac"]).is_empty());
    }

    #[test]
    fn a_pair_is_one_and_so_are_two_pairs_that_meet() {
        assert_eq!(found(&["ab", "ba"]), ["ab"]);
        assert_eq!(found(&["ab", "ba", "bc", "cb"]), ["abc"]);
    }

    #[test]
    fn a_walk_passes_all_and_comes_back() {
        assert_eq!(walked(&["ab", "bc", "ca"]), "abca");
        assert_eq!(walked(&["ab", "ba", "bc", "cb"]), "abcba");
        assert_eq!(
            walked(&["ab", "bc", "cd", "da", "ca", "ce", "eb"]),
            "abcdabcebca"
        );
    }
}
