//! How a request is refused: a code, a reason, and a number to ask about it by.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::BASE;
use crate::store::{StoreError, new_id};

/// The body of every error.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Error {
    /// Id of the error.
    pub id: String,
    /// Always `Error`.
    pub kind: String,
    /// Link to the description of the error.
    pub href: String,
    /// Code of the error: a prefix and the id.
    pub code: String,
    /// A message.
    pub reason: String,
    /// Identifies this response in the log.
    pub operation_id: String,
}

/// An error of the API.
#[derive(Debug)]
pub(crate) struct Refusal {
    code: Code,
    reason: String,
}

/// All errors. Their ids are part of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// The caller lacks a permission.
    Forbidden = 4,
    /// A quota of the organisation or the user.
    Quota = 5,
    /// A conflict with the current state.
    Conflict = 6,
    /// The resource does not exist, or not for this caller.
    NotFound = 7,
    /// An internal error.
    General = 9,
    /// Unknown method.
    NotImplemented = 10,
    /// The token is missing or not valid.
    Unauthenticated = 15,
    /// Malformed request.
    Malformed = 17,
    /// Well-formed request with a value that is not valid.
    BadRequest = 21,
    /// Malformed search.
    Search = 23,
    /// Unknown provider.
    Provider = 30,
    /// Unknown region.
    Region = 31,
    /// Name that is not valid for a Kafka.
    KafkaName = 32,
    /// Too short.
    MinimumLength = 33,
    /// Too long.
    MaximumLength = 34,
    /// The name is taken.
    DuplicateName = 36,
    /// Missing or invalid fields.
    Fields = 37,
    /// Unknown instance type.
    InstanceType = 41,
    /// Unknown size.
    Plan = 42,
    /// Synchronous requests are not supported.
    Synchronous = 103,
    /// Too many requests.
    TooMany = 429,
}

/// All of them.
pub(crate) const CODES: [Code; 21] = [
    Code::Forbidden,
    Code::Quota,
    Code::Conflict,
    Code::NotFound,
    Code::General,
    Code::NotImplemented,
    Code::Unauthenticated,
    Code::Malformed,
    Code::BadRequest,
    Code::Search,
    Code::Provider,
    Code::Region,
    Code::KafkaName,
    Code::MinimumLength,
    Code::MaximumLength,
    Code::DuplicateName,
    Code::Fields,
    Code::InstanceType,
    Code::Plan,
    Code::Synchronous,
    Code::TooMany,
];

impl Code {
    /// Its HTTP status.
    #[must_use]
    pub(super) fn status(self) -> StatusCode {
        match self {
            Code::Forbidden | Code::Quota => StatusCode::FORBIDDEN,
            Code::Conflict | Code::DuplicateName => StatusCode::CONFLICT,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::General => StatusCode::INTERNAL_SERVER_ERROR,
            Code::NotImplemented => StatusCode::METHOD_NOT_ALLOWED,
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Code::Malformed
            | Code::BadRequest
            | Code::Search
            | Code::Provider
            | Code::Region
            | Code::KafkaName
            | Code::MinimumLength
            | Code::MaximumLength
            | Code::Fields
            | Code::InstanceType
            | Code::Plan
            | Code::Synchronous => StatusCode::BAD_REQUEST,
        }
    }

    /// Its description.
    #[must_use]
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Code::Forbidden => "Forbidden to perform this action",
            Code::Quota => "Forbidden to create more instances than the maximum allowed",
            Code::Conflict => "An entity with the specified unique values already exists",
            Code::NotFound => "Resource not found",
            Code::General => "Unspecified error",
            Code::NotImplemented => "HTTP Method not implemented for this endpoint",
            Code::Unauthenticated => "Account authentication could not be verified",
            Code::Malformed => "Unable to read request body",
            Code::BadRequest => "Bad request",
            Code::Search => "Failed to parse search query",
            Code::Provider => "Provider not supported",
            Code::Region => "Region not supported",
            Code::KafkaName => "Kafka cluster name is invalid",
            Code::MinimumLength => "Minimum field length not reached",
            Code::MaximumLength => "Maximum field length has been depassed",
            Code::DuplicateName => "Kafka cluster name is already used",
            Code::Fields => "Field validation failed",
            Code::InstanceType => "Instance Type not supported",
            Code::Plan => "Instance plan not supported",
            Code::Synchronous => "Synchronous action is not supported, use async=true parameter",
            Code::TooMany => "Too Many requests",
        }
    }

    /// As it is served.
    #[must_use]
    pub(super) fn body(self, reason: &str) -> Error {
        let number = self as u16;
        Error {
            id: number.to_string(),
            kind: "Error".to_owned(),
            href: format!("{BASE}/errors/{number}"),
            code: format!("KAFKAS-MGMT-{number}"),
            reason: reason.to_owned(),
            operation_id: new_id(),
        }
    }
}

impl Refusal {
    /// With this code and reason.
    pub(super) fn new(code: Code, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }

    /// The resource does not exist, or not for this caller; the response is the same.
    #[must_use]
    pub(super) fn not_found() -> Self {
        Self::new(Code::NotFound, Code::NotFound.meaning())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        tracing::error!(error = %crate::chain(&error), "a request failed");
        Self::new(Code::General, Code::General.meaning())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.code.status(), Json(self.code.body(&self.reason))).into_response()
    }
}
