//! A real browser without a window: what a page is once its script has run.
//!
//! The browser's clock runs as fast as it can and stands still while an answer is awaited, so that a page that
//! asks every few seconds is seen for half a minute of its own time within a second of ours.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::patience::eventually;

/// A page as the browser left it.
#[derive(Debug)]
pub struct Rendered {
    /// The document, written out.
    pub dom: String,
    /// What the page wrote to the console, or the browser wrote there about it.
    pub console: Vec<String>,
}

/// Opens `url` in a window of this width and height, for so much of the page's own time. `folder` gets the
/// browser's files.
///
/// # Panics
/// When there is no browser, or it does not end within patience.
#[track_caller]
pub fn browse(url: &str, (width, height): (u32, u32), page_ms: u32, folder: &Path) -> Rendered {
    let folder = folder.join(format!("browser-{width}"));
    std::fs::create_dir_all(&folder).expect("the folder is ours");
    let create = |name: &str| std::fs::File::create(folder.join(name)).expect("the folder is ours");
    let child = Command::new("chromium")
        .args([
            "--headless",
            // Tests may run as root, in containers without user namespaces or a large /dev/shm.
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            // Nothing but the page is asked for.
            "--no-first-run",
            "--no-proxy-server",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--enable-logging=stderr",
            "--dump-dom",
        ])
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .arg(format!("--window-size={width},{height}"))
        .arg(format!("--virtual-time-budget={page_ms}"))
        .arg(url)
        .stdin(Stdio::null())
        .stdout(create("dom"))
        .stderr(create("err"))
        .spawn();
    let mut child = child.expect("chromium is missing: run .ci/setup.sh test");
    let status = eventually("the browser ends", || {
        child.try_wait().expect("it is our child")
    });
    let read = |name: &str| {
        let bytes = std::fs::read(folder.join(name)).expect("the browser wrote it");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let said = read("err");
    assert!(status.success(), "{said}");
    let console = said.lines().filter(|line| line.contains(":CONSOLE"));
    Rendered {
        dom: read("dom"),
        console: console.map(str::to_owned).collect(),
    }
}

impl Rendered {
    /// The cells of each row of the table's body, as text.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let body = between(&self.dom, "<tbody", "</tbody>");
        let rows = body.split("<tr").skip(1);
        rows.map(|row| {
            let cells = row.split("</th>").flat_map(|part| part.split("</td>"));
            let mut cells: Vec<String> = cells.map(text_of).collect();
            // Behind the last cell is the end of the row.
            cells.pop();
            cells
        })
        .collect()
    }

    /// The text of the element with this id; it holds no other elements.
    pub fn text_of_id(&self, id: &str) -> String {
        let element = between(&self.dom, &format!("id=\"{id}\""), "</");
        text_of(element)
    }
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text.split_once(from).map_or("", |(_, rest)| rest);
    rest.split_once(to).map_or("", |(inside, _)| inside)
}

/// What is left of markup without its tags; what stands before the first `>` was the rest of one.
fn text_of(markup: &str) -> String {
    let mut text = String::new();
    let mut is_text = false;
    let opened = markup.contains('>');
    for c in markup.chars() {
        match c {
            '<' => is_text = false,
            '>' => is_text = true,
            c if is_text || !opened => text.push(c),
            _ => {}
        }
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_texts_are_read_from_the_document() {
        let page = Rendered {
            dom: "<p id=\"a\" class=\"b\">one</p><table><tbody id=\"rows\">\
                  <tr role=\"row\"><th scope=\"row\">n</th><td>p</td><td><span>s</span></td><td></td></tr>\n\
                  <tr><th>m</th></tr></tbody></table>"
                .into(),
            console: Vec::new(),
        };
        assert_eq!(page.text_of_id("a"), "one");
        assert_eq!(page.rows(), [vec!["n", "p", "s", ""], vec!["m"]]);
    }
}
