//! What the function `info` needs to be fetched.

use crate::query::{MatchOperator, Matcher, Node, Selector, When};

/// Whether `tree` asks for labels at another time than its own: those of a vector with `offset` or
/// `@`.
pub(super) fn is_at_another_time(tree: &Node) -> bool {
    let is_one = |node: &Node| match node {
        Node::Call {
            function: "info",
            arguments,
        } => arguments
            .first()
            .and_then(first_selector)
            .is_some_and(|first| first.when != When::default()),
        _ => false,
    };
    tree.find(&is_one).is_some()
}

fn first_selector(node: &Node) -> Option<&Selector> {
    match node.find(&|node| matches!(node, Node::Selector(_))) {
        Some(Node::Selector(first)) => Some(first),
        _ => None,
    }
}

/// The arguments of `info` as they are fetched: the info series, `target_info` where no other are
/// named, at the time of the first selector of the vector. Of one metric the times of the samples
/// are asked for, since the newest one counts.
pub(super) fn info_arguments(arguments: &[Node]) -> Vec<Node> {
    let mut selector = match arguments.get(1) {
        Some(Node::Selector(selector)) => selector.clone(),
        _ => Selector {
            matchers: Vec::new(),
            has_alternatives: false,
            range: None,
            when: When::default(),
        },
    };
    let is_name = |matcher: &&Matcher| matcher.label == "__name__";
    if !selector.matchers.iter().any(|matcher| is_name(&matcher)) {
        selector.matchers.push(Matcher {
            label: "__name__".to_owned(),
            operator: MatchOperator::Equal,
            value: "target_info".to_owned(),
        });
    }
    let input = arguments.first();
    if let Some(first) = input.and_then(first_selector) {
        selector.when = first.when;
    }
    let mut names = selector.matchers.iter().filter(is_name);
    let has_one_name = names.any(|matcher| matcher.operator == MatchOperator::Equal);
    let mut infos = Node::Selector(selector);
    if has_one_name {
        infos = Node::Call {
            function: "timestamp",
            arguments: vec![infos],
        };
    }
    input.cloned().into_iter().chain([infos]).collect()
}
