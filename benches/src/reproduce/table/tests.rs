//! Tests of tables.

use super::*;

const TEXT: &str = "name = \"t\"\ntitle = \"T\"\nbaseline = \"a\"\n\
    [[evaluation]]\nname = \"e\"\ndata = \"$DATA/e\"\n\
    [[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nagainst = \"a\"\n";

fn read(text: &str) -> BenchResult<ReproduceTable> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.toml");
    fs_err::write(&path, text).unwrap();
    ReproduceTable::read(&path)
}

#[test]
fn tables_are_read_and_mistakes_are_named() {
    let table = read(TEXT).unwrap();
    assert_eq!(
        (
            table.baseline_of(&table.variants[0]),
            table.baseline_of(&table.variants[1])
        ),
        (None, Some("a"))
    );
    assert_eq!(
        (table.evaluations[0].split.as_str(), table.evaluations[0].similarity),
        ("test", Similarity::Cosine)
    );
    for (from, to, expected) in [
        ("name = \"b\"", "name = \"a\"", "got `a` twice"),
        (
            "against = \"a\"",
            "against = \"c\"",
            "expected names of variants, got `c`",
        ),
        ("title", "titel", "unknown field `titel`"),
        ("name = \"e\"", "name = \"e/f\"", "`evaluation.name`: expected letters"),
    ] {
        let message = read(&TEXT.replace(from, to)).unwrap_err().to_string();
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

/// A student that learns from the scores of a teacher, which learns from what another model mines.
const CHAIN: &str = "name = \"t\"\ntitle = \"T\"\nbaseline = \"a\"\n\
    [[evaluation]]\nname = \"e\"\ndata = \"$DATA/e\"\n\
    [[examples]]\nname = \"m\"\nof = \"$DATA/x\"\nby = \"a\"\nmine = { count = 3 }\n\
    [[examples]]\nname = \"s\"\nof = \"$EXAMPLES/m\"\nby = \"c\"\n\
    [[variant]]\nname = \"a\"\n\
    [[variant]]\nname = \"c\"\ntrain = { data = { paths = [\"$EXAMPLES/m\"] } }\n\
    [[variant]]\nname = \"d\"\ntrain = { data = { paths = [\"$EXAMPLES/s\"] }, model = { path = \"$VARIANTS/a\" } }\n\
    rerank = { by = \"c\", depth = 20 }\n";

#[test]
fn what_variants_need_of_others_is_known_and_comes_from_earlier_ones() {
    let table = read(CHAIN).unwrap();
    let names = |name: &str| {
        table
            .made_from(name)
            .iter()
            .map(|made| made.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (names("s"), names("m")),
        (vec!["m".to_owned(), "s".to_owned()], vec!["m".to_owned()])
    );
    let needed = [
        TableReference::Examples("s"),
        TableReference::Variant("a"),
        TableReference::Variant("c"),
    ];
    let found = table.variants[2].references(&table);
    assert!(
        found.len() == 3 && needed.iter().all(|needed| found.contains(needed)),
        "{found:?}"
    );
    for (from, to, expected) in [
        (
            "by = \"a\"",
            "by = \"x\"",
            "`examples.by`: expected the name of a trained variant, got `x`",
        ),
        (
            "of = \"$EXAMPLES/m\"",
            "of = \"$EXAMPLES/s\"",
            "expected $EXAMPLES/NAME of earlier examples",
        ),
        (
            "$VARIANTS/a",
            "$VARIANTS/d",
            "variant `d`: expected what earlier trained variants make, got $VARIANTS/d",
        ),
        (
            "paths = [\"$EXAMPLES/m\"]",
            "paths = [\"$EXAMPLES/s\"]",
            "got $EXAMPLES/s, which a later variant makes",
        ),
        (
            "paths = [\"$EXAMPLES/m\"]",
            "paths = [\"$EXAMPLES/n\"]",
            "variant `c`: expected what earlier trained variants make, got $EXAMPLES/n",
        ),
        ("depth = 20", "depth = 200", "`rerank.depth`: expected 1 to 100"),
    ] {
        let message = read(&CHAIN.replace(from, to)).unwrap_err().to_string();
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

#[test]
fn a_part_is_between_0_and_1() {
    let part = |from: &str, to: &str| {
        read(&format!(
            "{TEXT}[[part]]\nname = \"p\"\nof = \"$DATA/x\"\nfrom = {from}\nto = {to}\n"
        ))
    };
    assert_eq!(part("0.25", "1.0").unwrap().parts.len(), 1);
    for (from, to) in [("0.5", "0.5"), ("-0.1", "0.5"), ("0.5", "1.1"), ("nan", "1.0")] {
        let message = part(from, to).unwrap_err().to_string();
        assert!(message.contains("part `p`: expected 0 <= from < to <= 1"), "{message}");
    }
}

#[test]
fn places_are_filled_in_everywhere() {
    let places = TablePlaces {
        data: "/d".into(),
        model: "/m".into(),
        out: "/o".into(),
    };
    let mut value: toml::Value =
        "a = \"$DATA/x\"\nb = [\"$MODEL\", 1]\n[c]\nd = \"e\"\nf = \"$VARIANTS/v\"\ng = \"$EXAMPLES/x\"\n"
            .parse::<toml::Table>()
            .unwrap()
            .into();
    places.fill_all(&mut value, 3);
    let expected: toml::Value = "a = \"/d/x\"\nb = [\"/m\", 1]\n[c]\nd = \"e\"\nf = \"/o/v-seed3/run/final\"\n\
                                 g = \"/o/examples-seed3/x.jsonl\"\n"
        .parse::<toml::Table>()
        .unwrap()
        .into();
    assert_eq!(value, expected);
}
