//! `dist`: builds the release program, images from a base image that is pinned by digest, and their bills of materials.
//!
//! A tag can be moved after a review; a digest cannot.

use std::fs;

use anyhow::{Context, Result};
use clap::Args;

use crate::images::Engine;
use crate::run::{Line, Run, target};
use crate::{console, images};

/// Base image and registry.
#[derive(Debug, Args)]
pub(crate) struct Dist {
    /// Base image of all images, a Debian, with its digest
    #[arg(long, value_name = "IMAGE@sha256:DIGEST")]
    base: String,
    /// Registry of the images, and path in it
    #[arg(long, value_name = "REGISTRY")]
    image_registry: Option<String>,
}

impl Dist {
    pub(crate) fn run(&self) -> Result<()> {
        images::check_digest(&self.base)?;
        let engine = Engine::find()?;
        let kafkas = images::kafka_versions()?;
        let mut run = Run::new("dist");
        console::build_steps(&mut run)?;
        run.step("program", &Line::new("cargo build --locked --release --package gregor"))?;
        let program = target()?.join("release/gregor");
        run.inline("context", "cargo xtask dist", || images::fill(&program, &kafkas))?;
        for image in images::all(&self.base, &kafkas) {
            let name = match &self.image_registry {
                Some(registry) => format!("{}/{}", registry.trim_end_matches('/'), image.tag),
                None => image.tag.clone(),
            };
            run.step(&image.tag, &image.line(&engine, &name, &[])?)?;
            run.inline("bill", "cargo xtask dist", || {
                let file = format!("images/{}.cdx.json", image.tag.replace(':', "-"));
                let bill = serde_json::to_string_pretty(&image.bill(&engine, &name)?)?;
                fs::write(target()?.join(&file), bill).context(file)
            })?;
        }
        run.finish();
        Ok(())
    }
}
