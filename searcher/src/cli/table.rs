//! Hits as a text table.

use std::io::{self, Write};

use dyad_proto::v1;

/// Characters of a document's text in the table.
const SNIPPET: usize = 96;
/// Characters of a key in the side-by-side table.
const KEY: usize = 24;

/// The first characters of a title and text, on one line.
fn snippet(document: Option<&v1::Document>) -> String {
    let Some(document) = document else { return String::new() };
    let separator = if document.title.is_empty() || document.text.is_empty() {
        ""
    } else {
        ": "
    };
    let line: Vec<&str> = document.title.split_whitespace().collect();
    let text: Vec<&str> = document.text.split_whitespace().collect();
    cut(&format!("{}{separator}{}", line.join(" "), text.join(" ")), SNIPPET)
}

/// At most `width` characters; a cut is marked.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn rank(placement: Option<v1::Placement>) -> String {
    placement.map_or("-".to_owned(), |place| place.rank.to_string())
}

/// Prints a reply: one ranking, or three side by side.
pub(super) fn print(out: &mut impl Write, query: &str, reply: &v1::SearchResponse) -> io::Result<()> {
    writeln!(out, "\"{query}\"")?;
    match &reply.comparison {
        Some(comparison) => print_comparison(out, comparison)?,
        None => print_ranking(out, &reply.hits, reply.reranked > 0)?,
    }
    let timings = reply.timings.unwrap_or_default();
    let ms = |us: u64| us as f64 / 1e3;
    writeln!(
        out,
        "{:.1} ms: tokenize {:.1}, embed {:.1}, dense {:.1}, bm25 {:.1}, filter {:.1}, fuse {:.1}, fetch {:.1}; ef {}, {} distances, generation {}",
        ms(timings.total_us),
        ms(timings.tokenize_us),
        ms(timings.embed_us),
        ms(timings.dense_us),
        ms(timings.bm25_us),
        ms(timings.filter_us),
        ms(timings.fuse_us),
        ms(timings.fetch_us),
        reply.ef,
        reply.distance_computations,
        reply.generation
    )?;
    if reply.reranked > 0 {
        writeln!(
            out,
            "the best {} scored again by a cross encoder, weight {}: {:.1} ms",
            reply.reranked,
            reply.rerank_weight,
            ms(timings.rerank_us)
        )?;
    }
    match reply.fusion() {
        v1::Fusion::Unspecified => {}
        v1::Fusion::Rrf => writeln!(out, "fused by reciprocal ranks, dense weight {}", reply.dense_weight)?,
        v1::Fusion::WeightedSum => writeln!(out, "fused by a weighted sum, dense weight {}", reply.dense_weight)?,
        v1::Fusion::LogOdds => writeln!(out, "fused by log odds, dense weight {}", reply.dense_weight)?,
        v1::Fusion::MinMax => writeln!(
            out,
            "fused by scores in their bounds, dense weight {}",
            reply.dense_weight
        )?,
    }
    if reply.document_weight > 0.0 {
        writeln!(
            out,
            "BM25 of passages with that of their documents, weight {}",
            reply.document_weight
        )?;
    }
    if reply.query_truncated {
        writeln!(
            out,
            "the question is longer than the model reads: its vector is of the first {} tokens",
            reply.query_tokens
        )?;
    }
    if reply.out_of_distribution_shards > 0 {
        let shards = reply.out_of_distribution_shards;
        writeln!(
            out,
            "the question is far from the documents of {shards} shards: searched by beams of one width"
        )?;
    }
    if !reply.recall_note.is_empty() {
        writeln!(out, "recall not vouched for: {}", reply.recall_note)?;
    }
    for note in &reply.notes {
        writeln!(out, "note: {note}")?;
    }
    if let Some(coverage) = reply.coverage.as_ref().filter(|coverage| coverage.damaged_shards > 0) {
        let v1::Coverage {
            documents,
            shards,
            damaged_shards,
            intact_documents,
            missing_shards: _,
        } = coverage;
        writeln!(
            out,
            "{damaged_shards} of {shards} shards damaged; {intact_documents} of {documents} documents in the others"
        )?;
    }
    if reply.degraded {
        writeln!(out, "degraded: {}", reply.degraded_reason)?;
    }
    Ok(())
}

