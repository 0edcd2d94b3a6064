//! `label_replace` and `label_join`: new labels out of old ones.
//!
//! Both look at labels only. Up to 2.51 they were evaluated step by step, later once for all
//! steps; it shows where two series come to have the same labels at different steps. Before 2.44
//! they made zeros of histograms.

use super::arguments::Arguments;
use super::math::{self, OnHistogram, SIMPLE};
use super::pattern::Pattern;
use super::settle::{self, Twice};
use crate::eval::env::Env;
use crate::eval::error::{EvalError, Outcome};
use crate::eval::value::{Series, Value, label_set, text};
use crate::labels::Label;
use crate::plan::Dialect;

/// Calls one of these functions.
pub(super) async fn call<'a>(
    env: &Env<'a>,
    function: &str,
    mut given: Arguments<'a>,
) -> Outcome<Value<'a>> {
    let mut series = given.vector();
    if !env.dialect().is_at_least(2, 44) {
        series = math::map(env, series, OnHistogram::Elementary, SIMPLE, |_, value| {
            value
        })
        .await?;
    }
    let target = given.text()?;
    match function {
        "label_replace" => replace(env, &mut series, target, &mut given).await?,
        _ => join(env, &mut series, target, &mut given).await?,
    }
    let twice = match env.dialect().is_at_least(2, 52) {
        true => Twice::Whole,
        false => Twice::AtOneStep,
    };
    Ok(Value::Vector(settle::join(env, series, twice).await?))
}

async fn replace<'a>(
    env: &Env<'a>,
    series: &mut [Series<'a>],
    target: &'a str,
    given: &mut Arguments<'a>,
) -> Outcome<()> {
    let (replacement, source, pattern) = (given.text()?, given.text()?, given.text()?);
    env.pace.spend(Pattern::COMPILE_UNITS).await;
    let compiled = Pattern::anchored(pattern, env.dialect())?.ok_or_else(|| {
        EvalError::Execution(format!(
            "invalid regular expression in label_replace(): {pattern}"
        ))
    })?;
    env.pace.spend(Pattern::COMPILE_UNITS).await;
    check_name(env.dialect(), target, "destination", "label_replace")?;
    for one in series {
        let value = value_of(one.labels, source);
        if let Some(made) = compiled.expand(value, replacement) {
            one.labels = with_label(env, one.labels, target, &made)?;
        }
        let units = 64 + 16 * (value.len() + one.labels.len());
        env.pace.spend(units).await;
    }
    Ok(())
}

async fn join<'a>(
    env: &Env<'a>,
    series: &mut [Series<'a>],
    target: &'a str,
    given: &mut Arguments<'a>,
) -> Outcome<()> {
    let separator = given.text()?;
    let mut sources = Vec::with_capacity(given.count());
    while given.count() > 0 {
        let source = given.text()?;
        check_name(env.dialect(), source, "source", "label_join")?;
        sources.push(source);
    }
    check_name(env.dialect(), target, "destination", "label_join")?;
    for one in series {
        let values: Vec<&str> = sources
            .iter()
            .map(|source| value_of(one.labels, source))
            .collect();
        let made = values.join(separator);
        one.labels = with_label(env, one.labels, target, &made)?;
        let units = 64 + made.len() + 16 * (sources.len() + one.labels.len());
        env.pace.spend(units).await;
    }
    Ok(())
}

/// The value of a label; empty where there is none.
pub(super) fn value_of<'a>(labels: &[Label<'a>], name: &str) -> &'a str {
    let found = labels.iter().find(|label| label.name == name);
    found.map_or("", |label| label.value)
}

/// `labels` with the label `name`, or without it where `value` is empty.
pub(super) fn with_label<'a>(
    env: &Env<'a>,
    labels: &'a [Label<'a>],
    name: &'a str,
    value: &str,
) -> Outcome<&'a [Label<'a>]> {
    if value_of(labels, name) == value {
        return Ok(labels);
    }
    let mut made = Vec::with_capacity(labels.len() + 1);
    made.extend(labels.iter().copied().filter(|label| label.name != name));
    made.push(Label {
        name,
        value: text(env.bump, value)?,
    });
    label_set(env.bump, &made)
}

