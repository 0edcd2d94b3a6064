//! Ways through backends, and what becomes of requests and answers on them.

use ringway_io::net::http1::{HeadLimits, Method, Parsed};

use super::*;
use crate::fanout::Fetched;
use crate::plan::{
    Alb, BackendId, BackendKind, Handler, LocalAnswer, Matching, Mechanism, Methods, PoolId, Retry,
};

/// A backend with these paths, or with the one that takes everything.
pub(crate) fn backend(paths: Vec<PathRule>) -> Arc<Backend> {
    let paths = if paths.is_empty() {
        vec![PathRule::all()]
    } else {
        paths
    };
    Arc::new(Backend {
        id: BackendId(0),
        name: "web".into(),
        provider_label: "alb",
        replica_group: "web".into(),
        capture_bytes_max: 1 << 20,
        paths: paths.into(),
        latency: None,
        compressible_types: std::sync::Arc::new([]),
        kind: BackendKind::Alb(Alb {
            mechanism: Mechanism::RoundRobin,
            pool: PoolId(0),
            fanout_bytes_max: None,
            timeout: std::time::Duration::from_secs(60),
            query_range_max: None,
            concurrency_max: None,
            good_status: None,
            retry: Retry::NONE,
            user_router: None,
            tsm: Box::default(),
        }),
    })
}

/// A path that changes this.
pub(crate) fn changing(edits: Edits) -> PathRule {
    PathRule {
        edits: Some(Box::new(edits)),
        ..PathRule::all()
    }
}

/// Lets the passage come to its backend with this request.
pub(crate) fn enter(
    passage: &mut Passage<'_>,
    text: &str,
) -> Result<Option<AuthenticatorId>, Failure> {
    let mut head = RequestHead::new();
    let parsed = head.parse(text.as_bytes(), &HeadLimits::default());
    assert_eq!(parsed, Ok(Parsed::Complete(text.len())));
    let bytes = text.as_bytes();
    let asked = Asked::of((&head, bytes), head.path(bytes), false);
    passage.enter(&asked).map(|entered| match entered {
        Entered::Rule(_) => None,
        Entered::Asks(authenticator) => Some(authenticator),
    })
}

const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

/// Two hops that both change the same names.
fn two_hops() -> (Arc<Backend>, Arc<Backend>) {
    let outer = changing(Edits {
        request_headers: vec![Edit::append("X", "outer"), Edit::set("Host", "outer.test")],
        request_params: vec![Edit::append("p", "outer")],
        response_headers: vec![Edit::append("Y", "outer")],
        response_code: Some(203),
        response_body: None,
    });
    let inner = changing(Edits {
        request_headers: vec![Edit::append("X", "inner"), Edit::set("host", "inner.test")],
        request_params: vec![Edit::append("p", "inner")],
        response_headers: vec![Edit::append("Y", "inner")],
        response_code: Some(201),
        response_body: Some((*b"inner").into()),
    });
    (backend(vec![outer]), backend(vec![inner]))
}

fn values<'e>(edits: impl Iterator<Item = &'e Edit>, name: &str) -> Vec<String> {
    let named = edits.filter(|edit| &*edit.name == name);
    let values = named.filter_map(|edit| match &edit.action {
        EditAction::Append(value) | EditAction::Set(value) => Some(value.to_string()),
        EditAction::Remove => None,
    });
    values.collect()
}

#[test]
fn requests_change_inward_and_answers_outward() {
    let (outer, inner) = two_hops();
    let mut passage = Passage::at(&outer);
    enter(&mut passage, GET).expect("a rule");
    passage.hop(&inner).expect("within the bound");
    enter(&mut passage, GET).expect("a rule");
    assert_eq!(values(passage.request_headers(), "X"), ["outer", "inner"]);
    assert_eq!(passage.host(), Some("inner.test"));
    let query = passage.query(Some(b"q=%7e")).expect("a query");
    assert_eq!(&*query, b"q=%7e&p=outer&p=inner");
    let front = passage.front();
    assert_eq!(values(front.headers(), "Y"), ["inner", "outer"]);
    assert_eq!(front.status(500), 203);
    assert_eq!(front.body(), Some(&b"inner"[..]));
}

