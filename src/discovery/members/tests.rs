//! Member lists: what is read, what is refused and with which words.

use super::*;

fn list(text: &str) -> Result<Vec<Member>, String> {
    parse(ListFormat::Trickster, text.as_bytes(), Scheme::Http)
}

fn groups(text: &str) -> Result<Vec<Member>, String> {
    parse(ListFormat::Prometheus, text.as_bytes(), Scheme::Https)
}

fn member(name: &str, scheme: Scheme, host: &str, port: u16) -> Member {
    Member {
        name: name.into(),
        ..Member::at(scheme, host, port)
    }
}

const FULL: &str = "\
# written by a sidecar
- name: prom-1
  address: 192.0.2.1:9090
- name: prom-2
  scheme: https
  address: '192.0.2.2:9090'
  path_prefix: /base/
  weight: 3
  replica_group: shard-0
- address: \"[2001:DB8:0::5]:9090\"
- {address: Prom.Example.COM:80, name: ~, weight: null}
";

fn full() -> Vec<Member> {
    vec![
        member("prom-1", Scheme::Http, "192.0.2.1", 9090),
        Member {
            path_prefix: "/base".into(),
            weight: 3,
            replica_group: "shard-0".into(),
            ..member("prom-2", Scheme::Https, "192.0.2.2", 9090)
        },
        member("[2001:db8::5]:9090", Scheme::Http, "2001:db8::5", 9090),
        member("prom.example.com:80", Scheme::Http, "prom.example.com", 80),
    ]
}

