//! Constructed corpora of several languages, with known answers: other forms of a word find it, and scores equal the
//! formula.

use std::collections::BTreeMap;

use super::*;
use crate::deletions::DeletedTerms;

/// Texts of a language, and questions that are to find the text of a number first.
struct LanguageCase {
    language: TextLanguage,
    texts: &'static [&'static str],
    questions: &'static [(&'static str, usize)],
    /// A question of stop words alone.
    empty: &'static str,
}

const CASES: [LanguageCase; 12] = [
    LanguageCase {
        language: TextLanguage::German,
        texts: &[
            "Die alten Häuser am Fluss",
            "Ein Kind liest für seine Großmutter",
            "Bahnhöfe der großen Städte",
            "北京是中国的首都",
        ],
        questions: &[
            ("Haus", 0),
            ("häuser", 0),
            ("HÄUSERN", 0),
            ("Kinder", 1),
            ("grossmutter", 1),
            ("Bahnhof", 2),
            ("Stadt", 2),
            ("首都", 3),
        ],
        empty: "für die und der",
    },
    LanguageCase {
        language: TextLanguage::French,
        texts: &[
            "Les chevaux mangeaient de l'herbe",
            "L'étude des nations européennes",
            "Une maison à Besançon",
        ],
        questions: &[
            ("cheval", 0),
            ("manger", 0),
            ("études", 1),
            ("nation", 1),
            ("maisons", 2),
            ("besancon", 2),
        ],
        empty: "les des une à",
    },
    LanguageCase {
        language: TextLanguage::Spanish,
        texts: &[
            "Las canciones populares de la región",
            "El niño corría por la calle",
            "Historia del imperio",
        ],
        questions: &[
            ("canción", 0),
            ("regiones", 0),
            ("niños", 1),
            ("calles", 1),
            ("historias", 2),
        ],
        empty: "las del por la",
    },
    LanguageCase {
        language: TextLanguage::Russian,
        texts: &[
            "Москва является столицей России",
            "Новые книги о природе",
            "Железные дороги страны",
        ],
        questions: &[
            ("столица", 0),
            ("россия", 0),
            ("книга", 1),
            ("природа", 1),
            ("железная дорога", 2),
        ],
        empty: "и не на о",
    },
    LanguageCase {
        language: TextLanguage::Turkish,
        texts: &["Kitaplar masanın üstünde", "IŞIK ve gölge", "İstanbul'un eski evleri"],
        questions: &[("kitap", 0), ("ışık", 1), ("istanbul", 2), ("ev", 2)],
        empty: "?",
    },
    LanguageCase {
        language: TextLanguage::Finnish,
        texts: &[
            "Vanhat talot järven rannalla",
            "Lapsi lukee kirjaa",
            "Helsinki on Suomen pääkaupunki",
        ],
        questions: &[
            ("talossa", 0),
            ("järvi järvessä", 0),
            ("kirjat", 1),
            ("pääkaupungissa pääkaupunki", 2),
        ],
        empty: "on ja",
    },
    LanguageCase {
        language: TextLanguage::Greek,
        texts: &[
            "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας",
            "Τα βιβλία της βιβλιοθήκης",
            "Ο δρόμος προς το βουνό",
        ],
        questions: &[("πρωτεύουσες", 0), ("βιβλιοθήκες", 1), ("δρόμοι", 2)],
        empty: "?",
    },
    LanguageCase {
        language: TextLanguage::Arabic,
        texts: &["القاهرة عاصمة مصر", "كتب المكتبة الجديدة", "الطريق إلى الجبل"],
        questions: &[("العاصمة", 0), ("مكتبة", 1), ("جبل", 2), ("الطَّرِيق", 2)],
        empty: "?",
    },
    LanguageCase {
        language: TextLanguage::Cjk,
        texts: &[
            "北京是中国的首都。",
            "東京タワーは日本の観光名所です",
            "서울은 대한민국의 수도이다",
            "The ＣＰＵ of 電腦",
        ],
        questions: &[
            ("首都", 0),
            ("中国", 0),
            ("東京", 1),
            ("ﾀﾜｰ", 1),
            ("観光", 1),
            ("수도", 2),
            ("대한민국", 2),
            ("cpu", 3),
            ("电脑 電腦", 3),
        ],
        empty: "the of",
    },
    LanguageCase {
        language: TextLanguage::Any,
        texts: &[
            "The Café of the houses",
            "Die Häuser am Fluss",
            "北京是中国的首都",
            "столицы мира",
        ],
        questions: &[("cafe", 0), ("of", 0), ("hauser", 1), ("首都", 2), ("столицы", 3)],
        empty: "?",
    },
    LanguageCase {
        language: TextLanguage::Swedish,
        texts: &[
            "De gamla husen vid sjön",
            "Barnen läser böcker",
            "Stockholm är huvudstaden",
        ],
        questions: &[("hus", 0), ("gammal gamla", 0), ("barn", 1), ("STOCKHOLM", 2)],
        empty: "och det att",
    },
    LanguageCase {
        language: TextLanguage::English,
        texts: &[
            "The old houses by the river",
            "Children were reading",
            "Stations of large cities",
        ],
        questions: &[("house", 0), ("read", 1), ("city station", 2)],
        empty: "the and of",
    },
];

