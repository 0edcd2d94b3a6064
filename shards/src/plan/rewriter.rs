//! Request rewriters: lists of instructions, compiled. Contract: rewriters page.

/// One entry of `request_rewriters`, what it chains to put in its place.
#[derive(Debug)]
pub struct Rewriter {
    /// Operator's name.
    pub name: Box<str>,
    /// What it does, from first to last.
    pub instructions: Box<[Instruction]>,
}

impl Rewriter {
    /// Whether a value of it comes from a capture, so that a rule has to keep those.
    pub fn has_tokens(&self) -> bool {
        let mut instructions = self.instructions.iter();
        instructions.any(|instruction| instruction.texts().any(|text| text.has_tokens()))
    }
}

/// One change to a request. Contract: rewriters page, 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// `header set`: one value in place of all.
    HeaderSet {
        /// The header.
        name: Box<str>,
        /// The value.
        value: Template,
    },
    /// `header append`: one more element of the header's list.
    HeaderAppend {
        /// The header.
        name: Box<str>,
        /// The element.
        value: Template,
    },
    /// `header replace`: a text in every value.
    HeaderReplace {
        /// The header.
        name: Template,
        /// What becomes of what.
        change: Replacement,
    },
    /// `header delete`: the header, or one element of its list.
    HeaderDelete {
        /// The header.
        name: Template,
        /// The element, or how it begins in front of a `=`.
        part: Option<Template>,
    },
    /// `param set`: one value in place of all.
    ParamSet {
        /// The parameter.
        name: Box<str>,
        /// The value.
        value: Template,
    },
    /// `param append`: one more value, unless it is there.
    ParamAppend {
        /// The parameter.
        name: Box<str>,
        /// The value.
        value: Template,
    },
    /// `param replace`: a text in every value.
    ParamReplace {
        /// The parameter.
        name: Template,
        /// What becomes of what.
        change: Replacement,
    },
    /// `param delete`: all values, or the first that is equal.
    ParamDelete {
        /// The parameter.
        name: Template,
        /// The value.
        value: Option<Template>,
    },
    /// `params set`: the whole query, as it is sent; empty: none.
    ParamsSet(Template),
    /// `params replace`: a text in the query as it is sent.
    ParamsReplace(Replacement),
    /// `path set`: the path, or one segment of it.
    PathSet {
        /// The path or segment.
        value: Template,
        /// Which segment, from 0.
        depth: Option<u16>,
    },
    /// `path replace`: a text in the path, or in one segment of it.
    PathReplace {
        /// What becomes of what.
        change: Replacement,
        /// Which segment, from 0.
        depth: Option<u16>,
    },
    /// `method set`.
    MethodSet(Template),
    /// `host set`: name and port of the origin.
    HostSet(Template),
    /// `host replace`: a text in them.
    HostReplace(Replacement),
    /// `hostname set`: the name of the origin.
    HostnameSet(Template),
    /// `hostname replace`: a text in it.
    HostnameReplace(Replacement),
    /// `port set`; empty: that of the scheme.
    PortSet(Template),
    /// `port replace`: a text in it.
    PortReplace(Replacement),
    /// `port delete`: that of the scheme.
    PortDelete,
    /// `scheme set`.
    SchemeSet(Template),
}

/// Which text becomes which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// What is looked for.
    pub search: Template,
    /// What stands there then.
    pub with: Template,
    /// How many of them, from the front; `None`: all.
    pub count: Option<u32>,
}

impl Instruction {
    /// All its texts in which tokens are expanded.
    pub fn texts(&self) -> impl Iterator<Item = &Template> {
        use Instruction as I;
        let texts = match self {
            I::HeaderSet { value, .. }
            | I::HeaderAppend { value, .. }
            | I::ParamSet { value, .. }
            | I::ParamAppend { value, .. }
            | I::ParamsSet(value)
            | I::PathSet { value, .. }
            | I::MethodSet(value)
            | I::HostSet(value)
            | I::HostnameSet(value)
            | I::PortSet(value)
            | I::SchemeSet(value) => [Some(value), None, None],
            I::HeaderReplace { name, change } | I::ParamReplace { name, change } => {
                [Some(name), Some(&change.search), Some(&change.with)]
            }
            I::HeaderDelete { name, part: value } | I::ParamDelete { name, value } => {
                [Some(name), value.as_ref(), None]
            }
            I::ParamsReplace(change)
            | I::PathReplace { change, .. }
            | I::HostReplace(change)
            | I::HostnameReplace(change)
            | I::PortReplace(change) => [Some(&change.search), Some(&change.with), None],
            I::PortDelete => [None, None, None],
        };
        texts.into_iter().flatten()
    }
}

/// A text with `${tokens}`. Contract: rewriters page, 6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    written: Box<str>,
    /// Empty where there is no token.
    parts: Box<[Part]>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Stands for itself.
    Text(Box<str>),
    /// Stands for what was captured under this name.
    Token(Box<str>),
}

impl Template {
    /// Reads a text. What is begun as a token and not ended stands for itself.
    pub fn of(text: &str) -> Template {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("${")
            && let Some((name, behind)) = behind.split_once('}')
        {
            if !before.is_empty() {
                parts.push(Part::Text(before.into()));
            }
            parts.push(Part::Token(name.into()));
            rest = behind;
        }
        if !parts.is_empty() && !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        Template {
            written: text.into(),
            parts: parts.into(),
        }
    }

    /// As it was written.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// The text, where it has no tokens.
    pub fn plain(&self) -> Option<&str> {
        self.parts.is_empty().then_some(&*self.written)
    }

    /// Its pieces; none where it has no tokens.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The names in its tokens.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Token(name) => Some(&**name),
            Part::Text(_) => None,
        })
    }

    /// Whether something in it is captured.
    pub fn has_tokens(&self) -> bool {
        !self.parts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_from_left_to_right() {
        let text = |text: &str| Part::Text(text.into());
        let token = |name: &str| Part::Token(name.into());
        for (written, parts) in [
            ("plain", vec![]),
            ("", vec![]),
            ("${abc", vec![]),
            ("p}${v}", vec![text("p}"), token("v")]),
            ("a-${v}-b${w", vec![text("a-"), token("v"), text("-b${w")]),
            ("${}", vec![token("")]),
        ] {
            let template = Template::of(written);
            assert_eq!(template.parts(), parts, "{written}");
            assert_eq!(template.plain().is_some(), parts.is_empty());
        }
    }
}
