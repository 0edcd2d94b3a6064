//! User files: `csv`, `csvNoHeader` and `htpasswd`. No message holds a password.

use std::collections::HashSet;

use ringway_shards::plan::Password;

use super::{password, user_name};
use crate::config::Fault;

/// Most faults told of one file.
const FAULTS_MAX: usize = 10;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// `user,password`, below a line of headings.
    Csv,
    /// `user,password`.
    CsvNoHeader,
    /// `user:password`; `#` begins a comment.
    Htpasswd,
}

/// The users of a file, or what is wrong with it.
pub(super) fn parse(
    content: &[u8],
    format: Format,
    is_basic: bool,
) -> Result<Vec<(Box<str>, Password)>, Vec<Fault>> {
    let Ok(text) = std::str::from_utf8(content) else {
        return Err(vec![Fault::NotUtf8]);
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut users = Vec::new();
    let mut names = HashSet::new();
    let mut faults = Vec::new();
    let mut headings = usize::from(format == Format::Csv);
    for (index, line) in text.lines().enumerate() {
        let is_comment = format == Format::Htpasswd && line.starts_with('#');
        if line.trim().is_empty() || is_comment {
            continue;
        }
        if headings > 0 {
            headings -= 1;
            continue;
        }
        let user = user(line, format, is_basic).and_then(|(name, password)| {
            match names.insert(name.clone()) {
                true => Ok((name, password)),
                false => Err(format!("user {name:?} is there twice")),
            }
        });
        match user {
            Ok((name, password)) => users.push((name.into(), password)),
            Err(reason) => faults.push(Fault::UsersFile {
                line: index + 1,
                reason,
            }),
        }
        if faults.len() == FAULTS_MAX {
            break;
        }
    }
    match faults.is_empty() {
        true => Ok(users),
        false => Err(faults),
    }
}

fn user(line: &str, format: Format, is_basic: bool) -> Result<(String, Password), String> {
    let (name, text) = match format {
        Format::Htpasswd => {
            let (name, text) = line
                .split_once(':')
                .ok_or("it is not user:password of htpasswd")?;
            (name.to_owned(), text.to_owned())
        }
        Format::Csv | Format::CsvNoHeader => {
            let [name, text] = fields(line)?.try_into().map_err(|found: Vec<String>| {
                format!(
                    "it has {} columns instead of user and password",
                    found.len()
                )
            })?;
            (name, text)
        }
    };
    user_name(&name, is_basic).map_err(|reason| format!("not a user's name: {reason}"))?;
    let password = password::read(&text, format == Format::Htpasswd)
        .map_err(|reason| format!("user {name:?}: {reason}"))?;
    Ok((name, password))
}

/// Comma-separated fields of one line, quoted or not. Contract: RFC 4180, without line ends in fields.
fn fields(line: &str) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (field, after) = rest.split_at(end);
                if field.contains('"') {
                    return Err("a quote stands inside a field that does not begin with one".into());
                }
                (field.to_owned(), after)
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(fields),
            None => return Err("text follows a closing quote".into()),
        }
    }
}

/// A field whose opening quote is already taken, and what follows its closing one. Two quotes are one.
fn quoted_field(text: &str) -> Result<(String, &str), String> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let Some((part, after)) = rest.split_once('"') else {
            return Err("a quote is not closed".into());
        };
        field.push_str(part);
        match after.strip_prefix('"') {
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None => return Ok((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, format: Format) -> Result<Vec<(String, String)>, Vec<String>> {
        let secret = |password: &Password| match password {
            Password::Plain(secret) | Password::Hashed(secret) => secret.expose().to_owned(),
        };
        parse(text.as_bytes(), format, true)
            .map(|users| {
                users
                    .iter()
                    .map(|(name, p)| (name.to_string(), secret(p)))
                    .collect()
            })
            .map_err(|faults| faults.iter().map(ToString::to_string).collect())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, Vec<String>> {
        let owned = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
        Ok(pairs.iter().map(owned).collect())
    }

    #[test]
    fn csv_has_quotes_headings_and_either_line_end() {
        let text = "\u{feff}user,password\r\ncasey,secret\r\n\n\"a,b\",\"say \"\"hi\"\"\"\n";
        let expected = pairs(&[("casey", "secret"), ("a,b", "say \"hi\"")]);
        assert_eq!(read(text, Format::Csv), expected);
        let expected = pairs(&[("casey", " secret ")]);
        assert_eq!(read("casey, secret ", Format::CsvNoHeader), expected);
        assert_eq!(read("user,password\n", Format::Csv), pairs(&[]));
    }

    #[test]
    fn htpasswd_has_comments() {
        let text = "# who\ncasey:$apr1$salt$0123456789012345678901\n\ntaylor:a:b\n";
        let expected = pairs(&[
            ("casey", "$apr1$salt$0123456789012345678901"),
            ("taylor", "a:b"),
        ]);
        assert_eq!(read(text, Format::Htpasswd), expected);
    }

    #[test]
    fn odd_lines_are_told_with_their_numbers_and_without_their_secrets() {
        let text = "a,pw,x\nsecret\nb,\"open\nc,\"pw\"x\nd,p\"w\n,pw\ne:f,pw\ng,\nh,{SHA}x\ni,pw\ni,pw\nj,1,2\n";
        let lines = read(text, Format::CsvNoHeader).unwrap_err();
        assert_eq!(
            lines,
            [
                "line 1 of the file: it has 3 columns instead of user and password",
                "line 2 of the file: it has 1 columns instead of user and password",
                "line 3 of the file: a quote is not closed",
                "line 4 of the file: text follows a closing quote",
                "line 5 of the file: a quote stands inside a field that does not begin with one",
                "line 6 of the file: not a user's name: it is empty",
                "line 7 of the file: not a user's name: it has a colon, which ends the name in `Authorization: Basic`",
                "line 8 of the file: user \"g\": the password is empty",
                "line 9 of the file: user \"h\": SHA-1 hashes are not accepted; make a bcrypt one with `htpasswd -B`",
                "line 11 of the file: user \"i\" is there twice",
            ]
        );
        let lines = read("casey\nb:abcdefghijklm\n", Format::Htpasswd).unwrap_err();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| !line.contains("abcdefghijklm")));
        let faults = parse(&[0xff, b',', b'x'], Format::Csv, true).unwrap_err();
        assert_eq!(faults, [Fault::NotUtf8]);
    }
}
