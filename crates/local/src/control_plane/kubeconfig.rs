//! Kubeconfig files.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::error::Error;
use super::pki::KeyFiles;

/// A self-contained kubeconfig, which can be copied. It is JSON, a subset of YAML.
pub(super) fn text(port: u16, authority: &Path, identity: &KeyFiles) -> Result<Vec<u8>, Error> {
    let read = |path: &Path| -> Result<String, Error> {
        Ok(BASE64_STANDARD.encode(fs::read(path).map_err(Error::io("read", path))?))
    };
    let value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "gregor",
            "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority-data": read(authority)?,
            },
        }],
        "users": [{
            "name": "gregor",
            "user": {
                "client-certificate-data": read(&identity.certificate)?,
                "client-key-data": read(&identity.key)?,
            },
        }],
        "contexts": [{ "name": "gregor", "context": { "cluster": "gregor", "user": "gregor" } }],
        "current-context": "gregor",
    });
    Ok(format!("{value:#}\n").into_bytes())
}

/// A client for a kubeconfig.
pub(super) async fn client(kubeconfig: &[u8]) -> Result<kube::Client, Error> {
    let text = String::from_utf8_lossy(kubeconfig);
    let parsed = kube::config::Kubeconfig::from_yaml(&text).map_err(Error::Kubeconfig)?;
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(parsed, &options).await;
    kube::Client::try_from(config.map_err(Error::Kubeconfig)?).map_err(Error::client)
}
