//! Content of volumes that consist of API objects: ConfigMap, Secret, downward API, projected. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, Volume, VolumeProjection,
};

use crate::kubelet::env::{self, Context};

/// Default file mode.
const MODE: i32 = 0o644;

/// A source object, by its name in the pod's namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceKey {
    ConfigMap(String),
    Secret(String),
}

/// A token for a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TokenKey {
    pub(crate) audience: Option<String>,
    pub(crate) seconds: i64,
}

/// The known objects. One that is not in the map has not been read yet; `None` is absent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    pub(crate) objects: BTreeMap<SourceKey, Option<Data>>,
    pub(crate) tokens: BTreeMap<TokenKey, String>,
}

/// The content of a ConfigMap or Secret.
pub(crate) type Data = BTreeMap<String, Vec<u8>>;

/// A file of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
}

/// Why a volume cannot be created now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("waiting for {0:?}")]
    Unknown(SourceKey),
    #[error("waiting for a service account token")]
    Token,
    #[error("configmap \"{0}\" not found")]
    ConfigMap(String),
    #[error("secret \"{0}\" not found")]
    Secret(String),
    #[error("references non-existent key: {0}")]
    Key(String),
    #[error("{0} leads out of the volume")]
    Path(String),
    #[error("{0}")]
    Field(env::Error),
    #[error("this kubelet does not support projections of this kind")]
    Projection,
}

impl Problem {
    /// Whether it is transient, so that no Event is published.
    pub(crate) fn is_brief(&self) -> bool {
        matches!(self, Self::Unknown(_) | Self::Token)
    }
}

/// The content of a ConfigMap.
pub(crate) fn config_map_data(object: &ConfigMap) -> Data {
    let text = object.data.iter().flatten().map(|(k, v)| (k.clone(), v.clone().into_bytes()));
    let bytes = object.binary_data.iter().flatten().map(|(k, v)| (k.clone(), v.0.clone()));
    text.chain(bytes).collect()
}

/// The content of a Secret.
pub(crate) fn secret_data(object: &Secret) -> Data {
    object.data.iter().flatten().map(|(k, v)| (k.clone(), v.0.clone())).collect()
}

/// The source objects and tokens of a volume.
pub(crate) fn needs(volume: &Volume) -> (Vec<SourceKey>, Vec<TokenKey>) {
    let (mut objects, mut tokens) = (Vec::new(), Vec::new());
    objects.extend(volume.config_map.iter().map(|c| SourceKey::ConfigMap(c.name.clone())));
    let secret = volume.secret.iter().filter_map(|s| s.secret_name.clone());
    objects.extend(secret.map(SourceKey::Secret));
    for source in volume.projected.iter().flat_map(|p| p.sources.iter().flatten()) {
        objects.extend(source.config_map.iter().map(|c| SourceKey::ConfigMap(c.name.clone())));
        objects.extend(source.secret.iter().map(|s| SourceKey::Secret(s.name.clone())));
        tokens.extend(token_key(source));
    }
    (objects, tokens)
}

fn token_key(source: &VolumeProjection) -> Option<TokenKey> {
    let token = source.service_account_token.as_ref()?;
    let audience = token.audience.clone().filter(|audience| !audience.is_empty());
    Some(TokenKey { audience, seconds: token.expiration_seconds.unwrap_or(3600) })
}

/// The files of a volume; `None` if it does not consist of API objects.
pub(crate) fn payload(
    pod: &Pod,
    volume: &Volume,
    sources: &Sources,
    context: &Context,
) -> Result<Option<Vec<File>>, Problem> {
    let maker = Maker { pod, sources, context };
    let files = if let Some(c) = &volume.config_map {
        let key = SourceKey::ConfigMap(c.name.clone());
        maker.object(&key, &Pick::new(c.items.as_deref(), c.default_mode, c.optional))?
    } else if let Some(s) = &volume.secret {
        let key = SourceKey::Secret(s.secret_name.clone().unwrap_or_default());
        maker.object(&key, &Pick::new(s.items.as_deref(), s.default_mode, s.optional))?
    } else if let Some(d) = &volume.downward_api {
        maker.downward(d.items.as_deref().unwrap_or(&[]), d.default_mode)?
    } else if let Some(p) = &volume.projected {
        let mut files = Vec::new();
        for source in p.sources.iter().flatten() {
            files.extend(maker.projection(source, p.default_mode)?);
        }
        files
    } else {
        return Ok(None);
    };
    match files.iter().find(|file| leads_out(&file.path)) {
        Some(file) => Err(Problem::Path(file.path.clone())),
        None => Ok(Some(files)),
    }
}

