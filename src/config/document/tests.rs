//! Hostile and odd texts: an answer or a problem, never a panic, never much memory.

use super::*;

fn parse(text: &str) -> Result<Node, String> {
    parse_str(&"a.yaml".into(), text).map_err(|problem| problem.to_string())
}

/// A small generator of repeatable noise.
struct Noise(u64);

impl Noise {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

#[test]
fn nothing_is_an_empty_mapping() {
    for text in [
        "",
        "\n",
        "# only a comment\n",
        "---\n",
        "~\n",
        "\u{feff}# mark\n",
    ] {
        assert_eq!(parse(text).unwrap().entries().len(), 0, "{text:?}");
    }
}

#[test]
fn every_value_knows_its_place() {
    let root = parse("a: 1\nb:\n  - x\n  - {c: é, d: y}\n").unwrap();
    let b = root.entry("b").unwrap();
    assert_eq!((b.mark.line, b.mark.column), (2, 1));
    let Value::List(items) = &b.node.value else {
        panic!("not a list");
    };
    let d = items[1].entry("d").unwrap();
    assert_eq!((d.mark.line, d.mark.column), (4, 12));
    assert_eq!((d.node.mark.line, d.node.mark.column), (4, 15));
}

#[test]
fn quotes_make_text_of_nothing() {
    let root = parse("a: ''\nb: \"null\"\nc: ~\nd: !!str null\ne:\n").unwrap();
    assert_eq!(root.get("a").unwrap().text(), Some(""));
    assert_eq!(root.get("b").unwrap().text(), Some("null"));
    assert!(root.get("c").unwrap().is_null());
    assert_eq!(root.get("d").unwrap().text(), Some("null"));
    assert!(root.get("e").unwrap().is_null());
}

#[test]
fn the_slip_of_a_missing_parent_key_is_explained() {
    let text = "backends:\n  a:\n    origin_url: http://a\n      labels:\n        x: y\n";
    let message = parse(text).unwrap_err();
    assert!(
        message.contains("is a parent key such as `prometheus:` missing?"),
        "{message}"
    );
}

#[test]
fn billions_of_laughs_are_counted() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        let items = vec![below; 10].join(", ");
        text += &format!("a{level}: &a{level} [{items}]\n");
    }
    assert!(
        parse(&text)
            .unwrap_err()
            .contains("more than 100000 values")
    );
}

#[test]
fn deep_nesting_is_cut() {
    for text in [
        "[".repeat(200_000),
        format!("a: {}", "{a: ".repeat(100_000)),
        "- ".repeat(100_000),
        "? ".repeat(100_000),
        (0..200).map(|n| format!("{}a:\n", " ".repeat(n))).collect(),
        (1..80).fold("a0: &a0 [x]\n".to_owned(), |text, n| {
            text + &format!("a{n}: &a{n} [*a{}]\n", n - 1)
        }),
    ] {
        assert!(parse(&text).is_err());
    }
}

#[test]
fn large_files_are_refused_before_they_are_parsed() {
    let text = "#".repeat(usize::try_from(FILE_BYTES_MAX).unwrap() + 1);
    assert!(parse(&text).unwrap_err().contains("larger than"));
}

#[test]
fn overlays_merge_replace_and_clear() {
    let mut root = parse("a: {x: 1, y: [1, 2]}\nb: 2\nc: {d: 3}\n").unwrap();
    root.overlay(parse("a: {y: [3], z: 4}\nb:\nc: 5\n").unwrap());
    let a = root.get("a").unwrap();
    assert_eq!(a.get("x").unwrap().text(), Some("1"));
    assert!(matches!(&a.get("y").unwrap().value, Value::List(items) if items.len() == 1));
    assert_eq!(a.get("z").unwrap().text(), Some("4"));
    assert!(root.get("b").is_none(), "as if it had never been written");
    assert_eq!(root.get("c").unwrap().text(), Some("5"));
}

#[test]
fn noise_never_panics() {
    const PARTS: &[&str] = &[
        "a",
        "b: ",
        ": ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "\n",
        "\n  ",
        "&x ",
        "*x",
        "<<: ",
        "!t ",
        "!!str ",
        "'",
        "\"",
        "|\n",
        ">-\n",
        "? ",
        "#",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
        "\t",
        "é",
        "\u{feff}",
        "\u{0}",
        "~",
        "\r\n",
        "\\",
        "@",
        "`",
        "backends",
        "alb: ",
    ];
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..noise.next(24) {
            text += PARTS[noise.next(PARTS.len())];
        }
        if let Ok(node) = parse(&text) {
            assert!(node.height() <= DEPTH_MAX);
        }
    }
}

#[test]
fn torn_configurations_never_panic() {
    let whole = include_str!("../../../packaging/ringway.example.yaml");
    let environment = crate::config::Environment::default();
    for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
        let torn = crate::config::Document::of_text("a.yaml", &whole[..end], &environment);
        assert!(torn.is_ok() || torn.is_err());
    }
}
