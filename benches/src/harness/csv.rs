//! Fields of comma-separated records.

/// A field of RFC 4180: quoted where it has to be.
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        assert_eq!(
            (field("ef"), field("a, b"), field("say \"x\"")),
            ("ef".into(), "\"a, b\"".into(), "\"say \"\"x\"\"\"".into())
        );
    }
}
