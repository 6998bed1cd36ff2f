//! The logit scale of a model behind encoder services.

use dyad_corpus::logit_scale::{documents, estimate, questions};
use dyad_index::ModelRecord;
use dyad_proto::client::{ClientConfig, ClientError};
use dyad_proto::{v1, vector};
use tonic::Code;

use super::call::{CalledService, contract, encode};

/// Has both towers embed the pairs that come with the program, in batches as those of documents are, and keeps as many
/// values as `model` says.
pub(super) async fn measure(
    services: &[CalledService],
    client: &ClientConfig,
    batch_texts: usize,
    model: &ModelRecord,
) -> Result<Option<f64>, ClientError> {
    let embed = async |tower: v1::Tower, texts: Vec<String>| {
        let (own, mut rows) = (model.own_dim(), Vec::with_capacity(texts.len() * model.dim));
        for texts in texts.chunks(batch_texts) {
            let request = v1::EncodeRequest {
                tower: tower.into(),
                texts: texts.to_vec(),
                ..Default::default()
            };
            let (client, fingerprint) = (client.clone(), model.fingerprint.clone());
            let (url, reply) = encode(services.to_vec(), request, client, fingerprint).await?;
            if (&reply.fingerprint, reply.dim as usize) != (&model.fingerprint, own) {
                let (expected, got) = (&model.fingerprint, &reply.fingerprint);
                return Err(contract(
                    url,
                    format!("expected vectors of the model {expected}, got those of {got}"),
                ));
            }
            let unpacked = vector::unpack(&reply.vectors, texts.len(), own, "vectors");
            let unpacked = unpacked.map_err(|error| contract(url.clone(), error.to_string()))?;
            for row in unpacked.chunks_exact(own.max(1)) {
                let mut row = row.to_vec();
                model
                    .cut(&mut row)
                    .map_err(|error| contract(url.clone(), error.to_string()))?;
                rows.extend(row);
            }
        }
        Ok(rows)
    };
    let questions = embed(v1::Tower::Question, questions()).await?;
    let documents = embed(v1::Tower::Answer, documents()).await?;
    Ok(estimate(&questions, &documents, model.dim))
}

/// Whether a service says that it cannot embed these texts, now or later.
pub(super) fn is_lasting(error: &ClientError) -> bool {
    let lasting = [Code::FailedPrecondition, Code::InvalidArgument, Code::Unimplemented];
    matches!(error, ClientError::Refused { code, .. } if lasting.contains(code))
}
