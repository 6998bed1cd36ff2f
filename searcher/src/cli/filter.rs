//! `--filter`.

use clap::Args;
use dyad_filter::syntax;
use dyad_proto::v1;

/// Which documents are asked for.
#[derive(Debug, Args)]
pub(super) struct FilterOptions {
    /// Only documents that match: FIELD=VALUE, FIELD!=VALUE, FIELD>=VALUE, FIELD>VALUE, FIELD<=VALUE, FIELD<VALUE,
    /// 'FIELD in VALUE|VALUE' or 'FIELD exists'. A field is `key`, `title` or one of the metadata, nested ones as
    /// `author.name`. If given several times, all must match. VALUE: a number, `true`, `false` or a text; in double
    /// quotes always a text.
    #[arg(long, value_name = "CONDITION", value_parser = syntax::parse)]
    filter: Vec<v1::Filter>,
}

impl FilterOptions {
    /// All conditions together; none where there is none.
    pub(super) fn filter(self) -> Option<v1::Filter> {
        syntax::all(self.filter)
    }
}