/// A hit's snippet with its highlights in brackets, or the beginning of its document, on one line.
fn text_of(hit: &v1::Hit) -> String {
    let Some(v1::Snippet { text, highlights }) = &hit.snippet else {
        return snippet(hit.document.as_ref());
    };
    let (mut marked, mut from) = (String::new(), 0);
    for v1::Highlight { start, end } in highlights {
        let (start, end) = (*start as usize, *end as usize);
        // Ranges of another server may be anything.
        let (Some(plain), Some(word)) = (text.get(from..start), text.get(start..end)) else {
            break;
        };
        marked.extend([plain, "[", word, "]"]);
        from = end;
    }
    marked.push_str(text.get(from..).unwrap_or_default());
    marked.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A passage in its document, on one line: what stands before it, the passage in brackets, and what stands after it.
fn in_document(around: &v1::Surrounding, document: Option<&v1::Document>) -> String {
    let v1::Surrounding {
        before,
        after,
        end,
        document_bytes,
        start,
    } = around;
    let passage = document.map_or("passage", |document| document.text.as_str());
    let (dots_before, dots_after) = (
        before.len() < *start as usize,
        after.len() < document_bytes.saturating_sub(*end) as usize,
    );
    let dots = |are: bool| if are { "..." } else { "" };
    let shown = format!(
        "{} {before} [{passage}] {after} {}",
        dots(dots_before),
        dots(dots_after)
    );
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn print_ranking(out: &mut impl Write, hits: &[v1::Hit], reranked: bool) -> io::Result<()> {
    if hits.is_empty() {
        return writeln!(out, "  no hits");
    }
    let all = || {
        hits.iter().chain(
            hits.iter()
                .filter_map(|hit| hit.group.as_ref())
                .flat_map(|group| &group.hits),
        )
    };
    let width = all()
        .map(|hit| hit.key.chars().count())
        .max()
        .unwrap_or(0)
        .clamp(3, KEY);
    let again = |text: &str| {
        if reranked {
            format!("{text:>8}  ")
        } else {
            String::new()
        }
    };
    let (rerank, names) = (again("rerank"), ["rank", "score", "dense", "bm25", "key"]);
    writeln!(
        out,
        "  {:>4}  {rerank}{:>8}  {:>5}  {:>5}  {:<width$}  document",
        names[0], names[1], names[2], names[3], names[4]
    )?;
    for hit in hits {
        let (dense, bm25) = (rank(hit.dense), rank(hit.bm25));
        let (key, text) = (cut(&hit.key, width), text_of(hit));
        let rerank = again(&hit.rerank.map_or("-".to_owned(), |place| format!("{:.4}", place.score)));
        writeln!(
            out,
            "  {:>4}  {rerank}{:>8.4}  {dense:>5}  {bm25:>5}  {key:<width$}  {text}",
            hit.rank, hit.score
        )?;
        if let Some(around) = &hit.surrounding {
            writeln!(out, "  {:>4}  {}", "", in_document(around, hit.document.as_ref()))?;
        }
        for other in hit.group.iter().flat_map(|group| &group.hits) {
            let (dense, bm25) = (rank(other.dense), rank(other.bm25));
            let (key, text) = (cut(&other.key, width), text_of(other));
            writeln!(
                out,
                "  {:>4}  {:>8.4}  {dense:>5}  {bm25:>5}  {key:<width$}  {text}",
                "", other.score
            )?;
        }
    }
    Ok(())
}

fn print_comparison(out: &mut impl Write, all: &v1::Comparison) -> io::Result<()> {
    let lists = [("dense", &all.dense), ("bm25", &all.bm25), ("hybrid", &all.hybrid)];
    let keys = lists
        .iter()
        .flat_map(|(_, hits)| hits.iter())
        .map(|hit| hit.key.chars().count());
    let width = keys.max().unwrap_or(0).clamp(3, KEY);
    write!(out, "  rank")?;
    for (name, _) in lists {
        write!(out, "  | {:<width$}  {:>8}", name, "score")?;
    }
    writeln!(out)?;
    for row in 0..lists.iter().map(|(_, hits)| hits.len()).max().unwrap_or(0) {
        write!(out, "  {:>4}", row + 1)?;
        for (_, hits) in lists {
            match hits.get(row) {
                Some(hit) => write!(out, "  | {:<width$}  {:>8.4}", cut(&hit.key, width), hit.score)?,
                None => write!(out, "  | {:<width$}  {:>8}", "", "")?,
            }
        }
        writeln!(out)?;
    }
    for (name, hits) in lists {
        if let Some(best) = hits.first() {
            writeln!(out, "  {name:<6} {}", snippet(best.document.as_ref()))?;
        }
    }
    let k = lists.iter().map(|(_, hits)| hits.len()).max().unwrap_or(0);
    writeln!(
        out,
        "  overlap@{k}: dense/bm25 {:.2}, dense/hybrid {:.2}, bm25/hybrid {:.2}",
        all.overlap_dense_bm25, all.overlap_dense_hybrid, all.overlap_bm25_hybrid
    )
}
