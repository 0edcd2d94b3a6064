//! Tests of the canonical sample text.

use super::*;
use crate::number::write_float;
use crate::random::Random;

fn first(text: &[u8]) -> Sample<'_> {
    let cursor = PointCursor::new(Points { text, more: None });
    cursor.current().expect("a pair")
}

fn is_same(left: f64, right: f64) -> bool {
    left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan())
}

#[test]
fn canonical_pairs() {
    let cases = [
        ("[1435781430.781,\"1\"]", 1_435_781_430_781, 1.0),
        ("[1435781430,\"-0\"],[", 1_435_781_430_000, -0.0),
        ("[0,\"0\"]", 0, 0.0),
        ("[-1.500,\"0.5\"]", -1500, 0.5),
        ("[1,\"NaN\"]", 1000, f64::NAN),
        ("[1,\"+Inf\"]", 1000, f64::INFINITY),
        ("[1,\"-Inf\"]", 1000, f64::NEG_INFINITY),
        ("[1,\"0.000001\"]", 1000, 1e-6),
        (
            "[1,\"0.000001234567890123456\"]",
            1000,
            0.000001234567890123456,
        ),
        ("[1,\"0.30000000000000004\"]", 1000, 0.30000000000000004),
        ("[1,\"1.7976931348623157e+308\"]", 1000, f64::MAX),
        ("[1,\"5e-324\"]", 1000, 5e-324),
        ("[1,\"-1.5e-07\"]", 1000, -1.5e-7),
        ("[1,\"9007199254740993\"]", 1000, 9007199254740992.0),
        ("[1,\"123456789.0625\"]", 1000, 123456789.0625),
    ];
    for (text, time, value) in cases {
        let (found, point) = canonical_pair(text.as_bytes()).expect(text);
        assert_eq!(found, time, "{text}");
        assert_eq!(point.length(), text.find(']').unwrap() + 1, "{text}");
        let sample = first(text.as_bytes());
        assert_eq!(sample.time_ms(), time, "{text}");
        assert!(is_same(sample.number(), value), "{text}");
    }
}

#[test]
fn other_notations_are_not_canonical() {
    let bad = [
        "",
        "[",
        "[1",
        "[1,",
        "[1,\"",
        "[1,\"1",
        "[1,\"1\"",
        "[1,\"1\"}",
        "{1,\"1\"]",
        "[,\"1\"]",
        "[ 1,\"1\"]",
        "[1, \"1\"]",
        "[1,\"1\" ]",
        "[01,\"1\"]",
        "[1.5,\"1\"]",
        "[1.50,\"1\"]",
        "[1.000,\"1\"]",
        "[1.5000,\"1\"]",
        "[1e9,\"1\"]",
        "[1234567890123456,\"1\"]",
        "[1,\"\"]",
        "[1,\"01\"]",
        "[1,\"1.\"]",
        "[1,\".5\"]",
        "[1,\"1.50\"]",
        "[1,\"0.0\"]",
        "[1,\"+1\"]",
        "[1,\"1e6\"]",
        "[1,\"1e+06\"]",
        "[1,\"1.0e-07\"]",
        "[1,\"10e+21\"]",
        "[1,\"1e+021\"]",
        "[1,\"1e-06\"]",
        "[1,\"0.0000001\"]",
        "[1,\"123456789012345678\"]",
        "[1,\"inf\"]",
        "[1,\"0.1234567890123456789012\"]",
        "[1,\"1000000000000000000000\"]",
        "[1,\"100000000000000000.5\"]",
        "[1,\"nan\"]",
        "[1,1]",
        "[1,\"-\"]",
        "[1,\"-NaN\"]",
        "[-,\"1\"]",
        "[1,\"1e+\"]",
        "[1,\"0e+21\"]",
        "[1,\"1\\u0030\"]",
    ];
    for text in bad {
        assert!(canonical_pair(text.as_bytes()).is_none(), "{text}");
    }
}