/// Text `i` is in shard `i % count`.
fn shards_of(case: &LanguageCase, count: usize) -> (tempfile::TempDir, Vec<TextShard>) {
    let dir = tempfile::tempdir().unwrap();
    let path = |shard: usize| dir.path().join(shard.to_string());
    let mut writers: Vec<_> = (0..count)
        .map(|shard| TextWriter::create(&path(shard), case.language).unwrap())
        .collect();
    for (number, text) in case.texts.iter().enumerate() {
        let key = number.to_string();
        writers[number % count]
            .add(TextDocument {
                key: &key,
                title: "",
                text,
                metadata_json: "",
            })
            .unwrap();
    }
    for writer in writers {
        writer.finish().unwrap();
    }
    let shards = (0..count).map(|shard| TextShard::open(&path(shard)).unwrap()).collect();
    (dir, shards)
}

/// Hits by number of the text.
fn found(case: &LanguageCase, shards: &[TextShard], question: &str) -> BTreeMap<usize, f32> {
    let question = AnalyzedQuestion::new(case.language, question);
    let weighed = question.weigh(&CorpusStatistics::new(shards), &Never).unwrap().unwrap();
    let mut all = BTreeMap::new();
    for (number, shard) in shards.iter().enumerate() {
        let best = weighed.best(shard, 10, &|_| "", None, &Never).unwrap().hits;
        all.extend(
            best.iter()
                .map(|hit| (hit.node as usize * shards.len() + number, hit.score)),
        );
    }
    all
}

/// The formula of `bm25.rs` over whole texts.
fn by_formula(case: &LanguageCase, question: &str) -> BTreeMap<usize, f32> {
    let documents: Vec<Vec<String>> = case.texts.iter().map(|text| terms(case.language, text)).collect();
    let count = documents.len() as f32;
    let average = documents.iter().map(Vec::len).sum::<usize>() as f32 / count;
    let mut scores = BTreeMap::new();
    for term in terms(case.language, question) {
        let frequency = documents.iter().filter(|document| document.contains(&term)).count() as f32;
        let inverse = (1.0 + (count - frequency + 0.5) / (frequency + 0.5)).ln();
        for (number, document) in documents.iter().enumerate() {
            let times = document.iter().filter(|word| **word == term).count() as f32;
            if times > 0.0 {
                let length = 1.0 - 0.75 + 0.75 * document.len() as f32 / average;
                *scores.entry(number).or_insert(0.0) += inverse * times * 2.2 / (times + 1.2 * length);
            }
        }
    }
    scores
}

#[test]
fn other_forms_of_a_word_find_it_and_scores_are_those_of_the_formula() {
    for case in &CASES {
        for count in [1, 3] {
            let (_dir, shards) = shards_of(case, count);
            for (question, expected) in case.questions {
                let got = found(case, &shards, question);
                let best = got.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(number, _)| *number);
                assert_eq!(best, Some(*expected), "{}: {question}", case.language);
                let formula = by_formula(case, question);
                assert!(got.keys().eq(formula.keys()), "{}: {question}", case.language);
                for (got, expected) in got.values().zip(formula.values()) {
                    assert!(
                        (got - expected).abs() < 1e-5,
                        "{}: {question}: {got}, {expected}",
                        case.language
                    );
                }
            }
            assert!(
                found(case, &shards, case.empty).is_empty(),
                "{}: {}",
                case.language,
                case.empty
            );
        }
    }
}

#[test]
fn an_index_of_another_language_does_not_find_them() {
    let (_dir, shards) = shards_of(&CASES[0], 1);
    let english = LanguageCase {
        texts: CASES[0].texts,
        questions: &[],
        language: TextLanguage::English,
        empty: "",
    };
    let (_english_dir, english_shards) = shards_of(&english, 1);
    assert!(
        found(&english, &english_shards, "Haus").is_empty(),
        "why there are languages"
    );
    assert_eq!(shards[0].language(), TextLanguage::German);
    assert_eq!(
        (shards[0].analyzer(), english_shards[0].analyzer()),
        ("dyad_de_1", "dyad_en_2")
    );
}

#[test]
fn terms_of_deleted_documents_are_those_of_their_language() {
    for case in &CASES {
        let (_dir, shards) = shards_of(case, 1);
        let nodes: Vec<u32> = (0..case.texts.len() as u32).step_by(2).collect();
        let deleted = shards[0]
            .terms_of(&nodes, &DeletedTerms::default(), &Never)
            .unwrap()
            .unwrap();
        let all = nodes
            .iter()
            .flat_map(|node| terms(case.language, case.texts[*node as usize]));
        let all: Vec<String> = all.collect();
        assert_eq!(deleted.tokens(), all.len() as u64, "{}", case.language);
        assert!(
            all.iter().all(|term| deleted.documents(term.as_bytes()) > 0),
            "{}",
            case.language
        );
    }
}

#[test]
fn snippets_highlight_other_forms_of_a_word() {
    for (case, question, highlighted) in [
        (&CASES[0], "Haus Flüsse", vec!["Häuser", "Fluss"]),
        (&CASES[8], "中国首都", vec!["中国", "首都"]),
    ] {
        let (_dir, shards) = shards_of(case, 1);
        let question = AnalyzedQuestion::new(case.language, question);
        let weighed = question
            .weigh(&CorpusStatistics::new(&shards), &Never)
            .unwrap()
            .unwrap();
        let snippet = Snippets::new(&weighed, 200).extract(case.texts[0]);
        let got: Vec<&str> = snippet
            .highlights
            .iter()
            .map(|range| &snippet.text[range.clone()])
            .collect();
        assert_eq!(got, highlighted, "{}", case.language);
    }
}
