//! The status page: its forms, its validators, and what it is in a browser.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringway_wire::{Answer, Client, Gate, Origin, Port, Ringway, Setup, browse, eventually, ok};
use serde_json::Value;

use crate::health::while_well;

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// The page's own time that a browser gives it: several rounds of questions.
const PAGE_MS: u32 = 20_000;

#[track_caller]
fn asked(ringway: &Ringway, method: &str, target: &str, headers: &str) -> Answer {
    let mut client = Client::connect(ringway.metrics_address());
    client
        .send(format!(
            "{method} {target} HTTP/1.1\r\nHost: a\r\n{headers}\r\n"
        ))
        .answer_to(method)
}

#[track_caller]
fn page(ringway: &Ringway, accept: &str) -> Answer {
    let header = format!("Accept: {accept}\r\n");
    asked(ringway, "GET", "/trickster/health", &header)
}

/// `prom-01` is up, `flux-01` down, `proxy-01` never probed, and two ALBs over them.
fn states(origin: &Origin, gone: &Port) -> Ringway {
    let (up, down) = (origin.address(), gone.address());
    let check = "healthcheck: {interval: 100ms, timeout: 2s, path: /, query: '', failure_threshold: 1, \
                 recovery_threshold: 1, headers: {Authorization: hunter2}}";
    let ringway = Setup::new(format!(
        "backends:\n  prom-01: {{provider: prometheus, origin_url: 'http://{up}', {check}}}\n  \
         flux-01: {{provider: rp, origin_url: 'http://{down}', {check}}}\n  \
         proxy-01: {{provider: reverseproxy, origin_url: 'http://{up}'}}\n  \
         lb: {{provider: alb, is_default: true, alb: {{mechanism: rr, pool: [prom-01, flux-01, proxy-01]}}}}\n  \
         dead: {{provider: alb, alb: {{mechanism: rr, pool: [flux-01]}}}}\n"
    ))
    .start();
    eventually("both verdicts are there", || {
        let text = page(&ringway, "*/*").text();
        (text.contains("unavailable since") && !text.contains("initializing")).then_some(())
    });
    ringway
}

#[test]
fn the_text_page_has_the_layout_of_the_contract() {
    let (origin, gone) = (Origin::answering(|_| ok("x")), Port::claim());
    let ringway = states(&origin, &gone);
    let text = page(&ringway, "*/*").text();
    let changed = text
        .lines()
        .next()
        .and_then(|line| line.split_once("last change: "))
        .map_or("", |(_, time)| time);
    assert_eq!(changed.len(), "2020-01-01 00:00:00 UTC".len(), "{text}");
    let since = text
        .split_once("unavailable since ")
        .and_then(|(_, rest)| rest.lines().next())
        .unwrap_or_default();
    let rule = "-".repeat(79);
    let expected = format!(
        "Trickster Backend Health Status            last change: {changed}\n{rule}\n\n\
         flux-01      proxy        unavailable since {since}\n\
         dead         alb (rr)     unavailable u:[flux-01]\n\n\
         prom-01      prometheus   available\n\
         lb           alb (rr)     available u:[flux-01] a:[prom-01] nc:[proxy-01]\n\n\
         proxy-01     proxy        not configured for automated health checks\n\n{rule}\n\
         You can also provide a 'Accept: application/json' Header or query param ?json\n"
    );
    assert_eq!(text, expected);
    ringway.stop();
}

