//! Embeds the pages that `cargo xtask console` has built into `web/dist`. Needs no Node: without them the program has a
//! page that says how to build them.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let dist = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("web/dist");
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&dist)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    let mut text = String::from("&[\n");
    for name in names {
        let path = dist.join(&name);
        text.push_str(&format!("({name:?}, include_bytes!({:?}).as_slice()),\n", path.display()));
    }
    text.push_str("]\n");
    let out = Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("assets.rs");
    fs::write(out, text)
}
