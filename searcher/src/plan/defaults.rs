//! What the operator of an index has set for requests that leave it open: `dyad-searcher serve --search-defaults`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use dyad_proto::{v1, validate};

/// Parameters of searches; those that are absent stay as they are without.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SearchDefaults {
    /// Beam width, as `SearchRequest.ef`; of requests with neither a width nor a target recall.
    pub ef: Option<u32>,
    /// The recall to reach, as `SearchRequest.target_recall`; of the same requests, in place of `ef`.
    pub target_recall: Option<f64>,
    /// Hits of each ranking that are fused, as `SearchRequest.fusion_depth`.
    pub fusion_depth: Option<u32>,
    /// Weight of the dense ranking, as `SearchRequest.dense_weight`; of requests that name no fusion.
    pub dense_weight: Option<f64>,
    /// Weight of a passage's document in BM25, as `SearchRequest.document_weight`; of the same requests.
    pub document_weight: Option<f64>,
}

impl SearchDefaults {
    /// Sets what a request that [`validate`] has accepted leaves open.
    pub(crate) fn fill(&self, request: &mut v1::SearchRequest) {
        let mode = request.mode();
        let is_open = request.ef == 0 && request.target_recall.is_none() && !request.exact;
        if is_open && mode != v1::Mode::Bm25 {
            request.ef = self.ef.unwrap_or(0);
            request.target_recall = self.target_recall;
        }
        if !mode.fuses() {
            return;
        }
        if request.fusion_depth == 0 {
            request.fusion_depth = self.fusion_depth.unwrap_or(0);
        }
        // The weights are those of the index's own fusion.
        if request.fusion() == v1::Fusion::Unspecified && request.rrf_k == 0 {
            request.dense_weight = request.dense_weight.or(self.dense_weight);
            request.document_weight = request.document_weight.or(self.document_weight);
        }
    }

    /// Those of `self`, and for what they leave open, those of `others`.
    fn or(self, others: Self) -> Self {
        let beam = if self.ef.is_some() || self.target_recall.is_some() {
            self
        } else {
            others
        };
        Self {
            ef: beam.ef,
            target_recall: beam.target_recall,
            fusion_depth: self.fusion_depth.or(others.fusion_depth),
            dense_weight: self.dense_weight.or(others.dense_weight),
            document_weight: self.document_weight.or(others.document_weight),
        }
    }

    /// Refuses what no request could ask for.
    fn check(&self) -> Result<(), String> {
        let mut request = v1::SearchRequest {
            query: "any".to_owned(),
            mode: v1::Mode::Hybrid.into(),
            k: 1,
            ..v1::SearchRequest::default()
        };
        if self.ef.is_some() && self.target_recall.is_some() {
            return Err("expected `ef` or `target-recall`, got both".to_owned());
        }
        self.fill(&mut request);
        validate::search_request(&request).map_err(|refused| refused.to_string())
    }
}

/// A value of one of the parameters.
fn value<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<Option<T>, String> {
    let parsed = text.parse();
    parsed
        .map(Some)
        .map_err(|error| format!("`{name}`: expected a number, got `{text}` ({error})"))
}

impl FromStr for SearchDefaults {
    type Err = String;

    /// `ef=64,fusion-depth=200,dense-weight=0.6`.
    fn from_str(text: &str) -> Result<Self, String> {
        const NAMES: &str = "`ef`, `target-recall`, `fusion-depth`, `dense-weight` or `document-weight`";
        let mut defaults = Self::default();
        for part in text.split(',') {
            let Some((name, number)) = part.split_once('=') else {
                return Err(format!("expected {NAMES} with `=` and a number, got `{part}`"));
            };
            match name {
                "ef" => defaults.ef = value(name, number)?,
                "target-recall" => defaults.target_recall = value(name, number)?,
                "fusion-depth" => defaults.fusion_depth = value(name, number)?,
                "dense-weight" => defaults.dense_weight = value(name, number)?,
                "document-weight" => defaults.document_weight = value(name, number)?,
                _ => return Err(format!("expected {NAMES}, got `{name}`")),
            }
        }
        defaults.check()?;
        Ok(defaults)
    }
}

/// One value of the option: `[NAME:]ef=64,dense-weight=0.6`.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedSearchDefaults {
    /// The index; none for all.
    pub index: Option<String>,
    /// What requests to it mean.
    pub defaults: SearchDefaults,
}

