//! Tokens, signed with a key that the manager knows.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

pub(crate) const ISSUER: &str = "https://issuer.test";
pub(crate) const AUDIENCE: &str = "gregor-fleet";

/// Signs tokens with a key that the manager knows.
pub(crate) struct Signer {
    key: EncodingKey,
    algorithm: Algorithm,
    kid: &'static str,
}

impl Signer {
    pub(crate) fn ec(kid: &'static str) -> Self {
        use aws_lc_rs::rand::SystemRandom;
        use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
        let key =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let key = EncodingKey::from_ec_der(key.unwrap().as_ref());
        Self { key, algorithm: Algorithm::ES256, kid }
    }

    pub(crate) fn rsa(kid: &'static str) -> Self {
        use aws_lc_rs::encoding::AsDer as _;
        use aws_lc_rs::rsa::{KeyPair, KeySize};
        let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = key.as_der().unwrap();
        // PKCS#1, as the token library reads it, is at the end of PKCS#8.
        let key = EncodingKey::from_rsa_der(&der.as_ref()[26..]);
        Self { key, algorithm: Algorithm::RS256, kid }
    }

    pub(crate) fn jwk(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, self.algorithm).unwrap();
        jwk.common.key_id = Some(self.kid.to_owned());
        serde_json::to_value(jwk).unwrap()
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.kid.to_owned()), ..Header::new(self.algorithm) };
        jsonwebtoken::encode(&header, claims, &self.key).unwrap()
    }

    pub(crate) fn agent(&self, plane: &str) -> String {
        self.sign(&agent_claims(plane))
    }

    pub(crate) fn user(&self, name: &str, organisation: &str) -> String {
        self.sign(&claims(json!({ "username": name, "org_id": organisation })))
    }

    pub(crate) fn admin(&self, role: &str) -> String {
        let role = format!("kas-fleet-manager-admin-{role}");
        self.sign(&claims(json!({ "sub": "root", "realm_access": { "roles": [role] } })))
    }
}

pub(crate) fn claims(more: Value) -> Value {
    let exp = jsonwebtoken::get_current_timestamp() + 3600;
    let mut all = json!({ "iss": ISSUER, "aud": AUDIENCE, "exp": exp, "sub": "somebody" });
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

pub(crate) fn agent_claims(plane: &str) -> Value {
    claims(json!({
        "realm_access": { "roles": ["kas_fleetshard_operator"] },
        "kas-fleetshard-operator-cluster-id": plane,
    }))
}