#[test]
fn the_form_is_chosen_by_accept_and_by_the_query() {
    let (origin, gone) = (Origin::answering(|_| ok("x")), Port::claim());
    let ringway = states(&origin, &gone);
    for (accept, query, content_type) in [
        ("*/*", "", "text/plain; charset=utf-8"),
        ("application/json", "", "application/json"),
        ("text/yaml", "", "text/yaml"),
        (BROWSER, "", "text/html; charset=utf-8"),
        (
            "text/html;q=0.1, application/json;q=0.2",
            "",
            "application/json",
        ),
        ("text/html;q=0, */*", "", "text/plain; charset=utf-8"),
        (BROWSER, "?json", "application/json"),
        (BROWSER, "?yaml", "text/yaml"),
        (BROWSER, "?text", "text/plain; charset=utf-8"),
    ] {
        let target = format!("/trickster/health{query}");
        let answer = asked(&ringway, "GET", &target, &format!("Accept: {accept}\r\n"));
        assert_eq!(answer.status, 200);
        let found = answer.header("content-type");
        assert_eq!(found, Some(content_type), "{accept} {query}");
        assert_eq!(answer.header("vary"), Some("Accept"));
    }
    let none = asked(&ringway, "GET", "/trickster/health", "");
    assert_eq!(
        none.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    ringway.stop();
}

#[test]
fn json_and_yaml_list_the_groups() {
    let (origin, gone) = (Origin::answering(|_| ok("x")), Port::claim());
    let ringway = states(&origin, &gone);
    let json: Value =
        serde_json::from_slice(&page(&ringway, "application/json").body).expect("it is JSON");
    assert_eq!(json["title"], "Trickster Backend Health Status");
    assert_eq!(json["available"][0]["name"], "prom-01");
    assert_eq!(json["unavailable"][0]["name"], "flux-01");
    let detail = json["unavailable"][0]["detail"]
        .as_str()
        .unwrap_or_default();
    assert!(detail.starts_with("error probing target: "), "{detail}");
    assert_eq!(json["unchecked"][0]["name"], "proxy-01");
    assert_eq!(
        json["initializing"],
        Value::Null,
        "empty lists are left out"
    );
    assert_eq!(json["available"][1]["mechanism"], "rr");
    assert_eq!(json["available"][1]["unavailablePoolMembers"][0], "flux-01");
    let yaml = page(&ringway, "application/yaml").text();
    assert!(yaml.contains("available:\n- name: \"prom-01\"\n"), "{yaml}");
    ringway.stop();
}

#[test]
fn an_unchanged_page_is_not_sent_again() {
    let (origin, well) = while_well();
    let gone = Port::claim();
    let ringway = states(&origin, &gone);
    let first = page(&ringway, "*/*");
    assert_eq!(first.header("cache-control"), Some("no-cache"));
    let modified = first
        .header("last-modified")
        .expect("it has a date")
        .to_owned();
    let tag = first.header("etag").expect("it has a tag").to_owned();
    let again = |headers: &str| asked(&ringway, "GET", "/trickster/health", headers);
    for (headers, status) in [
        (format!("If-Modified-Since: {modified}\r\n"), 304),
        (
            "If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT\r\n".to_owned(),
            200,
        ),
        ("If-Modified-Since: yesterday\r\n".to_owned(), 200),
        (format!("If-None-Match: {tag}\r\n"), 304),
        ("If-None-Match: \"other\"\r\n".to_owned(), 200),
    ] {
        let answer = again(&headers);
        assert_eq!(answer.status, status, "{headers}");
        assert!(status == 200 || answer.body.is_empty());
        assert_eq!(answer.header("last-modified"), Some(&*modified));
    }
    well.store(false, Ordering::SeqCst);
    let headers = format!("If-None-Match: {tag}\r\nIf-Modified-Since: {modified}\r\n");
    let changed = eventually("a change is sent", || {
        let answer = again(&headers);
        (answer.status == 200).then_some(answer)
    });
    assert!(
        !changed.text().contains("prometheus   available"),
        "{}",
        changed.text()
    );
    ringway.stop();
}

#[test]
fn only_get_and_head_are_answered() {
    let (origin, gone) = (Origin::answering(|_| ok("x")), Port::claim());
    let ringway = states(&origin, &gone);
    let get = page(&ringway, BROWSER);
    let header = format!("Accept: {BROWSER}\r\n");
    let head = asked(&ringway, "HEAD", "/trickster/health", &header);
    assert_eq!(head.status, 200);
    let length = get.body.len().to_string();
    for (name, value) in [
        ("content-length", Some(&*length)),
        ("content-type", get.header("content-type")),
        ("etag", get.header("etag")),
    ] {
        assert_eq!(head.header(name), value, "{name}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let refused = asked(
            &ringway,
            method,
            "/trickster/health",
            "Content-Length: 0\r\n",
        );
        assert_eq!(refused.status, 405, "{method}");
        assert_eq!(refused.header("allow"), Some("GET, HEAD"), "{method}");
    }
    assert_eq!(asked(&ringway, "GET", "/trickster/health/", "").status, 404);
    ringway.stop();
}

#[test]
fn the_path_is_configured_and_an_empty_one_turns_the_page_off() {
    for (path, own, usual) in [("/how/are/you", 200, 404), ("", 404, 404)] {
        let origin = Origin::answering(|_| ok("x"));
        let ringway = Setup::web(origin.address(), "")
            .section(&format!("mgmt: {{health_handler_path: '{path}'}}\n"))
            .start();
        assert_eq!(asked(&ringway, "GET", "/how/are/you", "").status, own);
        assert_eq!(asked(&ringway, "GET", "/how/are/you/web", "").status, own);
        assert_eq!(
            asked(&ringway, "GET", "/trickster/health", "").status,
            usual
        );
        ringway.stop();
    }
}

#[test]
fn the_page_tells_no_secret_and_loads_nothing_from_outside() {
    let (origin, gone) = (Origin::answering(|_| ok("x")), Port::claim());
    let ringway = states(&origin, &gone);
    for accept in ["*/*", "application/json", "text/yaml", BROWSER] {
        assert!(
            !page(&ringway, accept).text().contains("hunter2"),
            "{accept}"
        );
    }
    let html = page(&ringway, BROWSER);
    let policy = html
        .header("content-security-policy")
        .expect("there is one");
    for part in [
        "default-src 'none'",
        "connect-src 'self'",
        "script-src 'sha256-",
        "style-src 'sha256-",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{part}: {policy}");
    }
    assert!(
        !policy.contains("unsafe") && !policy.contains('*'),
        "{policy}"
    );
    assert_eq!(html.header("x-content-type-options"), Some("nosniff"));
    let text = html.text();
    for outside in ["src=", "@import", "url(", "http://", "https://"] {
        // A detail may name an address that was probed, not link to it.
        assert!(!text.contains(outside), "{outside}: {text}");
    }
    ringway.stop();
}

// === in a browser ===

/// The rows that `states` makes, but for the details that hold times.
#[track_caller]
fn assert_rows(rows: &[Vec<String>]) {
    let found: Vec<[&str; 3]> = rows
        .iter()
        .map(|cells| [&*cells[0], &*cells[1], &*cells[2]])
        .collect();
    assert_eq!(
        found,
        [
            ["flux-01", "proxy", "unavailable"],
            ["dead", "alb (rr)", "unavailable"],
            ["prom-01", "prometheus", "available"],
            ["lb", "alb (rr)", "available"],
            ["proxy-01", "proxy", "unchecked"],
        ]
    );
    assert!(rows[0][3].starts_with("since 20"), "{rows:?}");
    assert!(
        rows[0][3].contains("; error probing target: dial tcp"),
        "{rows:?}"
    );
    assert_eq!(
        rows[3][3],
        "unavailable: flux-01; available: prom-01; unchecked: proxy-01"
    );
    assert_eq!(rows[4][3], "not configured for automated health checks");
}

#[test]
fn a_browser_shows_the_same_rows_on_a_desk_and_on_a_phone() {
    let (origin, gone) = (Origin::answering(|_| ok("x")), Port::claim());
    let ringway = states(&origin, &gone);
    let url = format!("http://{}/trickster/health", ringway.metrics_address());
    for window in [(1280, 800), (390, 844)] {
        let page = browse(&url, window, PAGE_MS, ringway.folder());
        assert_rows(&page.rows());
        assert_eq!(
            page.text_of_id("summary"),
            "2 unavailable, 2 available, 1 unchecked"
        );
        assert_eq!(page.text_of_id("contact"), "Live: asked every few seconds.");
        assert!(
            page.dom
                .contains("<title>2 unavailable, 2 available, 1 unchecked ")
        );
        // Also proves that the policy lets the style and the script be.
        assert!(page.console.is_empty(), "{:?}", page.console);
    }
    ringway.stop();
}

/// Stands between a browser and the metrics listener: relays, and asks `before` what to do with each question for
/// JSON, by its number; false cuts the connection.
fn relay(
    ringway: &Ringway,
    pages: Arc<AtomicUsize>,
    before: impl Fn(usize) -> bool + Send + Sync + 'static,
) -> Origin {
    let to = ringway.metrics_address();
    let asked = AtomicUsize::new(0);
    Origin::start(move |conn| {
        while let Some(request) = conn.request() {
            if request.target.ends_with("?json") {
                if !before(asked.fetch_add(1, Ordering::SeqCst)) {
                    conn.reset_at_end();
                    return;
                }
            } else {
                pages.fetch_add(1, Ordering::SeqCst);
            }
            let accept = request.header("accept").unwrap_or("*/*");
            let mut client = Client::connect(to);
            let answer = client
                .send(format!(
                    "GET {} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n",
                    request.target
                ))
                .answer();
            conn.send([answer.head.raw, answer.body].concat());
        }
    })
}

#[test]
fn a_change_shows_without_a_reload() {
    let (origin, well) = while_well();
    let gone = Port::claim();
    let ringway = states(&origin, &gone);
    let (asks, goes_on) = (Gate::new(), Gate::new());
    let (rings, waits) = (asks.clone(), goes_on.clone());
    let pages = Arc::new(AtomicUsize::new(0));
    let relay = relay(&ringway, pages.clone(), move |number| {
        if number == 1 {
            // The browser's clock stands still until this question is answered.
            rings.open();
            waits.pass();
        }
        true
    });
    let url = format!("http://{}/trickster/health", relay.address());
    let shown = std::thread::scope(|scope| {
        let folder = ringway.folder();
        let browser = scope.spawn(move || browse(&url, (1280, 800), PAGE_MS, folder));
        asks.pass();
        well.store(false, Ordering::SeqCst);
        eventually("the backend is down", || {
            let text = page(&ringway, "*/*").text();
            text.contains("prom-01      prometheus   unavailable")
                .then_some(())
        });
        goes_on.open();
        browser.join().expect("the browser ends")
    });
    let rows = shown.rows();
    let row = rows
        .iter()
        .find(|row| row[0] == "prom-01")
        .expect("it is there");
    assert_eq!(row[2], "unavailable");
    assert!(row[3].contains("expected [200] got 500"), "{row:?}");
    assert_eq!(rows[1][0], "prom-01", "rows move to their group: {rows:?}");
    assert_eq!(
        shown.text_of_id("summary"),
        "3 unavailable, 1 available, 1 unchecked"
    );
    assert_eq!(pages.load(Ordering::SeqCst), 1, "the page was loaded once");
    assert!(shown.console.is_empty(), "{:?}", shown.console);
    ringway.stop();
}

#[test]
fn a_page_whose_server_is_away_says_so_and_keeps_its_rows() {
    let (origin, gone) = (Origin::answering(|_| ok("x")), Port::claim());
    let ringway = states(&origin, &gone);
    let pages = Arc::new(AtomicUsize::new(0));
    let away = relay(&ringway, pages.clone(), |number| number == 0);
    let url = format!("http://{}/trickster/health", away.address());
    let shown = browse(&url, (1280, 800), PAGE_MS, ringway.folder());
    let contact = shown.text_of_id("contact");
    assert!(contact.starts_with("No answer since "), "{contact}");
    assert_rows(&shown.rows());

    // It was away and is back.
    let back = relay(&ringway, pages.clone(), |number| number != 1);
    let url = format!("http://{}/trickster/health", back.address());
    let shown = browse(&url, (1000, 800), PAGE_MS, ringway.folder());
    assert_eq!(
        shown.text_of_id("contact"),
        "Live: asked every few seconds."
    );
    assert_rows(&shown.rows());
    assert_eq!(pages.load(Ordering::SeqCst), 2);
    ringway.stop();
}
