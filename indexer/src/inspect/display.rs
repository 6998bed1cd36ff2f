//! A report on an index as text.

use std::fmt;

use dyad_index::manifest::MinRecall;
use dyad_index::{FusionRecord, LearnedFrom, ModelRecord, QuerySource, RerankMeasured, RerankRecord, TextLanguage};

use super::{Debt, IndexReport, ShardReport};
use crate::certificate_tables::CertificateTables;
use crate::plan::{ByteSize, Shards};

/// Whether an analyzer is one that this release writes terms by.
fn is_current(analyzer: &str) -> bool {
    TextLanguage::ALL.iter().any(|language| language.analyzer() == analyzer)
}

/// Ascending numbers for people: `1 to 487`, or `1, 2, 5 to 9`.
fn ranges(numbers: &[u64]) -> String {
    let follow = |one: &u64, next: &u64| one + 1 == *next;
    let parts = numbers.chunk_by(follow).map(|run| match run {
        [first, .., last] if run.len() > 2 => format!("{first} to {last}"),
        run => run.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Seconds since 1970 as RFC 3339, UTC; the bare number where no calendar reaches.
fn moment(seconds: u64) -> String {
    let moment = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    moment.map_or_else(|| format!("{seconds} s after 1970"), |moment| moment.to_string())
}

impl fmt::Display for IndexReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "generation    {} (on disk: {})",
            self.generation,
            ranges(&self.generations)
        )?;
        writeln!(f, "created       {}, by {}", moment(self.created_unix_s), self.tool)?;
        let ModelRecord {
            name,
            metric,
            max_tokens,
            ..
        } = &self.model;
        writeln!(
            f,
            "model         {name}, {}, {metric}, {max_tokens} tokens",
            self.model.values()
        )?;
        writeln!(f, "fingerprint   {}", self.model.fingerprint)?;
        if let Some(scale) = self.logit_scale {
            writeln!(f, "logit scale   {scale:.1}, of the model's cosines")?;
        }
        if let Some(context) = &self.context {
            writeln!(f, "context       {context}, of its document in a passage's vector")?;
        }
        writeln!(
            f,
            "language      {} (`{}`), for BM25",
            self.language.name(),
            self.language
        )?;
        if let Some(FusionRecord {
            method,
            dense_weight,
            document_weight,
            learned_from,
            ..
        }) = &self.fusion
        {
            let method = method.label();
            let of_documents = document_weight.map_or_else(String::new, |weight| format!(", document weight {weight}"));
            let LearnedFrom {
                data,
                split,
                questions,
                dense,
                bm25,
                default,
                learned,
            } = learned_from;
            writeln!(
                f,
                "fusion        {method}, dense weight {dense_weight}{of_documents}; learned from {questions} questions of {data} ({split}): \
                 nDCG@10 {learned:.4}, by default {default:.4}, dense {dense:.4}, BM25 {bm25:.4}"
            )?;
        }
        if let Some(RerankRecord {
            reranker,
            depth,
            weight,
            measured_on,
            ..
        }) = &self.reranking
        {
            let RerankMeasured {
                data,
                split,
                questions,
                before,
                after,
                p,
            } = measured_on;
            writeln!(
                f,
                "reranking     by {reranker}, {depth} hits, weight {weight}: nDCG@10 {before:.4} to {after:.4} (p = {p:.3}) on {questions} questions of \
                 {data} ({split})"
            )?;
        }
        if let Some(change) = &self.change {
            writeln!(f, "made by       {}: {}", change.operation, change.counts())?;
        }
        if let Some(MinRecall { recall, ef }) = self.min_recall {
            writeln!(f, "keeps         recall@10 of {recall} at ef {ef} in every shard")?;
        }
        writeln!(f, "documents     {} in {}", self.documents, Shards(self.shards.len()))?;
        self.debt.fmt(f)?;
        writeln!(
            f,
            "memory        {} of vectors and graphs are mapped, of which {} are read by every question; {} of text",
            ByteSize(self.dense_bytes),
            ByteSize(self.hot_bytes),
            ByteSize(self.text_bytes)
        )?;
        self.shards.iter().try_for_each(|shard| shard.fmt(f))
    }
}

