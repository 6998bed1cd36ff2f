//! Mining from a published index: a searcher gives what exact search over its documents gives, or is refused.

use std::path::Path;

use dyad_corpus::examples::{ExampleOptions, ExampleReader, Passage, TrainingExample};
use dyad_encoder::data::{DataError, MineOptions, MinedFile, MiningEncoder, NegativeCandidates, mine_file};
use dyad_encoder::tokenize::Budget;
use dyad_encoder::{Model, Tower};
use dyad_proto::client::Credentials;
use dyad_proto::service::{self, Health, ServerConfig};
use dyad_proto::v1;
use dyad_proto::v1::searcher_server::{Searcher, SearcherServer};
use futures_util::stream;
use tokio::sync::oneshot;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use crate::fixture::{embed, open, tiny};

/// Exact search over some documents, whose keys are their numbers.
struct Served {
    fingerprint: String,
    documents: Vec<String>,
    vectors: Vec<Vec<f32>>,
    /// The questions that it knows, with their vectors.
    questions: Vec<(String, Vec<f32>)>,
}

impl Served {
    fn new(encoder: &Model, questions: &[String], documents: &[String]) -> Self {
        let vectors = embed(encoder, Tower::Question, questions);
        Self {
            fingerprint: encoder.info().fingerprint.clone(),
            documents: documents.to_vec(),
            vectors: embed(encoder, Tower::Answer, documents),
            questions: questions.iter().cloned().zip(vectors).collect(),
        }
    }

    fn answer(&self, request: &v1::SearchRequest) -> v1::SearchResponse {
        assert!(request.mode() == v1::Mode::Dense && !request.keys_only);
        let (_, asked) = self.questions.iter().find(|(text, _)| *text == request.query).unwrap();
        let score = |document: &Vec<f32>| document.iter().zip(asked).map(|(a, b)| a * b).sum::<f32>();
        let mut ranked: Vec<(f32, usize)> = self
            .vectors
            .iter()
            .enumerate()
            .map(|(number, document)| (score(document), number))
            .collect();
        ranked.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        ranked.truncate(request.k as usize);
        let hits = ranked.into_iter().zip(1..).map(|((score, number), rank)| {
            let (key, text) = (number.to_string(), self.documents[number].clone());
            let document = Some(v1::Document {
                key: key.clone(),
                text,
                ..v1::Document::default()
            });
            v1::Hit {
                rank,
                key,
                score,
                document,
                ..v1::Hit::default()
            }
        });
        v1::SearchResponse {
            hits: hits.collect(),
            fingerprint: self.fingerprint.clone(),
            ..v1::SearchResponse::default()
        }
    }
}

#[tonic::async_trait]
impl Searcher for Served {
    type SearchStreamStream = stream::Empty<Result<v1::SearchStreamResponse, Status>>;

    async fn search_batch(
        &self,
        request: Request<v1::SearchBatchRequest>,
    ) -> Result<Response<v1::SearchBatchResponse>, Status> {
        let responses = request
            .get_ref()
            .requests
            .iter()
            .map(|request| self.answer(request))
            .collect();
        Ok(Response::new(v1::SearchBatchResponse { responses }))
    }

    async fn search(&self, _: Request<v1::SearchRequest>) -> Result<Response<v1::SearchResponse>, Status> {
        Err(Status::unimplemented("search"))
    }

    async fn search_stream(
        &self,
        _: Request<Streaming<v1::SearchRequest>>,
    ) -> Result<Response<Self::SearchStreamStream>, Status> {
        Err(Status::unimplemented("search_stream"))
    }

    async fn get_documents(
        &self,
        _: Request<v1::GetDocumentsRequest>,
    ) -> Result<Response<v1::GetDocumentsResponse>, Status> {
        Err(Status::unimplemented("get_documents"))
    }

    async fn sample_documents(
        &self,
        _: Request<v1::SampleDocumentsRequest>,
    ) -> Result<Response<v1::SampleDocumentsResponse>, Status> {
        Err(Status::unimplemented("sample_documents"))
    }

    async fn scroll_documents(
        &self,
        _: Request<v1::ScrollDocumentsRequest>,
    ) -> Result<Response<v1::ScrollDocumentsResponse>, Status> {
        Err(Status::unimplemented("scroll"))
    }

    async fn count_documents(
        &self,
        _: Request<v1::CountDocumentsRequest>,
    ) -> Result<Response<v1::CountDocumentsResponse>, Status> {
        Err(Status::unimplemented("count"))
    }

    async fn list_fields(&self, _: Request<v1::ListFieldsRequest>) -> Result<Response<v1::ListFieldsResponse>, Status> {
        Err(Status::unimplemented("fields"))
    }

    async fn explain(&self, _: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        Err(Status::unimplemented("explain"))
    }
}

/// 40 questions with an answer each; every fourth answer is that of the question before.
fn examples() -> Vec<TrainingExample> {
    let answer = |number: usize| format!("the answer is {} of the king {number}", "water ".repeat(number % 5));
    let one = |number: usize| TrainingExample {
        question: format!("what is number {number}"),
        positives: vec![Passage::from_text(answer(number - usize::from(number % 4 == 3)))],
        ..TrainingExample::default()
    };
    (0..40).map(one).collect()
}

fn mine(
    encoder: &Model,
    data: &Path,
    candidates: NegativeCandidates<'_>,
    options: &MineOptions,
    out: &Path,
) -> Result<MinedFile, DataError> {
    let read = || Ok(vec![ExampleReader::open(data, &ExampleOptions::default())?]);
    let encoder = MiningEncoder {
        model: encoder,
        budget: Budget::CPU,
        titles: true,
        context: None,
    };
    mine_file(encoder, &read, candidates, options, out, &dyad_files::Never)
}

