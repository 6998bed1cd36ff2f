//! What a workload names: itself, and files wherever they lie.

use std::path::{Path, PathBuf};

/// Refuses a name that is no name of a file; `field` is where it stands.
pub fn plain_name(field: &str, name: &str) -> Result<(), String> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || !name.chars().all(allowed) {
        return Err(format!("`{field}`: expected letters, digits, `-`, `_` or `.`, got `{name}`"));
    }
    Ok(())
}

/// The first place where the path is; all places in words where it is not.
pub fn find(path: &Path, beside: &Path, other: Option<&Path>) -> Result<PathBuf, String> {
    let tried: Vec<PathBuf> = std::iter::once(beside).chain(other).map(|dir| dir.join(path)).collect();
    if let Some(found) = tried.iter().find(|path| path.exists()) {
        return Ok(found.clone());
    }
    let tried: Vec<String> = tried.iter().map(|path| format!("`{}`", path.display())).collect();
    Err(tried.join(" or "))
}

/// The same for a file of data, in words that name its place in a workload.
pub fn find_data(field: &str, path: &Path, beside: &Path, data_dir: Option<&Path>) -> Result<PathBuf, String> {
    let hint = if data_dir.is_none() { ". DYAD_DATA (or --data) may name another folder to look in" } else { "" };
    find(path, beside, data_dir).map_err(|tried| format!("`{field}`: no such file: {tried}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_order_and_names_are_plain() {
        let dir = tempfile::tempdir().unwrap();
        let (beside, other) = (dir.path().join("a"), dir.path().join("b"));
        for folder in [&beside, &other] {
            fs_err::create_dir(folder).unwrap();
        }
        fs_err::write(other.join("x"), "").unwrap();
        let error = find(Path::new("x"), &beside, None).unwrap_err();
        assert!(error.ends_with("a/x`"), "{error}");
        assert_eq!(find(Path::new("x"), &beside, Some(&other)), Ok(other.join("x")));
        fs_err::write(beside.join("x"), "").unwrap();
        assert_eq!(find(Path::new("x"), &beside, Some(&other)), Ok(beside.join("x")));
        assert!(plain_name("name", "a-b_c.1").is_ok());
        for name in ["", "a/b", "a b"] {
            assert!(plain_name("name", name).unwrap_err().contains("`name`: expected letters"));
        }
    }
}