/// What is taken as written is what would be written.
#[test]
fn random_doubles_round_trip() {
    let mut state = 0x1234_5678_9abc_def1u64;
    for round in 0..20_000u64 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let value = match round % 5 {
            4 => ((state >> 11) as f64) * 10f64.powi((state % 12) as i32 - 3),
            0 => f64::from_bits(state),
            1 => (state >> 40) as f64 / 1000.0,
            2 => (state % 2_000_000) as f64 - 1e6,
            _ => (state >> 11) as f64 / 1e18,
        };
        let mut text = b"[17,\"".to_vec();
        write_float(&mut text, value);
        text.extend_from_slice(b"\"]");
        // Rewritten samples are read again: all that is written must be canonical.
        assert!(canonical_pair(&text).is_some());
        assert!(is_same(first(&text).number(), value));
    }
}

#[test]
fn cursor_walks_over_segments() {
    let last = Segment {
        text: b"[3,\"c\"]",
        next: Cell::new(None),
    };
    assert!(
        PointCursor::new(Points {
            text: last.text,
            more: None
        })
        .current()
        .is_none()
    );
    let third = Segment {
        text: b"[3,\"3\"],[4,\"4\"]",
        next: Cell::new(None),
    };
    let second = Segment {
        text: b"[2,\"2\"]",
        next: Cell::new(Some(&third)),
    };
    let mut cursor = PointCursor::new(Points {
        text: b"[0,\"0\"],[1,\"1\"]",
        more: Some(&second),
    });
    for expected in 0..5 {
        let sample = cursor.current().unwrap();
        assert_eq!(sample.time_ms(), expected * 1000);
        let text = format!("[{expected},\"{expected}\"]");
        assert_eq!(sample.pair(), text.as_bytes());
        cursor.advance();
    }
    assert!(cursor.current().is_none());
    cursor.advance();
    assert!(cursor.current().is_none());
}

const TIMES: [&str; 14] = [
    "0",
    "9",
    "10",
    "99.001",
    "100",
    "100.500",
    "-1",
    "-1.500",
    "1435781430",
    "1435781430.781",
    "1435781431",
    "9999999999.999",
    "10000000000.001",
    "123456789012345.678",
];

const VALUES: [&str; 24] = [
    "0",
    "-0",
    "7",
    "42",
    "-12345678",
    "123456789",
    "57.12345678901234",
    "-57.123456789012345",
    "0.5",
    "0.05",
    "0.12345678901234567",
    "0.000001234567890123456",
    "12345678901234567",
    "123456789012345600",
    "1234567890123456.7",
    "123456789012345670000",
    "1e+21",
    "1.5e-07",
    "-1.7976931348623157e+308",
    "NaN",
    "+Inf",
    "-Inf",
    "9007199254740993",
    "99999999.99999999",
];

/// What is read by its likeness to the pair before is what is read in full, and never more.
#[test]
fn likeness_reads_what_is_canonical() {
    let mut random = Random(0x5eed_1234_5678_9abc);
    let (mut alike, mut changed) = (0, 0);
    for _ in 0..30_000 {
        let time = TIMES[random.below(TIMES.len())];
        let before = format!("[{time},\"1\"]");
        let (last_ms, last) = canonical_pair(before.as_bytes()).unwrap();
        let mut form = Form::of(before.as_bytes(), &last);
        let value = VALUES[random.below(VALUES.len())];
        // Most often a digit of the time changes; sometimes any byte does.
        let mut text = format!("[{time},\"{value}\"],[").into_bytes();
        let at = 1 + random.below(time.len());
        text[at] = b'0' + random.below(10) as u8;
        if random.below(3) == 0 {
            let at = random.below(text.len());
            text[at] = b"0123456789.,\"[]-+eNIf \\:/\x80\xff"[random.below(26)];
            changed += 1;
        }
        text.extend_from_slice(&[b' '; WINDOW][..random.below(WINDOW)]);
        let shown = String::from_utf8_lossy(&text);
        let in_full = canonical_pair(&text);
        let Some(point) = form.later(&text) else {
            continue;
        };
        alike += 1;
        let (time_ms, expected) = in_full.expect(&shown);
        assert_eq!(point, expected, "{shown}");
        assert_eq!(form.time_ms(), Some(time_ms), "{shown}");
        assert!(time_ms > last_ms, "{shown}");
        // What is known to be canonical needs fewer looks, and is read the same.
        let mut form = Form::of(before.as_bytes(), &last);
        assert_eq!(form.next(&text), Some(point), "{shown}");
    }
    assert!(alike > 3000 && changed > 3000, "{alike}, {changed}");
}

