//! Whatever a file holds, it is read or refused.

use std::path::Path;

use proptest::prelude::*;

use super::super::*;
use super::{file, read_with, skipping};

/// What is read asks something and is answered; what is refused names its file.
fn is_valid(path: &Path, options: &ExampleOptions) {
    match read_with(path, options) {
        Ok((examples, _)) => {
            for example in examples {
                assert!(
                    !example.question.trim().is_empty() && !example.positives.is_empty(),
                    "{example:?}"
                );
            }
        }
        Err(refused) => {
            let name = path.file_name().unwrap().to_string_lossy();
            assert!(refused.to_string().contains(&*name), "{refused}");
        }
    }
}

proptest! {
    /// Whatever a file holds, it is read or refused.
    #[test]
    fn no_bytes_make_it_panic(content in prop::collection::vec(any::<u8>(), 0..200), name in "p\\.(jsonl|json|tsv)(\\.gz)?") {
        let (_folder, path) = file(&name, &content);
        for options in [ExampleOptions::default(), skipping()] {
            is_valid(&path, &options);
        }
    }

    /// The same for texts that look like examples.
    #[test]
    fn no_json_makes_it_panic(
        content in "([\\[{}\\]:,\"\\\\ \n]|\"question\":|\"data\":\\[|\"positive_ctxs\":|\"positive_passages\":|\"paragraphs\":|\"context\":|\"qas\":|\"a\"|7|null){0,40}",
        format in prop::sample::select(vec![
            ExampleFormat::Auto,
            ExampleFormat::Tevatron,
            ExampleFormat::Dpr,
            ExampleFormat::Pairs,
            ExampleFormat::Squad,
            ExampleFormat::Tsv,
        ]),
    ) {
        let (_folder, path) = file("p.json", content);
        for flawed in [Flawed::Refuse, Flawed::Skip] {
            is_valid(&path, &ExampleOptions { format, flawed, ..ExampleOptions::default() });
        }
    }

    /// An array's elements are those that a JSON parser finds.
    #[test]
    fn arrays_are_cut_as_a_parser_cuts_them(texts in prop::collection::vec(".{1,12}", 1..20), pretty in any::<bool>()) {
        let records: Vec<serde_json::Value> =
            texts.iter().map(|text| serde_json::json!({"query": format!("q{text}"), "pos": [text, "x"]})).collect();
        let content =
            if pretty { serde_json::to_string_pretty(&records) } else { serde_json::to_string(&records) }.unwrap();
        let (_folder, path) = file("p.json", content);
        let (found, skipped) = read_with(&path, &ExampleOptions { flawed: Flawed::Skip, ..ExampleOptions::default() })
            .unwrap_or_default();
        let expected: Vec<String> =
            texts.iter().filter(|text| !text.trim().is_empty()).map(|text| format!("q{text}")).collect();
        prop_assert_eq!(found.into_iter().map(|example| example.question).collect::<Vec<_>>(), expected);
        prop_assert_eq!(skipped.broken, 0);
    }
}
