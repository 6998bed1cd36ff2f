//! What the bodies of requests share: JSON with errors that name the field, bounds that hold while it is read, the
//! model's name.

use axum::http::StatusCode;
use dyad_proto::limits::MAX_TEXT_BYTES;
use serde::de::{self, DeserializeOwned};

use super::refusal::EncoderRefusal;
use crate::model::ModelInfo;

/// How the message begins where the input has more than the bounds that gRPC has too. serde hands a reader's error on
/// as text only, and none of its own begins so.
pub(super) const TOO_MUCH: &str = "expected at most ";

/// Reads a body, which is an object with at least the field `required`.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8], required: &str) -> Result<T, EncoderRefusal> {
    let bad = |code, message: String| EncoderRefusal::invalid(StatusCode::BAD_REQUEST, code, message);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        bad(
            "invalid_utf8",
            format!(
                "the body is not UTF-8: byte {} begins no character",
                error.valid_up_to()
            ),
        )
    })?;
    // An array would be taken for the fields in their order.
    if text.trim_start().starts_with('[') {
        return Err(bad(
            "invalid_value",
            format!("the body must be a JSON object with the field `{required}`, got an array"),
        ));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, cause) = (error.path().to_string(), error.inner());
        if cause.classify() != serde_json::error::Category::Data {
            return bad("invalid_json", format!("the body is not JSON: {cause}"));
        }
        // At the top there is no path; serde names the field itself.
        let field = path
            .split(['.', '['])
            .next()
            .filter(|field| !field.is_empty() && *field != "?");
        match field {
            Some(field) if cause.to_string().starts_with(TOO_MUCH) => {
                let cause = cause.to_string();
                // Where the reader stood is of no use: the path says what is too much.
                let message = format!(
                    "`{path}`: {}",
                    cause.rsplit_once(" at line ").map_or(cause.as_str(), |(says, _)| says)
                );
                EncoderRefusal::invalid(StatusCode::PAYLOAD_TOO_LARGE, "input_too_large", message).at(field)
            }
            Some(field) => bad("invalid_value", format!("`{path}`: {cause}")).at(field),
            None => bad("invalid_value", cause.to_string()),
        }
    })?;
    json.end()
        .map_err(|error| bad("invalid_json", format!("the body is not JSON: {error}")))?;
    Ok(read)
}

/// Refuses a request for another model than is served.
pub(super) fn check_model(asked: Option<&str>, model: &ModelInfo) -> Result<(), EncoderRefusal> {
    if let Some(asked) = asked
        && asked != model.name
        && asked != model.fingerprint
    {
        let message = format!(
            "model `{asked}` is not served here. Leave `model` out, or ask for `{}`",
            model.name
        );
        return Err(EncoderRefusal::invalid(StatusCode::NOT_FOUND, "model_not_found", message).at("model"));
    }
    Ok(())
}

/// Whether one more fits: the reader stops at the first that does not, so that a body of many small items (64 MiB of
/// `[]`) never stands in memory as a whole.
pub(super) fn room<E: de::Error>(held: usize, most: usize, unit: &str, fix: &str) -> Result<(), E> {
    if held < most {
        Ok(())
    } else {
        Err(too_much(most, unit, &format!("{} or more", most + 1), fix))
    }
}

pub(super) fn bounded<E: de::Error>(text: &str) -> Result<(), E> {
    let bytes = text.len();
    if bytes <= MAX_TEXT_BYTES {
        return Ok(());
    }
    Err(too_much(MAX_TEXT_BYTES, "bytes", &bytes.to_string(), "Split it"))
}

fn too_much<E: de::Error>(most: usize, unit: &str, got: &str, fix: &str) -> E {
    E::custom(format_args!("{TOO_MUCH}{most} {unit}, got {got}. {fix}"))
}
