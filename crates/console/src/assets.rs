//! The files of the pages, inside the binary.

/// The files, as `web/dist` had them when the program was built.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The page of a program that was built without the pages.
const PLACEHOLDER: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Gregor</title>\
<h1>This program was built without the pages of the console</h1>\
<p>Build them with <code>cargo xtask console</code> (Node 20 or newer), then build the program again.</p></html>";

/// A file: its media type and its content.
pub(crate) type File = (&'static str, &'static [u8]);

/// A file by its name.
pub(crate) fn file(name: &str) -> Option<File> {
    let (name, content) = FILES.iter().find(|(known, _)| *known == name)?;
    Some((media_type(name), content))
}

/// The page in which everything is shown.
pub(crate) fn index() -> File {
    file("index.html").unwrap_or(("text/html; charset=utf-8", PLACEHOLDER.as_bytes()))
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some(_) | None => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_with_and_without_a_build_of_the_pages() {
        let (kind, content) = index();
        assert_eq!(kind, "text/html; charset=utf-8");
        assert!(String::from_utf8_lossy(content).contains("<title>"));
        assert_eq!(file("../Cargo.toml"), None);
        assert_eq!(file(".gitignore"), None);
    }

    #[test]
    fn browsers_are_told_what_a_file_is() {
        assert_eq!(media_type("app.js"), "text/javascript; charset=utf-8");
        assert_eq!(media_type("app.css"), "text/css; charset=utf-8");
        assert_eq!(media_type("favicon.svg"), "image/svg+xml");
        assert_eq!(media_type("licenses"), "text/plain; charset=utf-8");
    }
}