#[test]
fn a_member_of_a_fan_out_has_its_own_changes_of_answers() {
    let (outer, inner) = two_hops();
    let mut passage = Passage::at(&outer);
    enter(&mut passage, GET).expect("a rule");
    let mut member = passage.fork(&inner);
    enter(&mut member, GET).expect("a rule");
    assert_eq!(values(member.request_headers(), "X"), ["outer", "inner"]);
    assert_eq!(values(member.member_params(), "p"), ["inner"]);
    let mut fetched = Fetched {
        status: 200,
        headers: vec![
            (b"Y".to_vec(), b"origin".to_vec()),
            (b"ETag".to_vec(), b"\"1\"".to_vec()),
        ],
        body: b"origin".to_vec(),
        injected_labels: Vec::new(),
    };
    member.amend(&mut fetched);
    let expected = [
        (b"Y".to_vec(), b"origin".to_vec()),
        (b"Y".to_vec(), b"inner".to_vec()),
    ];
    assert_eq!((fetched.status, &*fetched.body), (201, &b"inner"[..]));
    assert_eq!(fetched.headers, expected);
}

#[test]
fn what_no_rule_changes_passes_without_a_copy() {
    let web = backend(Vec::new());
    let mut passage = Passage::at(&web);
    enter(&mut passage, GET).expect("a rule");
    assert!(matches!(
        passage.query(Some(b"a")),
        Some(Cow::Borrowed(b"a"))
    ));
    assert_eq!(passage.query(None), None);
    assert_eq!(passage.front().status(404), 404);
    assert_eq!(passage.edits.capacity(), 0);
}

#[test]
fn a_passage_knows_the_rule_of_its_first_backend() {
    let rule = |path: &str| PathRule {
        path: path.into(),
        matching: Matching::Exact,
        methods: Methods::default().with(Method::Get),
        ..PathRule::all()
    };
    let web = backend(vec![rule("/b"), rule("/a")]);
    let mut passage = Passage::at(&web);
    enter(&mut passage, GET).expect("a rule");
    assert_eq!(passage.entry(), Some(1));
    let mut passage = Passage::at(&web);
    let post = "POST /a HTTP/1.1\r\nHost: a\r\n\r\n";
    let refused = enter(&mut passage, post).expect_err("no rule");
    assert!(matches!(refused, Failure::Method { allowed } if allowed.allow() == "GET, HEAD"));
    assert_eq!(passage.entry(), Some(1));
    let mut passage = Passage::at(&web);
    let other = "GET /c HTTP/1.1\r\nHost: a\r\n\r\n";
    assert!(matches!(enter(&mut passage, other), Err(Failure::NoPath)));
    assert_eq!(passage.entry(), None);
}

#[test]
fn a_guarded_rule_waits_for_its_authenticator_once() {
    let guarded = PathRule {
        authenticator: Some(AuthenticatorId(3)),
        ..PathRule::all()
    };
    let web = backend(vec![guarded]);
    let mut passage = Passage::at(&web);
    let first = enter(&mut passage, GET).expect("a rule");
    assert_eq!(first, Some(AuthenticatorId(3)));
    assert_eq!(enter(&mut passage, GET).expect("a rule"), None);
}

#[test]
fn hops_are_bounded_over_fan_outs_too() {
    let web = backend(Vec::new());
    let mut passage = Passage::at(&web);
    for _ in 1..HOPS_MAX {
        passage = passage.fork(&web);
        enter(&mut passage, GET).expect("within the bound");
    }
    let mut beyond = passage.fork(&web);
    let refused = enter(&mut beyond, GET);
    assert!(matches!(refused, Err(Failure::TooManyHops { .. })));
    let refused = passage.hop(&web);
    assert!(matches!(refused, Err(Failure::TooManyHops { .. })));
}

#[test]
fn a_members_rule_may_answer_by_itself() {
    let answer = LocalAnswer {
        status: 418,
        body: (*b"tea").into(),
    };
    let rule = PathRule {
        handler: Handler::Local(answer),
        ..PathRule::all()
    };
    let web = backend(vec![rule]);
    let mut passage = Passage::at(&web);
    enter(&mut passage, GET).expect("a rule");
    let Handler::Local(local) = &web.paths[0].handler else {
        panic!("it is local");
    };
    let fetched = passage.local(local);
    assert_eq!((fetched.status, &*fetched.body), (418, &b"tea"[..]));
    let refused = refusal(&Failure::NoPath).expect("an answer");
    assert_eq!(refused.status, 404);
    assert!(refusal(&Failure::Internal).is_none());
}
