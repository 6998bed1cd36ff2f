//! Names of indexes: what requests, folders and arguments may call one.

use std::path::Path;

use crate::limits::MAX_INDEX_NAME;

/// The name of an index whose folder's name is none.
const UNNAMED: &str = "default";

/// Checks the name of an index: 1 to 64 ASCII letters, digits, `.`, `_` and `-`, of which the first is no point. The
/// error says what was expected and what came.
pub fn index_name(name: &str) -> Result<(), String> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    let got = match name.chars().find(|letter| !is_allowed(*letter)) {
        _ if name.is_empty() => "none".to_owned(),
        _ if name.len() > MAX_INDEX_NAME => format!("{} bytes", name.len()),
        Some(letter) => format!("`{}` in `{}`", letter.escape_default(), name.escape_debug()),
        None if name.starts_with('.') => format!("`{name}`"),
        None => return Ok(()),
    };
    let letters = "ASCII letters, digits, `.`, `_` and `-`, the first of them not `.`";
    Err(format!(
        "expected the name of an index, 1 to {MAX_INDEX_NAME} {letters}, got {got}"
    ))
}

/// The name of an index that is named by its folder; `default` where that is no name.
pub fn folder_name(path: &Path) -> &str {
    let folder = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if index_name(folder).is_ok() { folder } else { UNNAMED }
}

/// The parts of an argument `NAME=PATH`, or of a path alone, which has no name or a `/` before its first `=`.
pub fn named_path(argument: &Path) -> Result<(Option<&str>, &Path), String> {
    let parts = argument.to_str().and_then(|text| text.split_once('='));
    match parts.filter(|(name, _)| !name.contains('/')) {
        None => Ok((None, argument)),
        Some((name, path)) => index_name(name).map(|()| (Some(name), Path::new(path))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::fields;
    use super::*;
    use crate::v1;

    #[test]
    fn a_name_has_few_letters_and_is_no_hidden_folder() {
        for name in ["a", "A-1_b.c", "-x", "2024", &"x".repeat(64)] {
            assert_eq!(index_name(name), Ok(()), "{name}");
        }
        for (name, got) in [
            ("", "got none"),
            (".", "got `.`"),
            (".hidden", "got `.hidden`"),
            ("a/b", "got `/` in `a/b`"),
            ("a b", "got ` ` in `a b`"),
            ("a\n", "got `\\n` in `a\\n`"),
            ("größe", "in `größe`"),
            (&"x".repeat(65), "got 65 bytes"),
        ] {
            let error = index_name(name).unwrap_err();
            assert!(
                error.starts_with("expected the name of an index, 1 to 64") && error.ends_with(got),
                "{name}: {error}"
            );
        }
        let named = |index: &str| fields(&v1::StatusRequest { index: index.into() });
        assert!(named("").is_ok() && named("a").is_ok());
        assert!(
            named("a/b")
                .unwrap_err()
                .to_string()
                .starts_with("invalid request: `index`: expected the name")
        );
    }
}
