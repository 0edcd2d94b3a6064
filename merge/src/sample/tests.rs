//! Tests of the canonical sample text.

use super::*;
use crate::number::write_float;

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
        let point = canonical_pair(text.as_bytes()).expect(text);
        assert_eq!(point.time_ms, time, "{text}");
        assert!(
            point
                .number(&text.as_bytes()[..point.length as usize])
                .to_bits()
                == value.to_bits()
                || value.is_nan(),
            "{text}"
        );
        assert_eq!(point.length as usize, text.find(']').unwrap() + 1, "{text}");
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
        let point = canonical_pair(&text).expect("canonical");
        assert!(point.number(&text).to_bits() == value.to_bits() || value.is_nan());
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
        assert_eq!(cursor.current().map(|p| p.time_ms), Some(expected * 1000));
        assert_eq!(
            cursor.pair(),
            format!("[{expected},\"{expected}\"]").as_bytes()
        );
        cursor.advance();
    }
    assert!(cursor.current().is_none());
    cursor.advance();
    assert!(cursor.current().is_none());
}