/// Forms that servers write all the time are read by likeness.
#[test]
fn plain_pairs_are_alike() {
    let cases = [
        ("1435781430", "1435781445", "0"),
        ("1435781430", "1435781445", "-0"),
        ("1435781430", "1435781445", "12345678901234567"),
        ("1435781430.781", "1435781431.781", "0.12345678901234567"),
        ("1435781430.781", "1435781431.001", "-57.123456789012345"),
        ("9", "10", "1"),
    ];
    for (before, after, value) in cases {
        let before = format!("[{before},\"1\"]");
        let (_, point) = canonical_pair(before.as_bytes()).unwrap();
        let mut form = Form::of(before.as_bytes(), &point);
        let text = format!("[{after},\"{value}\"]");
        let found = form.later(text.as_bytes());
        let expected = canonical_pair(text.as_bytes()).map(|(_, point)| point);
        let has_same_length = text.find(',') == before.find(',');
        assert_eq!(found, expected.filter(|_| has_same_length), "{text}");
    }
}

/// A time that is not later, has decimals of zeros, or is none, is left to the full reading.
#[test]
fn other_heads_are_not_alike() {
    let cases = [
        ("1435781430", "1435781430"),
        ("1435781430", "1435781429"),
        ("1435781430", "14357814,0"),
        ("1435781430", "143578143:"),
        ("1435781430.781", "1435781431.000"),
        ("1435781430.781", "1435781431781"),
        ("5", ":"),
        ("-5", "-4"),
        ("123456789012345.678", "123456789012346.678"),
    ];
    for (before, after) in cases {
        let before = format!("[{before},\"1\"]");
        let (_, point) = canonical_pair(before.as_bytes()).unwrap();
        let mut form = Form::of(before.as_bytes(), &point);
        let text = format!("[{after},\"1\"]");
        assert_eq!(form.later(text.as_bytes()), None, "{text}");
    }
}

/// A series whose pairs change their form at every place.
#[test]
fn cursor_reads_any_forms_in_turn() {
    for round in 0..200 {
        let mut random = Random(0x1357_9bdf_0246_8ace + round);
        let mut expected = Vec::new();
        let mut text = String::new();
        let mut time_ms = -3000i64;
        for _ in 0..40 {
            time_ms += [1, 500, 1000, 1000, 1000, 86_400_000][random.below(6)];
            let value = VALUES[random.below(VALUES.len())];
            let mut time = Vec::new();
            crate::number::write_time(&mut time, time_ms);
            let time = String::from_utf8(time).unwrap();
            let comma = if text.is_empty() { "" } else { "," };
            text.push_str(&format!("{comma}[{time},\"{value}\"]"));
            expected.push((time_ms, value));
        }
        let mut cursor = PointCursor::new(Points {
            text: text.as_bytes(),
            more: None,
        });
        for (time_ms, value) in expected {
            let sample = cursor.current().expect(value);
            assert_eq!(sample.time_ms(), time_ms);
            assert_eq!(sample.value(), value.as_bytes());
            let number = crate::number::parse_float(value.as_bytes()).unwrap();
            assert!(is_same(sample.number(), number), "{value}");
            assert_eq!(sample.is_nan(), number.is_nan());
            cursor.advance();
        }
        assert!(cursor.current().is_none());
    }
}