/// The API server rejects such paths; our files must not depend on that.
fn leads_out(path: &str) -> bool {
    path.is_empty() || path.starts_with('/') || path.split('/').any(|part| part == "..")
}

/// Mapping of keys to files.
struct Pick<'a> {
    items: Option<&'a [KeyToPath]>,
    mode: i32,
    optional: bool,
}

impl<'a> Pick<'a> {
    fn new(items: Option<&'a [KeyToPath]>, mode: Option<i32>, optional: Option<bool>) -> Self {
        Self { items, mode: mode.unwrap_or(MODE), optional: optional == Some(true) }
    }
}

struct Maker<'a> {
    pod: &'a Pod,
    sources: &'a Sources,
    context: &'a Context,
}

impl Maker<'_> {
    fn object(&self, key: &SourceKey, pick: &Pick<'_>) -> Result<Vec<File>, Problem> {
        let known = self.sources.objects.get(key);
        let Some(data) = known.ok_or_else(|| Problem::Unknown(key.clone()))? else {
            return match key {
                _ if pick.optional => Ok(Vec::new()),
                SourceKey::ConfigMap(name) => Err(Problem::ConfigMap(name.clone())),
                SourceKey::Secret(name) => Err(Problem::Secret(name.clone())),
            };
        };
        let Some(items) = pick.items else {
            return Ok(data.iter().map(|(k, v)| file(k, v.clone(), pick.mode)).collect());
        };
        let mut files = Vec::new();
        for item in items {
            match data.get(&item.key) {
                Some(bytes) => {
                    files.push(file(&item.path, bytes.clone(), item.mode.unwrap_or(pick.mode)));
                }
                None if pick.optional => {}
                None => return Err(Problem::Key(item.key.clone())),
            }
        }
        Ok(files)
    }

    fn downward(
        &self,
        items: &[DownwardAPIVolumeFile],
        mode: Option<i32>,
    ) -> Result<Vec<File>, Problem> {
        let nobody = Container::default();
        let of = |item: &DownwardAPIVolumeFile| {
            let value = match (&item.field_ref, &item.resource_field_ref) {
                (Some(field), _) => env::field_value(self.pod, field, self.context),
                (None, Some(r)) => env::resource_value(self.pod, &nobody, r, self.context),
                (None, None) => Ok(String::new()),
            };
            let mode = item.mode.or(mode).unwrap_or(MODE);
            value.map(|value| file(&item.path, value.into_bytes(), mode)).map_err(Problem::Field)
        };
        items.iter().map(of).collect()
    }

    fn projection(
        &self,
        source: &VolumeProjection,
        mode: Option<i32>,
    ) -> Result<Vec<File>, Problem> {
        if let Some(c) = &source.config_map {
            let pick = Pick::new(c.items.as_deref(), mode, c.optional);
            return self.object(&SourceKey::ConfigMap(c.name.clone()), &pick);
        }
        if let Some(s) = &source.secret {
            let pick = Pick::new(s.items.as_deref(), mode, s.optional);
            return self.object(&SourceKey::Secret(s.name.clone()), &pick);
        }
        if let Some(d) = &source.downward_api {
            return self.downward(d.items.as_deref().unwrap_or(&[]), mode);
        }
        let (Some(key), Some(token)) = (token_key(source), &source.service_account_token) else {
            return Err(Problem::Projection);
        };
        let text = self.sources.tokens.get(&key).ok_or(Problem::Token)?;
        // Only its owner may read a token, regardless of the default mode.
        Ok(vec![file(&token.path, text.clone().into_bytes(), 0o600)])
    }
}

