//! Maps image names to local programs.

use std::collections::BTreeMap;
use std::path::Path;

/// Programs by image name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images(BTreeMap<String, Vec<String>>);

/// Images whose containers usually have their own command, which then runs on the machine; without one a
/// shell runs, and exits at once because it has no input, as in a real container.
const SHELLS: &[&str] = &["alpine", "bash", "busybox", "debian", "ubuntu"];

/// Images that only wait.
const PAUSES: &[&str] = &["pause", "registry.k8s.io/pause"];

impl Default for Images {
    /// The built-in map, without our own program.
    fn default() -> Self {
        let shells = SHELLS.iter().map(|name| ((*name).to_owned(), vec!["sh".to_owned()]));
        let pause = || vec!["sleep".to_owned(), "infinity".to_owned()];
        let pauses = PAUSES.iter().map(|name| ((*name).to_owned(), pause()));
        Self(shells.chain(pauses).collect())
    }
}

impl Images {
    /// The built-in map, with the program at `gregor` as the image `gregor`.
    #[must_use]
    pub fn with_own_program(gregor: &Path) -> Self {
        Self::default().with("gregor", vec![gregor.display().to_string()])
    }

    /// Adds an image: a name, and the program with its first arguments.
    #[must_use]
    pub fn with(mut self, name: &str, program: Vec<String>) -> Self {
        self.0.insert(name.to_owned(), program);
        self
    }

    /// The program for an image name.
    ///
    /// Looks for the exact name, then without tag or digest, then without the default registry.
    #[must_use]
    pub fn find(&self, image: &str) -> Option<&[String]> {
        let plain = without_tag(image);
        let short = ["docker.io/library/", "docker.io/"]
            .into_iter()
            .find_map(|registry| plain.strip_prefix(registry));
        let names = [Some(image), Some(plain), short];
        names.into_iter().flatten().find_map(|name| self.0.get(name)).map(Vec::as_slice)
    }
}

fn without_tag(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    // A colon before the last slash precedes a port.
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

/// Parses `NAME=PROGRAM`, as on the command line. The program is split at spaces.
///
/// # Errors
/// A message for the user.
pub fn parse_image(text: &str) -> Result<(String, Vec<String>), String> {
    let (name, program) = text
        .split_once('=')
        .filter(|(name, program)| !name.is_empty() && !program.trim().is_empty())
        .ok_or_else(|| format!("{text:?} is not NAME=PROGRAM, for example app=/opt/app/bin/run"))?;
    let program: Vec<String> = program.split_whitespace().map(str::to_owned).collect();
    Ok((name.to_owned(), program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_found_by_name_tag_and_registry() {
        let images = Images::default()
            .with("app", vec!["/opt/app".into()])
            .with("app:2", vec!["/opt/app2".into()])
            .with("host:5000/x/app", vec!["/opt/x".into()]);
        #[rustfmt::skip]
        let table = [
            ("app", Some("/opt/app")), ("app:1", Some("/opt/app")), ("app:2", Some("/opt/app2")),
            ("app@sha256:00", Some("/opt/app")), ("docker.io/library/app:1", Some("/opt/app")),
            ("host:5000/x/app:1", Some("/opt/x")), ("host:5000/x/app", Some("/opt/x")),
            ("busybox:1.36", Some("sh")), ("registry.k8s.io/pause:3.10", Some("sleep")),
            ("other", None), ("x/app", None), ("", None),
        ];
        for (name, expected) in table {
            assert_eq!(images.find(name).map(|program| program[0].as_str()), expected, "{name}");
        }
    }

    #[test]
    fn an_image_on_the_command_line() {
        let (name, program) = parse_image("a:1=/bin/x --y").unwrap();
        assert_eq!(
            (name.as_str(), program.as_slice()),
            ("a:1", &["/bin/x".into(), "--y".into()][..])
        );
        for bad in ["", "a", "a=", "=b", "a= "] {
            assert!(parse_image(bad).unwrap_err().contains("NAME=PROGRAM"), "{bad}");
        }
    }
}