#[test]
fn values_differ_as_numbers_do() {
    for left in VALUES {
        for right in VALUES
            .iter()
            .chain(&["12345678901234568", "0.12345678901234568"])
        {
            let texts = [left, right].map(|value| format!("[1,\"{value}\"]"));
            let numbers = [left, right].map(|v| crate::number::parse_float(v.as_bytes()).unwrap());
            let is_equal = numbers[0] == numbers[1] || numbers.iter().all(|n| n.is_nan());
            let differs = first(texts[0].as_bytes()).differs_from(&first(texts[1].as_bytes()));
            assert_eq!(differs, !is_equal, "{left} {right}");
        }
    }
}

/// Returns the pair of `value` read in full, and how it is read beside others of its time.
fn both_ways(text: &[u8]) -> (Sample<'_>, Option<Plain<'_>>) {
    let (_, point) = canonical_pair(text).unwrap();
    let mut form = Form::of(text, &point);
    let next = form.next_plain(text);
    let same = form.same_time(text);
    assert_eq!(
        next.map(|pair| pair.length()),
        same.map(|pair| pair.length())
    );
    (first(text), same)
}

/// Places alone mean the same as a pair read in full.
#[test]
fn plain_pairs_are_what_they_are_in_full() {
    let more = [
        "12",
        "12.5",
        "99",
        "99.000000000000001",
        "0.3",
        "0.29999999999999999",
        "-0.3",
        "0.30000000000000004",
        "12345678.5",
        "12345679.5",
        "12345680.5",
        "12345678901234568",
        "99999999999999999",
        "100000000000000000",
        "57.12345678901235",
    ];
    let values: Vec<&str> = VALUES.iter().chain(&more).copied().collect();
    let texts: Vec<Vec<u8>> = values
        .iter()
        .map(|value| format!("[1435781430.781,\"{value}\"],[{}", "1".repeat(WINDOW)).into_bytes())
        .collect();
    let mut plain = 0;
    for (value, text) in values.iter().zip(&texts) {
        let (sample, Some(pair)) = both_ways(text) else {
            // Those with an exponent, and those that are no digits.
            assert!(value.contains(['e', 'N', 'I']), "{value}");
            continue;
        };
        plain += 1;
        assert_eq!(pair.pair(), sample.pair(), "{value}");
        assert!(is_same(pair.number(), sample.number()), "{value}");
        let mut head = b"before".to_vec();
        pair.write_head(&mut head);
        assert_eq!(head, [b"before", sample.head()].concat(), "{value}");
        for (other_value, text) in values.iter().zip(&texts) {
            if let (other, Some(other_pair)) = both_ways(text) {
                let differs = sample.differs_from(&other);
                let shown = format!("{value} {other_value}");
                assert_eq!(differs, sample.number() != other.number(), "{shown}");
                assert_eq!(pair.differs_from(&other_pair), differs, "{shown}");
            }
        }
    }
    assert_eq!(plain, values.len() - 6);
}

/// A pair of another time, of another form, or among the last of a segment is left to others.
#[test]
fn plain_pairs_end_with_their_form() {
    let text = |time: &str| format!("[{time},\"1.5\"],[{}", "1".repeat(WINDOW)).into_bytes();
    let start = text("1435781430");
    let (_, point) = canonical_pair(&start).unwrap();
    let mut form = Form::of(&start, &point);
    assert!(form.next_plain(&start).is_some());
    assert!(form.same_time(&text("1435781445")).is_none());
    assert!(form.same_time(&text("1435781430.500")).is_none());
    assert!(form.same_time(&start[..WINDOW - 1]).is_none());
    for other in ["14357814450", "143578144", "1435781445.500"] {
        assert!(form.next_plain(&text(other)).is_none(), "{other}");
    }
    let next = text("1435781445");
    assert!(form.next_plain(&next[..WINDOW - 1]).is_none());
    assert!(form.next_plain(&next).is_some());
    assert!(form.same_time(&start).is_none());
    assert!(form.same_time(&next).is_some());
}
