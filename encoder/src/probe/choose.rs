//! Some questions, each with an answer, chosen by seed.

use std::collections::HashSet;

use crate::random::Random;
use dyad_corpus::examples::TrainingExample;

/// Chooses `count` pairs of a question and its first positive, all questions and all answers different, each such pair
/// of the source equally likely; fewer where there are no more (reservoir sampling, algorithm R of Vitter 1985).
pub fn choose<E>(
    examples: impl IntoIterator<Item = Result<TrainingExample, E>>,
    count: usize,
    seed: u64,
) -> Result<Vec<(String, String)>, E> {
    let mut random = Random::of(&[seed, 0x0070_726f_6265]);
    let mut chosen: Vec<(String, String)> = Vec::with_capacity(count);
    let (mut questions, mut answers) = (HashSet::new(), HashSet::new());
    let mut met = 0;
    for example in examples {
        let example = example?;
        let Some(positive) = example.positives.first() else {
            continue;
        };
        let pair = (example.question.trim().to_owned(), positive.passage().into_owned());
        if questions.contains(&pair.0) || answers.contains(&pair.1) {
            continue;
        }
        questions.insert(pair.0.clone());
        answers.insert(pair.1.clone());
        met += 1;
        if chosen.len() < count {
            chosen.push(pair);
        } else if let Some(slot) = chosen.get_mut(random.below(met)) {
            *slot = pair;
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use dyad_corpus::examples::Passage;

    use super::*;

    fn examples(count: usize) -> impl Iterator<Item = Result<TrainingExample, Infallible>> {
        (0..count).map(|number| {
            let positives = vec![
                Passage::from_text(format!("a{}", number / 2 * 2)),
                Passage::from_text("never"),
            ];
            Ok(TrainingExample {
                question: format!("q{number}"),
                positives,
                ..TrainingExample::default()
            })
        })
    }

    #[test]
    fn each_answer_is_taken_once_and_each_seed_takes_others() {
        let Ok(chosen) = choose(examples(200), 40, 1);
        assert_eq!(chosen.len(), 40);
        let answers: HashSet<&str> = chosen.iter().map(|(_, answer)| answer.as_str()).collect();
        assert_eq!(answers.len(), 40);
        assert!(chosen.iter().all(|(question, answer)| question[1..] == answer[1..]));
        assert_eq!(choose(examples(200), 40, 1), Ok(chosen.clone()));
        assert_ne!(choose(examples(200), 40, 2), Ok(chosen));
        assert_eq!(choose(examples(20), 40, 1).unwrap().len(), 10, "no more are there");
    }

    #[test]
    fn every_pair_is_equally_likely() {
        let mut counts = [0u32; 10];
        for seed in 0..4000 {
            let Ok(chosen) = choose(examples(20), 3, seed);
            for (question, _) in chosen {
                counts[question[1..].parse::<usize>().unwrap() / 2] += 1;
            }
        }
        assert!(counts.iter().all(|&count| (1080..1320).contains(&count)), "{counts:?}");
    }
}
