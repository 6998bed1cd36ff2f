//! Enums of the `.proto` files as people read and type them: `MODE_BM25` is `bm25`, and `FUSION_LOG_ODDS` is
//! `log-odds`.

use std::fmt::Write as _;

use prost_reflect::{DescriptorPool, EnumDescriptor};

/// What the names of values that say nothing end in.
const UNSPECIFIED: &str = "UNSPECIFIED";

/// For each enum of the package that has a value for none, the words of its values, and an argument that takes them.
pub(crate) fn words(pool: &DescriptorPool) -> Result<String, std::fmt::Error> {
    let mut code = String::new();
    for names in pool.all_enums().filter(|names| names.package_name() == "dyad.v1") {
        if let Some(prefix) = names.default_value().name().strip_suffix(UNSPECIFIED) {
            write_words(&mut code, &names, prefix)?;
        }
    }
    Ok(code)
}

fn write_words(code: &mut String, names: &EnumDescriptor, prefix: &str) -> std::fmt::Result {
    let (mut words, mut variants) = (String::new(), String::new());
    for value in names.values() {
        let name = value.name().strip_prefix(prefix).unwrap_or(value.name());
        let (variant, word) = (upper_camel(name), name.to_ascii_lowercase().replace('_', "-"));
        writeln!(words, "            Self::{variant} => {word:?},")?;
        if name != UNSPECIFIED {
            write!(variants, "Self::{variant}, ")?;
        }
    }
    let name = names.name();
    writeln!(code, "impl v1::{name} {{")?;
    writeln!(
        code,
        "    /// Its name for people, in lower case and without the name of the enum."
    )?;
    writeln!(
        code,
        "    pub const fn word(self) -> &'static str {{\n        match self {{\n{words}        }}\n    }}\n}}"
    )?;
    writeln!(code, "impl clap::ValueEnum for v1::{name} {{")?;
    writeln!(
        code,
        "    fn value_variants<'a>() -> &'a [Self] {{\n        &[{variants}]\n    }}"
    )?;
    writeln!(
        code,
        "    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {{"
    )?;
    writeln!(
        code,
        "        Some(clap::builder::PossibleValue::new(self.word()))\n    }}\n}}"
    )
}

/// `LOG_ODDS` as `LogOdds`, as prost names it.
fn upper_camel(name: &str) -> String {
    let mut camel = String::new();
    for part in name.split('_') {
        let (first, rest) = part.split_at(part.len().min(1));
        camel.push_str(first);
        camel.push_str(&rest.to_ascii_lowercase());
    }
    camel
}
