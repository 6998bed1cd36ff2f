//! Where passages stand in their documents.

use super::*;
use crate::place::PassageSpan;

#[test]
fn a_passage_says_where_it_stands_in_every_form_that_can() {
    let span = |document: &str, start, end| {
        Some(PassageSpan {
            document: document.into(),
            start,
            end,
        })
    };
    let spans = |name: &str, text: &str| -> Vec<Option<PassageSpan>> {
        let examples = read(name, text);
        examples
            .into_iter()
            .flat_map(|example| example.positives.into_iter().chain(example.negatives))
            .map(|own| own.span)
            .collect()
    };
    let pair = "{\"question\":\"q\",\"answer\":\"a\",\"paragraph\":\"p7\",\"start\":3,\"end\":4}\n{\"question\":\"q\",\"answer\":\"a\",\"document\":\"d\"}\n{\"question\":\"q\",\"answer\":\"a\",\"document\":17,\"start\":0,\"end\":1}";
    assert_eq!(spans("p.jsonl", pair), [span("p7", 3, 4), None, span("17", 0, 1)]);
    let objects =
        "{\"query\":\"q\",\"positive\":[{\"text\":\"a\",\"document\":\"d\",\"start\":0,\"end\":1}],\"negative\":\"n\"}";
    assert_eq!(spans("o.jsonl", objects), [span("d", 0, 1), None]);
    let tevatron = to_tevatron(&read("o.jsonl", objects)[0]);
    assert_eq!(spans("t.jsonl", &tevatron), [span("d", 0, 1), None], "{tevatron}");

    let folder = tempfile::tempdir().unwrap();
    let corpus = "{\"_id\":\"d1\",\"text\":\"a\",\"metadata\":{\"document\":\"w\",\"start\":2,\"end\":3}}\n";
    for (name, text) in [
        ("corpus.jsonl", corpus),
        ("queries.jsonl", "{\"_id\":\"q1\",\"text\":\"q\"}\n"),
        ("qrels/train.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n"),
    ] {
        let path = folder.path().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    let (found, _) = read_with(folder.path(), &ExampleOptions::default()).unwrap();
    assert_eq!(found[0].positives[0].span, span("w", 2, 3));
}
