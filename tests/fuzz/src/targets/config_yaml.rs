//! Configuration files: no panic, whatever they hold, and a problem has a place.

use std::sync::Arc;

use ringway::config::document::parse_str;

use super::Target;
use crate::random::Random;

/// See the module.
pub static TARGET: Target = Target {
    name: "config-yaml",
    about: "configuration files as YAML",
    count: 200_000,
    seeds: &[
        b"backends:\n  a: {provider: reverseproxy, origin_url: 'http://127.0.0.1:1'}\n",
        b"main:\n  server_name: x\nlisteners:\n  default:\n    port: 8480\n    address: \"::\"\n",
        b"backends:\n  p: &p\n    provider: prometheus\n    origin_url: http://h:9090/x\n  q: *p\n",
        b"a: &a [1, 2]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n",
        b"x: |\n  text\n  more\ny: >-\n  folded\nz: !!str 1\n? k\n: v\n",
        b"backends:\n  l:\n    provider: alb\n    alb: {mechanism: rr, pool: [a, {name: b, weight: 2}]}\n",
    ],
    words: &[
        b"\n", b": ", b"- ", b"  ", b"&a ", b"*a", b"<<: ", b"|\n", b">\n", b"'", b"\"", b"{", b"}",
        b"[", b"]", b",", b"#", b"---\n", b"...\n", b"!!int ", b"%YAML 1.2\n", b"? ", b"~", b"\t",
        b"\\u0000", b"${HOME}", b"backends:", b"provider: ", b"null",
    ],
    run,
};

fn run(input: &[u8], _: &mut Random) {
    let text = String::from_utf8_lossy(input);
    let source: Arc<str> = Arc::from("fuzz.yaml");
    if let Err(problem) = parse_str(&source, &text) {
        let said = problem.to_string();
        assert!(
            said.starts_with("fuzz.yaml:"),
            "a problem has a place: {said}"
        );
        assert!(!said.contains('\n'), "a problem is one line: {said}");
    }
}