#[test]
fn yaml_and_json_say_the_same() {
    assert_eq!(list(FULL).unwrap(), full());
    let json = "\u{feff}[\n\t{\"name\": \"prom-1\", \"address\":\"192.0.2.1:9090\"},\n\t{\"name\":\"prom-2\",
\t\t\"scheme\":\"https\",\"address\":\"192.0.2.2:9090\",\"path_prefix\":\"\\/base\",\"weight\":3,
\t\t\"replica_group\":\"shard-0\"},{\"address\":\"[2001:db8::5]:9090\"},
\t{\"address\":\"prom.example.com:80\",\"name\":null}\n]\n";
    assert_eq!(list(json).unwrap(), full());
}

#[test]
fn json_that_is_no_yaml_is_read_too() {
    let members = list(r#"[{"address":"192.0.2.1:80","name":"\ud83d\ude00","weight":2}]"#).unwrap();
    assert_eq!((&*members[0].name, members[0].weight), ("😀", 2));
    let refused = list(r#"[{"address":"192.0.2.1:80","name":"\ud83d\ude00","x":2}]"#).unwrap_err();
    assert!(
        refused.starts_with("entry [0]: x: members have no such key"),
        "{refused}"
    );
}

#[test]
fn the_scheme_of_the_query_is_for_entries_without_one() {
    let text = b"- address: a:1\n- address: b:2\n  scheme: http\n";
    let members = parse(ListFormat::Trickster, text, Scheme::Https).unwrap();
    assert_eq!(members[0].scheme, Scheme::Https);
    assert_eq!(members[1].scheme, Scheme::Http);
}

#[test]
fn nothing_is_an_empty_list() {
    for text in [
        "",
        "\n  \n",
        "# nobody\n",
        "[]",
        "[ ]\n",
        "---\n",
        "null\n",
        "\u{feff}",
    ] {
        assert_eq!(list(text), Ok(Vec::new()), "{text:?}");
    }
}

/// Lists that are refused, and a part of what is said.
const REFUSED: &[(&str, &str)] = &[
    (
        "- address: a:1\n- name: b\n",
        "entry [1] at line 2: address is missing; write",
    ),
    ("- address: ~\n", "entry [0] at line 1: address is missing"),
    (
        "- a:1\n",
        "entry [0] at line 1: it is a single value; write `address:",
    ),
    ("-\n", "entry [0] at line 1: it is nothing"),
    ("- [a:1]\n", "entry [0] at line 1: it is a list"),
    (
        "- address: a\n",
        "address: \"a\": the port is missing; write host:port",
    ),
    ("- address: a:0\n", "\"0\" is not a port"),
    ("- address: a:65536\n", "\"65536\" is not a port"),
    ("- address: a:http\n", "\"http\" is not a port"),
    (
        "- address: 2001:db8::1:80\n",
        "an IPv6 address needs brackets",
    ),
    ("- address: '[2001:db8::1]'\n", "the port is missing"),
    ("- address: 'http://a:80'\n", "it is a URL"),
    ("- address: 'u@a:80'\n", "it holds credentials"),
    ("- address: 'a:80/x'\n", "\"80/x\" is not a port"),
    ("- address: [a]\n", "address: it must be a single value"),
    (
        "- address: a:1\n  scheme: ftp\n",
        "entry [0] at line 2: scheme: \"ftp\" is no scheme; write http or https",
    ),
    (
        "- address: a:1\n  weight: -1\n",
        "weight: \"-1\" is no weight; write a whole number",
    ),
    ("- address: a:1\n  weight: 1.5\n", "weight: \"1.5\""),
    (
        "- address: a:1\n  weight: 4294967296\n",
        "weight: \"4294967296\"",
    ),
    (
        "- address: a:1\n  path_prefix: x\n",
        "path_prefix: \"x\": write a path that begins with /",
    ),
    (
        "- address: a:1\n  path_prefix: /x?y\n",
        "must not have a query",
    ),
    (
        "- address: a:1\n  path_prefix: '/x y'\n",
        "must be percent-encoded",
    ),
    (
        "- address: a:1\n  adress: b:2\n",
        "adress: members have no such key; they have address, name, scheme",
    ),
    (
        "- address: a:1\n  adress:\n",
        "adress: members have no such key",
    ),
    ("- address: a:1\n  address: b:1\n", "line:2:3"),
    (
        "- targets: [a:1]\n",
        "targets: members have no such key; format prometheus has",
    ),
    ("address: a:1\n", "it is a mapping; write a list of members"),
    ("a:1\n", "it is a single value"),
    (
        "- address: a:1\n---\n- address: b:1\n",
        "line:2:1: only one YAML document per list",
    ),
    ("- address: 'a:1\n", "not valid YAML"),
    ("- &a {address: a:1, name: *a}\n", "line:1"),
];

#[test]
fn one_bad_entry_refuses_the_list_and_is_named() {
    for &(text, said) in REFUSED {
        let refused = list(text).expect_err(text);
        assert!(refused.contains(said), "{text:?}: {refused}");
        assert!(!refused.contains('\n'), "{refused:?}");
    }
}

#[test]
fn refusals_are_one_short_line_whatever_is_refused() {
    let long = "x".repeat(10_000);
    let evil = [
        "- \"a\\nb\": 1\n".to_owned(),
        "- address: \"a\\nb\"\n".to_owned(),
        format!("- {long}: 1\n"),
        format!("- address: {long}\n"),
        format!("- address: a:1\n  scheme: {long}\n"),
        "[{\"a\\nb\":1}]".to_owned(),
        format!("[{{\"{long}\":1}}]"),
    ];
    for text in evil {
        for refused in [list(&text), groups(&text)] {
            let refused = refused.unwrap_err();
            assert!(
                !refused.contains('\n') && refused.chars().count() <= 301,
                "{refused}"
            );
        }
    }
}

#[test]
fn text_that_is_none_is_refused() {
    for format in [ListFormat::Trickster, ListFormat::Prometheus] {
        let refused = parse(format, b"- address: a\xff:1", Scheme::Http).unwrap_err();
        assert_eq!(refused, "not UTF-8 at byte 12");
        let long = vec![b' '; BYTES_MAX + 1];
        let refused = parse(format, &long, Scheme::Http).unwrap_err();
        assert!(refused.contains("at most 16777216 bytes"), "{refused}");
    }
    let fits = vec![b' '; BYTES_MAX];
    assert_eq!(
        parse(ListFormat::Trickster, &fits, Scheme::Http),
        Ok(Vec::new())
    );
}

#[test]
fn json_says_the_same_as_yaml_and_where_it_is_wrong() {
    let json = "[\n {\"address\": \"a:1\", \"weight\": 3, \"name\": \"\\ud83d\\ude00\"},\n {\"address\": \"b:2\", \"scheme\": null}\n]";
    let yaml = "- {address: 'a:1', weight: 3, name: \u{1f600}}\n- {address: 'b:2', scheme: ~}\n";
    assert_eq!(list(json).unwrap(), list(yaml).unwrap());
    for (wrong, said) in [
        (
            "[\n{\"address\": \"a:1\"},\n{\"address\": 1}]",
            "entry [1] at line 3",
        ),
        ("[{\"address\": \"a:1\", \"weight\": 1.5}]", "1.5"),
        ("[{\"address\": \"a:1\", \"address\": \"b:1\"}]", "twice"),
        ("[{\"address\": \"a:1\", \"port\": 1}]", "no such key"),
    ] {
        let refused = list(wrong).unwrap_err();
        assert!(refused.contains(said), "{wrong}: {refused}");
    }
}

#[test]
fn values_are_bounded_though_bytes_are_not_many() {
    let mut bomb = "- &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..9 {
        let before = level - 1;
        let ten = vec![format!("*a{before}"); 10].join(",");
        bomb.push_str(&format!("- &a{level} [{ten}]\n"));
    }
    let refused = list(&bomb).unwrap_err();
    assert!(refused.contains("more than 1000000 values"), "{refused}");
    let json = format!("[\"\\ud83d\\ude00\"{}]", ",[]".repeat(NODES_MAX / 2));
    let refused = list(&json).unwrap_err();
    assert!(refused.contains("not valid YAML"), "{refused}");
    let deep = "[".repeat(100_000);
    assert!(list(&deep).is_err());
    let nested = format!("{}{}", "[".repeat(65), "]".repeat(65));
    let refused = list(&nested).unwrap_err();
    assert!(refused.contains("levels of nesting"), "{refused}");
    assert!(groups(&deep).is_err());
}

#[test]
fn groups_are_read() {
    let text = r#"[
        {"targets": ["192.0.2.1:9090", "[2001:db8::1]:9090"], "labels": {"env": "prod", "empty": ""}},
        {"targets": ["Plain:80"], "labels": {"__scheme__": "http", "__meta_x": "y"}},
        {"targets": ["bare:1"]},
        {"labels": null, "targets": []}
    ]"#;
    let members = groups(text).unwrap();
    let mut first = member("192.0.2.1:9090", Scheme::Https, "192.0.2.1", 9090);
    first.label("env", "prod");
    let mut second = member("[2001:db8::1]:9090", Scheme::Https, "2001:db8::1", 9090);
    second.label("env", "prod");
    let mut third = member("Plain:80", Scheme::Http, "plain", 80);
    third.label("__meta_x", "y");
    let fourth = member("bare:1", Scheme::Https, "bare", 1);
    assert_eq!(members, [first, second, third, fourth]);
    assert_eq!(groups("[]"), Ok(Vec::new()));
}

#[test]
fn bad_groups_are_refused_and_named() {
    for (text, said) in [
        ("", "EOF"),
        ("{}", "expected a list"),
        ("null", "expected a list"),
        ("- targets: [a:1]\n", "format prometheus is a JSON list"),
        (
            r#"[{"targets":["a:1"]},{"targets":["b"]}]"#,
            "entry [1]: target \"b\": the port is missing",
        ),
        (
            r#"[{"targets":["a:1"]},{"targets":"b:1"}]"#,
            "entry [1]: invalid type: string",
        ),
        (r#"[{"labels":{}}]"#, "entry [0]: missing field `targets`"),
        (r#"[{"targets":[],"x":1}]"#, "entry [0]: unknown field `x`"),
        (
            r#"[{"targets":[],"targets":[]}]"#,
            "entry [0]: duplicate field `targets`",
        ),
        (
            r#"[{"targets":[],"labels":{"a":1}}]"#,
            "entry [0]: invalid type: integer",
        ),
        (
            r#"[{"targets":["a:1"],"labels":{"__scheme__":"ws"}}]"#,
            "entry [0]: label __scheme__: \"ws\" is no scheme",
        ),
        (
            r#"[{"address":"a:1"}]"#,
            "entry [0]: unknown field `address`",
        ),
        (r#"[{"targets":["a:1"]}"#, "EOF"),
        (r#"[{"targets":["a:1"]}] x"#, "trailing characters"),
    ] {
        let refused = groups(text).expect_err(text);
        assert!(refused.contains(said), "{text:?}: {refused}");
    }
}

#[test]
fn ports_and_addresses_are_read() {
    for (text, found) in [
        ("80", Some(80)),
        (" 65535 ", Some(65535)),
        ("0", None),
        ("65536", None),
        ("+80", None),
        ("", None),
        ("http", None),
    ] {
        assert_eq!(port(text), found, "{text:?}");
    }
    for (text, host, port) in [
        ("a:1", "a", 1),
        ("A.Example:65535", "a.example", 65535),
        ("192.0.2.1:80", "192.0.2.1", 80),
        ("[2001:DB8:0:0::1]:80", "2001:db8::1", 80),
    ] {
        assert_eq!(host_port(text), Ok((host.into(), port)), "{text}");
    }
    for text in [
        "", ":80", "a:", "[::1]", "::1:80", "a:080000", "a b:1", "a:1\n",
    ] {
        assert!(host_port(text).is_err(), "{text:?}");
    }
}

/// Refusals go into the log.
#[test]
fn what_may_be_a_credential_is_not_told() {
    for list in [
        "- {address: 'user:SECRET@192.0.2.1:80'}",
        "- {address: 'http://user:SECRET@192.0.2.1:80'}",
        "- {address: 'http://192.0.2.1:80/?token=SECRET'}",
        "- {address: 'a:1', path_prefix: '/a?token=SECRET'}",
        "- {address: 'a:1', path_prefix: 'a#SECRET'}",
    ] {
        let said = parse(ListFormat::Trickster, list.as_bytes(), Scheme::Http).unwrap_err();
        assert!(!said.contains("SECRET") && said.contains("***"), "{said}");
    }
    let targets = br#"[{"targets":["http://u:SECRET@192.0.2.1:80"]}]"#;
    let said = parse(ListFormat::Prometheus, targets, Scheme::Http).unwrap_err();
    assert!(!said.contains("SECRET"), "{said}");
}
