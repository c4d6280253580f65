//! Opens the browser of the user.
//!
//! The address has a token in it, and the arguments of a process are shown to all users of a machine. So the browser is
//! given the path of a page that leads to the address, and that only its owner may read.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use tempfile::{Builder, NamedTempFile};

/// The program that opens a file with what the user prefers for it.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// The page, which is deleted when it is dropped.
pub(super) fn open(url: &str) -> anyhow::Result<NamedTempFile> {
    if !cfg!(target_os = "macos") && !has_display(&|name| std::env::var_os(name).is_some()) {
        bail!("there is no display");
    }
    let page = page(url).context("cannot write the page that leads to it")?;
    let opened = Command::new(OPENER)
        .arg(page.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let opened = opened.with_context(|| format!("cannot run {OPENER}"))?;
    ensure!(opened.success(), "{OPENER} failed");
    Ok(page)
}

fn has_display(is_set: &dyn Fn(&str) -> bool) -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(is_set)
}

fn page(url: &str) -> std::io::Result<NamedTempFile> {
    let mut page = Builder::new()
        .prefix("gregor-console-")
        .suffix(".html")
        .permissions(Permissions::from_mode(0o600))
        .tempfile()?;
    let text = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Gregor</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={url}\">"
    );
    page.write_all(text.as_bytes())?;
    page.flush()?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_its_owner_may_read_the_page_with_the_token() {
        let page = page("http://127.0.0.1:1/login?token=t").unwrap();
        let mode = fs::metadata(page.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(page.path()).unwrap();
        assert!(text.contains("url=http://127.0.0.1:1/login?token=t\""), "{text}");
        let path = page.path().to_owned();
        drop(page);
        assert!(!path.exists());
    }

    #[test]
    fn without_a_display_no_browser_is_started() {
        assert!(!has_display(&|_| false));
        assert!(has_display(&|name| name == "WAYLAND_DISPLAY"));
    }
}
