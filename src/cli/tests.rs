//! Command lines: what they mean and how they are refused.

use super::*;

fn parsed(line: &str) -> Result<Command, String> {
    parsed_with(line, &Environment::default())
}

fn parsed_with(line: &str, environment: &Environment) -> Result<Command, String> {
    let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    parse(&arguments, environment).map_err(|error| error.to_string())
}

fn load_of(command: Command) -> LoadOptions {
    match command {
        Command::Run(load) | Command::Demo(load) | Command::Check { load, .. } => load,
        other => panic!("{other:?}"),
    }
}

#[test]
fn commands_and_the_contract_s_flags_are_understood() {
    for line in [
        "run --config a.yaml",
        "run -config a.yaml",
        "-config=a.yaml",
        "--config=a.yaml run",
        "--config a.yaml",
    ] {
        let command = parsed(line).unwrap();
        assert!(matches!(command, Command::Run(_)), "{line}");
        assert_eq!(load_of(command).path, Some("a.yaml".into()), "{line}");
    }
    for line in [
        "check --config a",
        "-validate-config -config a",
        "run --validate-config --config a",
        "check --config a --explain=false",
    ] {
        assert!(
            matches!(parsed(line), Ok(Command::Check { explain: false, .. })),
            "{line}"
        );
    }
    assert!(matches!(
        parsed("check --explain"),
        Ok(Command::Check { explain: true, .. })
    ));
    assert!(matches!(
        parsed("demo --proxy-port 1"),
        Ok(Command::Demo(_))
    ));
    for line in ["version", "-version", "--version=true"] {
        assert!(matches!(parsed(line), Ok(Command::Version)), "{line}");
    }
    assert!(matches!(parsed(""), Ok(Command::Run(_))));
    assert!(matches!(parsed("-version=false"), Ok(Command::Run(_))));
}

#[test]
fn help_has_examples_for_every_command() {
    for line in [
        "--help",
        "help",
        "-h",
        "run --help",
        "help check",
        "explain --help",
        "demo -h",
        "version --help",
    ] {
        let Ok(Command::Help(text)) = parsed(line) else {
            panic!("{line}");
        };
        assert!(text.contains("examples:\n  ringway "), "{line}");
    }
}

#[test]
fn flags_win_over_variables() {
    let environment = Environment::of_pairs(&[
        ("TRK_PROXY_PORT", "1"),
        ("TRK_LOG_LEVEL", ""),
        ("TRK_ORIGIN_TYPE", "rp"),
    ]);
    let line = "-proxy-port 2 -origin-url http://a -instance-id 3";
    let load = load_of(parsed_with(line, &environment).unwrap());
    let set: Vec<_> = load
        .overrides
        .iter()
        .map(|o| format!("{}: {}={}", o.source, o.keys.join("."), o.text))
        .collect();
    assert_eq!(
        set,
        [
            "environment variable TRK_ORIGIN_TYPE: backends.default.provider=rp",
            "environment variable TRK_PROXY_PORT: listeners.default.port=1",
            "flag -proxy-port: listeners.default.port=2",
            "flag -origin-url: backends.default.origin_url=http://a",
            "flag -instance-id: main.instance_id=3",
        ]
    );
}

#[test]
fn command_lines_that_make_no_sense_are_refused() {
    for (line, expected) in [
        ("rnu", "unknown command \"rnu\"; did you mean \"run\"?"),
        ("--confg a", "unknown flag --confg; did you mean -config?"),
        ("--zzz", "unknown flag --zzz; see ringway --help"),
        ("--config", "flag -config needs a value: -config FILE|DIR"),
        (
            "-version=maybe",
            "flag -version takes no value, or true or false",
        ),
        ("run --explain", "flag -explain is not for run"),
        ("demo --config a", "flag -config is not for demo"),
        (
            "version --log-level info",
            "flag -log-level is not for version",
        ),
        ("run --json", "flag -json is not for run"),
        ("check --backend a", "flag -backend is not for check"),
        ("explain --explain a", "flag -explain is not for explain"),
        (
            "explain --config a",
            "a query is needed: ringway explain --config FILE 'QUERY'",
        ),
        ("explain --run a", "flag -run needs -url too"),
        ("explain --url http://a a", "flag -url needs -run too"),
        (
            "explain --run --url http://a --config b a",
            "flags -run and -config exclude each other",
        ),
        ("explain --start 1 --step 1 a", "flag -start needs -end too"),
        (
            "explain --time 1 --end 2 a",
            "flags -end and -time exclude each other",
        ),
        (
            "run a.yaml",
            "unexpected argument \"a.yaml\"; a configuration is given as --config a.yaml",
        ),
        (
            "run a b",
            "unexpected argument \"b\"; a configuration is given as --config b",
        ),
    ] {
        assert_eq!(parsed(line).unwrap_err(), expected, "{line}");
    }
}

#[test]
fn a_query_to_explain_has_its_times() {
    let line = "explain --config c -backend b --json --start 1 --end 2 --step 3s up";
    let Ok(Command::Explain(asked)) = parsed(line) else {
        panic!("{line}");
    };
    assert_eq!((asked.query.as_str(), asked.json), ("up", true));
    assert_eq!(asked.backend.as_deref(), Some("b"));
    assert_eq!(asked.load.path, Some("c".into()));
    let times = [("start", "1"), ("end", "2"), ("step", "3s")];
    assert_eq!(
        asked.times,
        times.map(|(name, value)| (name, value.to_owned()))
    );
    let Ok(Command::Explain(asked)) = parsed("explain --run --url http://a up") else {
        panic!("it is complete");
    };
    assert_eq!(asked.url.as_deref(), Some("http://a"));
}