fn read(path: &Path) -> Vec<TrainingExample> {
    ExampleReader::open(path, &ExampleOptions::default())
        .unwrap()
        .map(|example| example.unwrap())
        .collect()
}

/// Serves until the test is over, and gives the URL.
async fn serve(served: Served) -> (String, oneshot::Sender<()>) {
    let listener = service::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let health = Health::new().serving::<SearcherServer<Served>>().await;
    let routes = Routes::new(service::searcher(served));
    let shutdown = async { drop(stopped.await) };
    tokio::spawn(service::serve(
        listener,
        routes,
        health,
        shutdown,
        ServerConfig::default(),
    ));
    (url, stop)
}

fn assert_same_negatives(one: &TrainingExample, other: &TrainingExample) {
    let negatives = |example: &TrainingExample| -> Vec<String> {
        example.negatives.iter().map(|negative| negative.text.clone()).collect()
    };
    assert_eq!((&one.question, negatives(one)), (&other.question, negatives(other)));
    assert!(!negatives(one).contains(&one.positives[0].text));
    for (a, b) in one.negatives.iter().zip(&other.negatives) {
        assert!((a.score.unwrap() - b.score.unwrap()).abs() < 1e-5 && a.key == b.key);
    }
}

/// The pairs have no ids; Tevatron's tools join by them.
fn assert_keys_join(examples: Vec<TrainingExample>) {
    let ids: Vec<_> = examples.iter().map(|example| example.key.clone().unwrap()).collect();
    assert_eq!(ids, (1..=40).map(|number| format!("q{number}")).collect::<Vec<_>>());
    let positives: Vec<_> = examples
        .into_iter()
        .map(|mut example| example.positives.remove(0))
        .collect();
    for (a, b) in positives.iter().zip(&positives[1..]) {
        assert!(!a.key.as_ref().unwrap().is_empty() && (a.key == b.key) == (a.text == b.text));
    }
}

/// Writes the questions of the examples with their answers.
fn write_pairs(path: &Path) {
    let line = |example: &TrainingExample| {
        let (question, answer) = (&example.question, &example.positives[0].text);
        format!("{}\n", serde_json::json!({"question": question, "answer": answer}))
    };
    fs_err::write(path, examples().iter().map(line).collect::<String>()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_searcher_gives_the_negatives_of_exact_search() {
    let root = tempfile::tempdir().unwrap();
    let (data, corpus) = (root.path().join("pairs.jsonl"), root.path().join("corpus.jsonl"));
    write_pairs(&data);
    let mut documents: Vec<String> = examples()
        .iter()
        .map(|example| example.positives[0].text.clone())
        .collect();
    documents.extend((0..30).map(|number| format!("nothing but {number} of the mountain")));
    documents.sort();
    documents.dedup();
    let lines = documents.iter().enumerate().map(|(key, text)| {
        format!(
            "{}\n",
            serde_json::json!({"_id": key.to_string(), "title": "", "text": text})
        )
    });
    fs_err::write(&corpus, lines.collect::<String>()).unwrap();

    let questions: Vec<String> = examples().into_iter().map(|example| example.question).collect();
    let (url, stop) = serve(Served::new(&open(&tiny("plain")), &questions, &documents)).await;
    let other = Served {
        fingerprint: "0".repeat(64),
        ..Served::new(&open(&tiny("plain")), &questions, &documents)
    };
    let (other, stop_other) = serve(other).await;

    tokio::task::spawn_blocking(move || {
        let encoder = open(&tiny("plain"));
        for (number, options) in [
            MineOptions {
                rank_end: 50,
                ..MineOptions::default()
            },
            MineOptions {
                rank_start: 1,
                rank_end: 6,
                count: 5,
                margin: None,
                sample: false,
                ..MineOptions::default()
            },
        ]
        .iter()
        .enumerate()
        {
            let [exact, asked] = ["exact", "asked"].map(|name| root.path().join(format!("{name}{number}.jsonl")));
            let by_search = mine(&encoder, &data, NegativeCandidates::Corpus(&corpus), options, &exact).unwrap();
            let by_searcher = mine(
                &encoder,
                &data,
                NegativeCandidates::Searcher(&url, &Credentials::default()),
                options,
                &asked,
            )
            .unwrap();
            assert_eq!(
                (by_search.mined, by_search.candidates),
                (by_searcher.mined, Some(documents.len()))
            );
            assert!(by_searcher.candidates.is_none() && by_searcher.mined.negatives > 0);
            for (one, other) in read(&exact).iter().zip(read(&asked)) {
                assert_same_negatives(one, &other);
            }
            assert_keys_join(read(&exact));
        }
        let out = root.path().join("out.jsonl");
        let refusal = |url: &str, options: &MineOptions| {
            let message = mine(
                &encoder,
                &data,
                NegativeCandidates::Searcher(url, &Credentials::default()),
                options,
                &out,
            )
            .unwrap_err()
            .to_string();
            assert!(!out.exists());
            message
        };
        let message = refusal(&other, &MineOptions::default());
        assert!(
            message.contains(&"0".repeat(64)) && message.contains(&encoder.info().fingerprint),
            "{message}"
        );
        let message = refusal(
            &url,
            &MineOptions {
                rank_end: 10_000,
                ..MineOptions::default()
            },
        );
        assert!(
            message.contains("at most the 9999 ranks that a searcher gives, got: 10000"),
            "{message}"
        );
        assert!(refusal("nowhere", &MineOptions::default()).contains("`nowhere` is not a server's URL"));
    })
    .await
    .unwrap();
    drop((stop, stop_other));
}
