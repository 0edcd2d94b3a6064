//! Which form of the page a request asks for.

/// How the page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Columns for people at a terminal.
    Text,
    /// For machines.
    Json,
    /// The same for others.
    Yaml,
    /// For people at a browser.
    Html,
}

/// How exactly a range of `Accept` names a type; more exact ones count first. Contract: RFC 9110, 12.5.1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Exactness {
    Anything,
    Kind,
    Type,
}

impl Format {
    /// What a request asks for, by its `Accept` header and its query string. The query decides where it names a
    /// form. Of several acceptable forms the one with the highest quality is taken, then the one named most
    /// exactly; between those JSON, since who names it means it, but text for who takes anything, as curl does.
    pub fn asked_for(accept: &str, query: &str) -> Self {
        for (word, format) in [
            ("json", Format::Json),
            ("yaml", Format::Yaml),
            ("text", Format::Text),
        ] {
            if query.contains(word) {
                return format;
            }
        }
        let mut best: Option<(Format, u16, Exactness)> = None;
        for format in [Format::Json, Format::Yaml, Format::Html, Format::Text] {
            let Some((quality, exactness)) = wanted(format, accept) else {
                continue;
            };
            let is_better = best.is_none_or(|(_, most, best)| (quality, exactness) > (most, best));
            let is_as_good =
                best.is_some_and(|(_, most, best)| (quality, exactness) == (most, best));
            let is_plain = format == Format::Text && exactness < Exactness::Type;
            if quality > 0 && (is_better || is_as_good && is_plain) {
                best = Some((format, quality, exactness));
            }
        }
        best.map_or(Format::Text, |(format, _, _)| format)
    }

    /// Value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; charset=utf-8",
            Format::Json => "application/json",
            Format::Yaml => "text/yaml",
            Format::Html => "text/html; charset=utf-8",
        }
    }

    fn is_named_by(self, kind: &str, subtype: &str) -> bool {
        match self {
            Format::Text => kind == "text" && subtype == "plain",
            Format::Html => kind == "text" && subtype == "html",
            Format::Json => kind == "application" && subtype == "json",
            // There are several names for it.
            Format::Yaml => matches!(kind, "text" | "application") && subtype.ends_with("yaml"),
        }
    }

    fn is_of_kind(self, kind: &str) -> bool {
        match self {
            Format::Text | Format::Html => kind == "text",
            Format::Json => kind == "application",
            Format::Yaml => matches!(kind, "text" | "application"),
        }
    }
}

/// Quality in thousandths, and exactness of the most exact range for this form; `None` when none is.
fn wanted(format: Format, accept: &str) -> Option<(u16, Exactness)> {
    let mut found: Option<(u16, Exactness)> = None;
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let Some((kind, subtype)) = name.split_once('/') else {
            continue;
        };
        let exactness = match (kind, subtype) {
            ("*", "*") => Exactness::Anything,
            (kind, "*") if format.is_of_kind(kind) => Exactness::Kind,
            (kind, subtype) if format.is_named_by(kind, subtype) => Exactness::Type,
            _ => continue,
        };
        if found.is_none_or(|(_, known)| exactness > known) {
            found = Some((quality(parts), exactness));
        }
    }
    found
}

/// The value of `q` in thousandths; 1000 without one, 0 for nonsense.
fn quality<'a>(mut parameters: impl Iterator<Item = &'a str>) -> u16 {
    let written = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("q")
            .then_some(value.trim())
    });
    let Some(written) = written else { return 1000 };
    match written.parse::<f32>() {
        Ok(quality) if (0.0..=1.0).contains(&quality) => (quality * 1000.0).round() as u16,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_chosen_by_accept_and_query() {
        let firefox = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let chromium = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,\
                        image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7";
        for (accept, query, format) in [
            ("", "", Format::Text),
            ("*/*", "", Format::Text),
            ("text/*", "", Format::Text),
            ("text/plain", "", Format::Text),
            ("image/png", "", Format::Text),
            ("application/json", "", Format::Json),
            ("APPLICATION/JSON", "", Format::Json),
            ("application/*", "", Format::Json),
            ("application/json, text/plain, */*", "", Format::Json),
            ("text/plain, application/json;q=0.5", "", Format::Text),
            ("application/json;q=0, */*", "", Format::Text),
            ("text/html, application/json;q=0.9", "", Format::Html),
            ("text/html;q=0.5, application/json;q=0.9", "", Format::Json),
            ("text/html;q=0.2, */*;q=0.1", "", Format::Html),
            ("text/html;q=0, */*", "", Format::Text),
            ("text/html;q=nonsense, text/plain;q=0.1", "", Format::Text),
            (firefox, "", Format::Html),
            (chromium, "", Format::Html),
            ("text/yaml", "", Format::Yaml),
            ("application/x-yaml", "", Format::Yaml),
            ("", "json", Format::Json),
            ("", "format=json", Format::Json),
            ("", "yaml", Format::Yaml),
            (firefox, "json", Format::Json),
            (firefox, "text", Format::Text),
        ] {
            assert_eq!(Format::asked_for(accept, query), format, "{accept} {query}");
        }
    }
}