impl FromStr for NamedSearchDefaults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (index, parameters) = match text.split_once(':') {
            Some((name, parameters)) => (Some(name.to_owned()), parameters),
            None => (None, text),
        };
        Ok(Self {
            index,
            defaults: parameters.parse()?,
        })
    }
}

/// The defaults of all indexes of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServedSearchDefaults {
    of_all: SearchDefaults,
    of_one: BTreeMap<String, SearchDefaults>,
}

impl ServedSearchDefaults {
    /// Of several values for one index, or for all, a later one counts where both set a parameter.
    pub fn new(values: impl IntoIterator<Item = NamedSearchDefaults>) -> Self {
        let mut all = Self::default();
        for NamedSearchDefaults { index, defaults } in values {
            let place = match index {
                Some(name) => all.of_one.entry(name).or_default(),
                None => &mut all.of_all,
            };
            *place = defaults.or(*place);
        }
        all
    }

    /// The indexes that are named.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.of_one.keys().map(String::as_str)
    }

    /// Those of an index.
    pub(crate) fn of(&self, index: &str) -> SearchDefaults {
        self.of_one.get(index).copied().unwrap_or_default().or(self.of_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str], index: &str) -> SearchDefaults {
        ServedSearchDefaults::new(values.iter().map(|value| value.parse().unwrap())).of(index)
    }

    fn filled(defaults: &str, request: v1::SearchRequest) -> v1::SearchRequest {
        let mut request = request;
        defaults.parse::<SearchDefaults>().unwrap().fill(&mut request);
        request
    }

    fn hybrid() -> v1::SearchRequest {
        v1::SearchRequest {
            mode: v1::Mode::Hybrid.into(),
            ..v1::SearchRequest::default()
        }
    }

    #[test]
    fn an_index_has_its_own_before_those_of_all() {
        let values = [
            "ef=64,dense-weight=0.6",
            "wiki:target-recall=0.95",
            "wiki:fusion-depth=200",
            "news:ef=32",
        ];
        let wiki = of(&values, "wiki");
        assert_eq!(
            (wiki.ef, wiki.target_recall),
            (None, Some(0.95)),
            "in place of the width of all"
        );
        assert_eq!((wiki.fusion_depth, wiki.dense_weight), (Some(200), Some(0.6)));
        assert_eq!((of(&values, "news").ef, of(&values, "other").ef), (Some(32), Some(64)));
    }

    #[test]
    fn only_what_a_request_leaves_open_is_set() {
        let defaults = "ef=64,fusion-depth=200,dense-weight=0.6,document-weight=0.2";
        let request = filled(defaults, hybrid());
        assert_eq!((request.ef, request.fusion_depth), (64, 200));
        assert_eq!((request.dense_weight, request.document_weight), (Some(0.6), Some(0.2)));
        let asked = v1::SearchRequest {
            target_recall: Some(0.9),
            fusion_depth: 50,
            dense_weight: Some(0.0),
            ..hybrid()
        };
        let request = filled(defaults, asked);
        assert_eq!(
            (request.ef, request.fusion_depth, request.dense_weight),
            (0, 50, Some(0.0))
        );
        let by_ranks = v1::SearchRequest {
            fusion: v1::Fusion::Rrf.into(),
            exact: true,
            ..hybrid()
        };
        let request = filled(defaults, by_ranks);
        assert_eq!(
            (request.ef, request.dense_weight, request.document_weight),
            (0, None, None)
        );
        for mode in [v1::Mode::Bm25, v1::Mode::Dense] {
            let request = filled(
                defaults,
                v1::SearchRequest {
                    mode: mode.into(),
                    ..hybrid()
                },
            );
            assert_eq!(
                (request.ef > 0, request.fusion_depth, request.dense_weight),
                (mode == v1::Mode::Dense, 0, None)
            );
        }
    }

    #[test]
    fn what_no_request_could_ask_for_is_refused() {
        for (text, part) in [
            ("ef=0x40", "`ef`: expected a number"),
            ("width=64", "got `width`"),
            ("ef", "got `ef`"),
            ("ef=64,target-recall=0.9", "got both"),
            ("dense-weight=1.5", "dense_weight"),
            ("target-recall=2", "target_recall"),
        ] {
            let refused = text.parse::<SearchDefaults>().unwrap_err();
            assert!(refused.contains(part), "{refused}");
        }
    }
}