fn file(path: &str, bytes: Vec<u8>, mode: i32) -> File {
    File { path: path.to_owned(), bytes, mode: u32::try_from(mode).unwrap_or(0o600) & 0o777 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sources() -> Sources {
        let data = |pairs: &[(&str, &str)]| -> Option<Data> {
            Some(pairs.iter().map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec())).collect())
        };
        let key = TokenKey { audience: None, seconds: 3607 };
        Sources {
            objects: [
                (SourceKey::ConfigMap("cm".into()), data(&[("a", "1"), ("b", "2")])),
                (SourceKey::Secret("s".into()), data(&[("k", "v")])),
                (SourceKey::ConfigMap("no".into()), None),
                (SourceKey::Secret("no".into()), None),
            ]
            .into(),
            tokens: [(key, "eyJ".to_owned())].into(),
        }
    }

    fn show(volume: serde_json::Value) -> String {
        let mut all = json!({ "name": "v" });
        all.as_object_mut().unwrap().extend(volume.as_object().unwrap().clone());
        let volume: Volume = serde_json::from_value(all).unwrap();
        let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": "p" } })).unwrap();
        match payload(&pod, &volume, &sources(), &Context::default()) {
            Err(problem) => format!("! {problem}"),
            Ok(None) => "none".to_owned(),
            Ok(Some(files)) => {
                let text = |f: File| {
                    format!("{}={}:{:o}", f.path, String::from_utf8(f.bytes).unwrap(), f.mode)
                };
                files.into_iter().map(text).collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn volumes_are_made_of_objects() {
        let item = |key: &str| json!([{ "key": key, "path": "x/y", "mode": 0o400 }]);
        #[rustfmt::skip]
        let table = [
            (json!({ "configMap": { "name": "cm" } }), "a=1:644 b=2:644"),
            (json!({ "configMap": { "name": "cm", "defaultMode": 0o600, "items": item("a") } }), "x/y=1:400"),
            (json!({ "configMap": { "name": "cm", "items": item("no") } }), "! references non-existent key: no"),
            (json!({ "configMap": { "name": "cm", "items": item("no"), "optional": true } }), ""),
            (json!({ "configMap": { "name": "no" } }), "! configmap \"no\" not found"),
            (json!({ "configMap": { "name": "no", "optional": true } }), ""),
            (json!({ "configMap": { "name": "other" } }), "! waiting for ConfigMap(\"other\")"),
            (json!({ "secret": { "secretName": "s", "defaultMode": 0o440 } }), "k=v:440"),
            (json!({ "secret": { "secretName": "no" } }), "! secret \"no\" not found"),
            (json!({ "downwardAPI": { "items": [{ "path": "n", "fieldRef": { "fieldPath": "metadata.name" } }] } }), "n=p:644"),
            (json!({ "projected": { "sources": [
                { "serviceAccountToken": { "path": "token", "expirationSeconds": 3607 } },
                { "configMap": { "name": "cm", "items": [{ "key": "a", "path": "ca.crt" }] } },
                { "downwardAPI": { "items": [{ "path": "n", "fieldRef": { "fieldPath": "metadata.name" } }] } },
            ] } }), "token=eyJ:600 ca.crt=1:644 n=p:644"),
            (json!({ "projected": { "sources": [{ "serviceAccountToken": { "path": "t", "audience": "x" } }] } }),
                "! waiting for a service account token"),
            (json!({ "projected": { "sources": [{ "secret": { "name": "s" } }] } }), "k=v:644"),
            (json!({ "configMap": { "name": "cm", "items": [{ "key": "a", "path": "../x" }] } }), "! ../x leads out of the volume"),
            (json!({ "emptyDir": {} }), "none"),
        ];
        for (volume, expected) in table {
            assert_eq!(show(volume.clone()), expected, "{volume}");
        }
    }
}