/// Any text may be a label name since 3.0.
fn check_name(dialect: Dialect, name: &str, role: &str, function: &str) -> Outcome<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_good = !name.is_empty()
        && (dialect.is_at_least(3, 0)
            || (name.bytes().all(is_plain) && !name.starts_with(|c: char| c.is_ascii_digit())));
    match is_good {
        true => Ok(()),
        false => Err(EvalError::Execution(format!(
            "invalid {role} label name in {function}(): {name}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;

    #[test]
    fn labels_are_made_as_told() {
        let x = r#"x{a="b-c",e="f"} 1"#;
        let cases: &[(&[&str], &str)] = &[
            (
                &["'h", "'$1", "'a", "'(.*)-.*"],
                r#"x{a="b-c",e="f",h="b"} 1"#,
            ),
            (&["'h", "'$1", "'a", "'(.)"], r#"x{a="b-c",e="f"} 1"#),
            (&["'a", "'", "'a", "'.*"], r#"x{e="f"} 1"#),
            (&["'a", "'z", "'nosuch", "'"], r#"x{a="z",e="f"} 1"#),
            (&["'__name__", "'y", "'", "'"], r#"y{a="b-c",e="f"} 1"#),
            (&["'__name__", "'", "'", "'"], r#"{a="b-c",e="f"} 1"#),
            (
                &["'bad-name", "'y", "'", "'"],
                r#"x{a="b-c",bad-name="y",e="f"} 1"#,
            ),
            (
                &["'", "'y", "'", "'"],
                "422 invalid destination label name in label_replace(): ",
            ),
            (
                &["'a", "'y", "'", "'("],
                "422 invalid regular expression in label_replace(): (",
            ),
        ];
        for (arguments, expected) in cases {
            let given = [&[x], *arguments].concat();
            assert_eq!(run((3, 5), 1, "label_replace", &given), *expected);
        }
        let cases: &[(&[&str], &str)] = &[
            (&["'h", "'/", "'a", "'e"], r#"x{a="b-c",e="f",h="b-c/f"} 1"#),
            (&["'h", "'/", "'no", "'e"], r#"x{a="b-c",e="f",h="/f"} 1"#),
            (&["'a", "'", "'no"], r#"x{e="f"} 1"#),
            (&["'a", "'x"], r#"x{e="f"} 1"#),
            (
                &["'", "'", "'a"],
                "422 invalid destination label name in label_join(): ",
            ),
            (
                &["'a", "'", "'a", "'"],
                "422 invalid source label name in label_join(): ",
            ),
        ];
        for (arguments, expected) in cases {
            let given = [&[x], *arguments].concat();
            assert_eq!(run((3, 5), 1, "label_join", &given), *expected);
        }
    }

    #[test]
    fn names_were_plain_before_3_0() {
        for (name, is_good) in [("a_1", true), ("1a", false), ("a-b", false), ("é", false)] {
            let name = format!("'{name}");
            let given = ["x 1", &name, "'y", "'", "'"];
            let said = run((2, 53), 1, "label_replace", &given);
            assert_eq!(
                !said.starts_with("422 invalid destination"),
                is_good,
                "{said}"
            );
        }
    }

    #[test]
    fn same_labels_are_an_error_by_step_or_as_a_whole() {
        let given = ["x{a=\"1\"} 1 _\nx{a=\"2\"} _ 2", "'a", "'z", "'", "'"];
        let error = "422 vector cannot contain metrics with the same labelset";
        assert_eq!(run((2, 42), 2, "label_replace", &given), "x{a=\"z\"} 1 2");
        assert_eq!(run((3, 5), 2, "label_replace", &given), error);
        let given = ["x{a=\"1\"} 1 1\nx{a=\"2\"} _ 2", "'a", "'z", "'", "'"];
        assert_eq!(run((2, 42), 2, "label_replace", &given), error);
        // A series without samples is none.
        let given = ["x{a=\"1\"} _ _\nx{a=\"2\"} 3 2", "'a", "'z", "'", "'"];
        assert_eq!(run((3, 5), 2, "label_replace", &given), "x{a=\"z\"} 3 2");
    }
}
