//! Cuts JSON text at its structure: white space, strings, the ends of values.
//!
//! Works on bytes and never on more of them than asked; a long value is skipped in steps by
//! [`Skip`]. What it cuts out is not validated here.

/// Returns the first place at or after `at` that is no white space.
#[inline]
pub(crate) fn skip_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\t' | b'\r') = text.get(at) {
        at += 1;
    }
    at
}

/// Skips one JSON value, resumably.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Skip {
    depth: u32,
    in_string: bool,
    has_begun: bool,
}

impl Skip {
    /// Goes on from `at`, for at most `units` bytes. Returns the place reached and whether the
    /// value ends there. A value that is no string or bracket ends before its delimiter.
    pub(crate) fn step(&mut self, text: &[u8], mut at: usize, units: usize) -> (usize, bool) {
        let end = text.len().min(at.saturating_add(units));
        while at < end {
            let byte = text[at];
            if self.in_string {
                match byte {
                    // The escaped byte may be beyond this step; skipping it is still right.
                    b'\\' => at += 1,
                    b'"' => {
                        self.in_string = false;
                        if self.depth == 0 {
                            return (at + 1, true);
                        }
                    }
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => {
                        if self.depth == 0 {
                            return (at, self.has_begun);
                        }
                        self.depth -= 1;
                        if self.depth == 0 {
                            return (at + 1, true);
                        }
                    }
                    b',' if self.depth == 0 => return (at, self.has_begun),
                    b' ' | b'\n' | b'\t' | b'\r' if self.depth == 0 => {
                        if self.has_begun {
                            return (at, true);
                        }
                        at += 1;
                        continue;
                    }
                    _ => {}
                }
            }
            self.has_begun = true;
            at += 1;
        }
        (at, false)
    }
}

/// Returns the end of the value at `at`, if it is within `length_max` bytes.
pub(crate) fn value_end(text: &[u8], at: usize, length_max: usize) -> Option<usize> {
    let (end, is_whole) = Skip::default().step(text, at, length_max);
    is_whole.then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_end_in_one_step_or_many() {
        let cases = [
            ("1,2", 1),
            ("\"a\\\"]\",", 6),
            ("{\"a\":[1,{\"b\":\"}\"}]}]", 19),
            ("[],", 2),
            ("null}", 4),
            ("true ,", 4),
        ];
        for (text, end) in cases {
            let text = text.as_bytes();
            assert_eq!(value_end(text, 0, 1000), Some(end));
            for units in 1..5 {
                let (mut skip, mut at) = (Skip::default(), 0);
                let reached = loop {
                    let (next, is_done) = skip.step(text, at, units);
                    at = next;
                    if is_done {
                        break at;
                    }
                };
                assert_eq!(reached, end);
            }
        }
    }

    #[test]
    fn an_open_or_missing_value_has_no_end() {
        for text in ["", "{", "\"a", "[1,2", "12", ",", "]", "\"\\"] {
            assert_eq!(value_end(text.as_bytes(), 0, 1000), None, "{text}");
        }
        assert_eq!(value_end(b"[1,2]", 0, 4), None);
    }
}