impl fmt::Display for Debt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            deleted,
            deleted_share,
            shards_to_merge,
            deleted_bytes,
            other_generations_bytes,
            unnamed_bytes,
        } = self;
        writeln!(
            f,
            "debt          {deleted} deleted documents ({:.1} %, {}); {} to `merge`; `gc` can free {} of other generations and \
             {}",
            deleted_share * 100.0,
            ByteSize(*deleted_bytes),
            Shards(*shards_to_merge),
            ByteSize(*other_generations_bytes),
            match unnamed_bytes {
                Some(bytes) => format!("{} of none", ByteSize(*bytes)),
                None => "no others, as a manifest cannot be read: see `verify`".to_owned(),
            }
        )
    }
}

impl fmt::Display for ShardReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { build, certificate, .. } = self;
        writeln!(f, "\nshard {}", self.id)?;
        writeln!(
            f,
            "  documents   {}, of which {} are deleted",
            self.documents, self.deleted
        )?;
        writeln!(
            f,
            "  build       {} m={} ef_construction={} seed={} threads={}, {}",
            build.builder, build.m, build.ef_construction, build.seed, build.threads, build.tool
        )?;
        writeln!(f, "  vectors     {}", self.vectors)?;
        for (number, layer) in self.layers.iter().enumerate() {
            let mean = layer.links as f64 / layer.nodes.max(1) as f64;
            writeln!(
                f,
                "  layer {number}     {} nodes, {} links, {mean:.1} per node",
                layer.nodes, layer.links
            )?;
        }
        for section in &self.sections {
            writeln!(
                f,
                "  {:<11} {} at {}",
                section.name,
                ByteSize(section.bytes),
                section.offset
            )?;
        }
        let terms = match self.analyzer {
            None => "which cannot be read: see `verify`".to_owned(),
            Some(analyzer) if is_current(analyzer) => format!("terms by {analyzer}"),
            Some(earlier) => {
                let current = TextLanguage::English.analyzer();
                format!("terms by {earlier}; `merge --all --rebuild` makes them by {current}")
            }
        };
        writeln!(f, "  text        {}, {terms}", ByteSize(self.text_bytes))?;
        writeln!(
            f,
            "  reachable   {} of {}; {} were not before the repair, which added {} links",
            self.documents - certificate.unreachable.min(self.documents),
            self.documents,
            certificate.unreachable_before_repair,
            certificate.links_added
        )?;
        match certificate.source {
            QuerySource::Documents => writeln!(
                f,
                "  certificate {} of its documents searched for, each left out of its own hits",
                certificate.queries
            )?,
            QuerySource::HeldOut => writeln!(f, "  certificate {} held-out questions", certificate.queries)?,
        }
        let live = self.documents - self.deleted;
        let since = certificate.vectors.saturating_sub(live);
        if since > 0 {
            writeln!(
                f,
                "  measured    among {} documents, {} of the shard's being deleted then; {since} were deleted since, which may have \
                 lowered recall by up to {:.4}",
                certificate.vectors,
                self.documents.saturating_sub(certificate.vectors),
                certificate.lost_since
            )?;
        }
        CertificateTables(certificate).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_that_follow_each_other_are_told_as_ranges() {
        let told = [&[][..], &[4], &[1, 2], &[1, 2, 3], &[1, 3, 4, 5, 6, 9, 10]].map(ranges);
        assert_eq!(told, ["", "4", "1, 2", "1 to 3", "1, 3 to 6, 9, 10"]);
    }

    #[test]
    fn moments_are_dates() {
        // for s in 0 951782400 951868799 1709251199 4102444800; do date -u -d @$s +%FT%TZ; done
        let written: Vec<String> = [0, 951_782_400, 951_868_799, 1_709_251_199, 4_102_444_800]
            .map(moment)
            .into();
        let expected = [
            "1970-01-01T00:00:00Z",
            "2000-02-29T00:00:00Z",
            "2000-02-29T23:59:59Z",
            "2024-02-29T23:59:59Z",
            "2100-01-01T00:00:00Z",
        ];
        assert_eq!(written, expected);
    }
}
