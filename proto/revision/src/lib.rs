//! [`revision`]: the commit that a program is built of.
//!
//! It is a macro, and not a build script, for what a commit costs a developer. A build script belongs to a package: its
//! new output compiles the package's library, and all that depends on it, again. The macro is called by the `main.rs`
//! of the four programs alone, which then depend on git's files: a commit compiles and links these again (that of the
//! indexer with its command line), and no library and no test.
//!
//! | file | contents |
//! |---|---|
//! | `git.rs` | the commit of a checkout, read from git's files |
#![forbid(unsafe_code)]

mod git;

use std::env;
use std::path::Path;

use proc_macro::TokenStream;

use self::git::Checkout;

/// Abbreviated as git does it in large repositories.
const DIGITS: usize = 12;
const UNKNOWN: &str = "unknown";

/// The revision as text: `DYAD_REVISION` of the environment of the build where it is set, otherwise the commit of the
/// checkout, as 12 digits, otherwise `unknown`. Whether files differ from the commit is not told: to know it, every
/// build would have to look at every file.
#[proc_macro]
pub fn revision(_: TokenStream) -> TokenStream {
    // Every program's folder lies in the root of the workspace. Other parents are not asked: a repository that holds a
    // copy of the sources has commits of its own.
    let checkout = env::var_os("CARGO_MANIFEST_DIR")
        .and_then(|program| Some(Checkout::of(Path::new(&program).parent()?)))
        .unwrap_or_default();
    // A text of hexadecimal digits and letters, and absolute paths as Rust's literals: this always parses.
    expression(&checkout).parse().unwrap_or_default()
}

/// The revision as an expression that the compiler evaluates again when the variable or a watched file changes.
fn expression(checkout: &Checkout) -> String {
    let watched: Vec<String> = checkout
        .watched
        .iter()
        .map(|file| format!("const _: &[u8] = ::core::include_bytes!({file:?});"))
        .collect();
    let watched = watched.concat();
    let commit = checkout.commit.get(..DIGITS).unwrap_or(UNKNOWN);
    format!(
        "{{ {watched} match ::core::option_env!(\"DYAD_REVISION\") {{ \
           ::core::option::Option::Some(given) if !given.is_empty() => given, _ => {commit:?} }} }}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_is_abbreviated_and_its_files_are_watched() {
        let checkout = Checkout {
            commit: "0123456789abcdef0123456789abcdef01234567".to_owned(),
            watched: vec!["/a \"b\"/.git/HEAD".to_owned()],
        };
        let text = expression(&checkout);
        assert!(text.contains("include_bytes!(\"/a \\\"b\\\"/.git/HEAD\")"), "{text}");
        assert!(text.contains("_ => \"0123456789ab\""), "{text}");
        assert!(expression(&Checkout::default()).contains("_ => \"unknown\""));
    }
}
