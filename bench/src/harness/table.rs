//! Text tables: columns as wide as their widest cell, figures to the right.

/// Writes `rows` under `head`. A head cell may have several lines; the first column is text.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head_lines = head
        .iter()
        .map(|cell| cell.lines().count())
        .max()
        .unwrap_or(0);
    let mut lines: Vec<Vec<String>> = Vec::with_capacity(head_lines + rows.len());
    for at in 0..head_lines {
        // Short heads stand at the bottom, next to the figures.
        let cell = |cell: &&str| {
            let missing = head_lines - cell.lines().count();
            at.checked_sub(missing)
                .and_then(|at| cell.lines().nth(at))
                .unwrap_or("")
                .to_owned()
        };
        lines.push(head.iter().map(cell).collect());
    }
    lines.extend(rows.iter().cloned());
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|c| c.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..head.len())
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        if at == head_lines {
            let total: usize = widths.iter().sum::<usize>() + 2 * (widths.len().max(1) - 1);
            text += &"-".repeat(total);
            text.push('\n');
        }
        let mut row = String::new();
        for (column, cell) in line.iter().enumerate() {
            let pad = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            match column {
                0 => row += &format!("{cell}{pad}"),
                _ => row += &format!("  {pad}{cell}"),
            }
        }
        text += row.trim_end();
        text.push('\n');
    }
    text
}

/// Writes a whole number with commas: `45,123`.
pub(super) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a value that may be missing as `-`.
pub(super) fn or_dash(value: Option<f64>, write: impl Fn(f64) -> String) -> String {
    value.map_or("-".to_owned(), write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_heads_stand_at_the_bottom() {
        let rows = [
            vec!["nginx 1.2".to_owned(), "45,123".to_owned(), "7".to_owned()],
            vec!["x".to_owned(), "-".to_owned(), "1,000.5".to_owned()],
        ];
        let expected = [
            "                       CPU",
            "proxy       req/s       us",
            "--------------------------",
            "nginx 1.2  45,123        7",
            "x               -  1,000.5",
        ];
        let found = table(&["proxy", "req/s", "CPU\nus"], &rows);
        assert_eq!(found.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn thousands_are_grouped() {
        for (value, text) in [
            (0.0, "0"),
            (999.4, "999"),
            (1_000.0, "1,000"),
            (45_123.4, "45,123"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(grouped(value), text);
        }
        assert_eq!(or_dash(None, grouped), "-");
        assert_eq!(or_dash(Some(5.0), grouped), "5");
    }
}
