//! The envelope of an answer: `status`, `data`, `errorType`, `error`, `warnings`, `infos`.

use super::{Around, Outcome, Reader, State};
use crate::error::MemberFailure;
use crate::limits::{NUMBER_BYTES_MAX, STRING_BYTES_MAX, WARNINGS_MAX};
use crate::series::{Pair, ResultKind};
use crate::split;
use crate::stats::Section;

/// The envelope's own fields.
#[derive(Debug, Default)]
pub(crate) struct Envelope {
    pub(crate) status: Option<String>,
    pub(crate) error_type: String,
    pub(crate) error: String,
}

impl Envelope {
    /// Says whether the answer is a success; `status` is the HTTP status.
    pub(crate) fn judge(self, status: u16) -> Outcome<()> {
        match self.status.as_deref() {
            Some("success") if (200..300).contains(&status) => Ok(()),
            Some("success") => Err(MemberFailure::Status { status }),
            Some("error") => Err(MemberFailure::Api {
                status,
                kind: self.error_type,
                message: self.error,
            }),
            _ if (200..300).contains(&status) => Err(MemberFailure::Malformed {
                at: 0,
                problem: "no status of success or error",
            }),
            _ => Err(MemberFailure::Status { status }),
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn start(&mut self) -> Outcome<()> {
        self.at = split::skip_space(self.body, self.at);
        if self.peek() != Some(b'{') {
            return Err(self.bad("expected a JSON object"));
        }
        self.enter(State::Top);
        Ok(())
    }

    pub(super) fn top(&mut self) -> Outcome<()> {
        let Some(key) = self.next_key()? else {
            self.leave_to(State::End);
            return Ok(());
        };
        match key {
            "status" => self.envelope.status = Some(self.string()?.to_owned()),
            "errorType" => self.envelope.error_type = self.string()?.to_owned(),
            "error" => self.envelope.error = self.string()?.to_owned(),
            "data" if self.peek() == Some(b'{') => self.enter(State::Data),
            "data" if self.peek() == Some(b'[') => {
                self.parsed.kind = Some(ResultKind::List);
                self.enter(State::List);
            }
            "data" => {
                // `null` stands for an empty list.
                if self.body[self.at..].starts_with(b"null") {
                    self.parsed.kind = Some(ResultKind::List);
                }
                self.begin_skip(Around::Top);
            }
            "warnings" | "infos" if self.peek() == Some(b'[') => {
                self.enter(State::Texts {
                    are_infos: key == "infos",
                });
            }
            _ => self.begin_skip(Around::Top),
        }
        Ok(())
    }

    pub(super) fn data(&mut self) -> Outcome<()> {
        let Some(key) = self.next_key()? else {
            self.leave_to(State::Top);
            return Ok(());
        };
        match (key, self.peek()) {
            ("resultType", _) => {
                self.parsed.kind = Some(match self.string()? {
                    "matrix" => ResultKind::Matrix,
                    "vector" => ResultKind::Vector,
                    "scalar" => ResultKind::Scalar,
                    "string" => ResultKind::Text,
                    _ => return Err(self.bad("unknown result type")),
                });
            }
            ("result", Some(b'[')) => {
                let first = split::skip_space(self.body, self.at + 1);
                match self.body.get(first) {
                    Some(b'{' | b']') => self.enter(State::Result),
                    _ => self.parsed.pair = Some(self.scalar()?),
                }
            }
            // `null` stands for an empty result.
            ("result", Some(b'n')) => self.begin_skip(Around::Data),
            ("result", _) => return Err(self.bad("expected an array of results")),
            ("stats", Some(b'{')) => {
                self.parsed.stats.get_or_insert_default();
                self.enter(State::Stats);
            }
            _ => self.begin_skip(Around::Data),
        }
        Ok(())
    }

    pub(super) fn stats(&mut self) -> Outcome<()> {
        let Some(key) = self.next_key()? else {
            self.leave_to(State::Data);
            return Ok(());
        };
        match (Section::read(key), self.peek()) {
            (Some(section), Some(b'{')) => self.enter(State::Numbers(section)),
            _ => self.begin_skip(Around::Stats),
        }
        Ok(())
    }

    pub(super) fn numbers(&mut self, section: Section) -> Outcome<()> {
        let Some(key) = self.next_key()? else {
            self.leave_to(State::Stats);
            return Ok(());
        };
        let Some(b'-' | b'0'..=b'9') = self.peek() else {
            self.begin_skip(Around::Numbers(section));
            return Ok(());
        };
        let text = self.value(NUMBER_BYTES_MAX, "length of a number")?;
        let number = std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok());
        let Some(number) = number.filter(|number: &f64| number.is_finite()) else {
            return Err(self.bad("bad number"));
        };
        self.parsed
            .stats
            .get_or_insert_default()
            .add(section, key, number);
        Ok(())
    }

    /// Reads `[time,"text"]` and keeps it as it is written.
    fn scalar(&mut self) -> Outcome<Pair<'a>> {
        let place = self.at;
        let text = self.value(STRING_BYTES_MAX, "length of a scalar")?;
        let bad = MemberFailure::Malformed {
            at: place,
            problem: "bad scalar",
        };
        let mut bytes = text.to_vec();
        let tape = simd_json::to_tape(&mut bytes).map_err(|_| bad.clone())?;
        match tape.0.as_slice() {
            [
                _,
                simd_json::Node::Static(time),
                simd_json::Node::String(value),
            ] if !matches!(
                time,
                simd_json::StaticNode::Null | simd_json::StaticNode::Bool(_)
            ) =>
            {
                Ok(Pair {
                    text,
                    is_nan: *value == "NaN",
                })
            }
            _ => Err(bad),
        }
    }

    pub(super) fn texts(&mut self, are_infos: bool) -> Outcome<()> {
        if !self.next_item(b']')? {
            self.leave_to(State::Top);
            return Ok(());
        }
        let text = self.string()?;
        let texts = if are_infos {
            &mut self.parsed.infos
        } else {
            &mut self.parsed.warnings
        };
        if texts.len() < WARNINGS_MAX && !texts.iter().any(|known| known == text) {
            texts.push(text.to_owned());
        }
        Ok(())
    }
}
