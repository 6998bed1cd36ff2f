//! Which tokenizer a directory has: the class that `tokenizer_config.json` or `config.json` names, or that of its model
//! type.
//!
//! transformers 5 builds most of its classes from the vocabulary alone, whatever else stands in `tokenizer.json`: the
//! same file is another tokenizer under another class (`AutoTokenizer.from_pretrained`,
//! `TokenizersBackend.convert_to_native_format`).

use std::path::Path;

use crate::error::Error;

/// A tokenizer class of transformers 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenizerClass {
    /// `tokenizer.json` as it is: `PreTrainedTokenizerFast`, and names that transformers does not know.
    AsWritten,
    Bert,
    DistilBert,
    /// As `Bert`, but `do_lower_case` has no effect: it is dropped on the way.
    Dpr,
    /// `tokenizer.json` as it is, but with BERT's special tokens: classes without a constructor of their own.
    BertAsWritten,
    MpNet,
    Roberta,
    XlmRoberta,
    Camembert,
    T5,
    /// BPE over bytes; what is put around a text is what `tokenizer.json` says.
    Qwen2,
    /// BPE over characters with U+2581 for a space; around a text is put what `tokenizer.json` says.
    Gemma,
}

/// Classes of transformers that are none of ours: their tokens would differ from those of `tokenizer.json`.
///
/// ```text
/// .venv/bin/python -c 'import transformers; from transformers.models.auto.tokenization_auto import *
/// names = {n for n in dir(transformers) if n.endswith("Tokenizer")} | set(filter(None, TOKENIZER_MAPPING_NAMES.values()))
/// print(sorted(n.removesuffix("Fast") for n in names if tokenizer_class_from_name(n)))'
/// ```
const OTHERS: &str = "AlbertTokenizer BarthezTokenizer BartphoTokenizer BertGenerationTokenizer BertJapaneseTokenizer \
    BertweetTokenizer BigBirdTokenizer BioGptTokenizer BlenderbotSmallTokenizer BlenderbotTokenizer ByT5Tokenizer CLIPTokenizer \
    CTRLTokenizer CanineTokenizer ClvpTokenizer CodeGenTokenizer CodeLlamaTokenizer CohereTokenizer CpmAntTokenizer CpmTokenizer \
    DebertaTokenizer DebertaV2Tokenizer DiaTokenizer EsmTokenizer EsmcTokenizer FNetTokenizer FSMTTokenizer \
    FastSpeech2ConformerTokenizer FlaubertTokenizer FunnelTokenizer GPT2Tokenizer GPTNeoXJapaneseTokenizer GPTNeoXTokenizer \
    GPTSw3Tokenizer HerbertTokenizer LasrTokenizer LayoutLMv2Tokenizer LayoutLMv3Tokenizer LayoutXLMTokenizer \
    LlamaTokenizer LukeTokenizer M2M100Tokenizer MBart50Tokenizer MBartTokenizer MLukeTokenizer MarianTokenizer MarkupLMTokenizer \
    MgpstrTokenizer MyT5Tokenizer NllbTokenizer NougatTokenizer OpenAIGPTTokenizer PLBartTokenizer PegasusTokenizer \
    PerceiverTokenizer PhobertTokenizer Pop2PianoTokenizer ProphetNetTokenizer Qwen3_5Tokenizer RagTokenizer \
    ReformerTokenizer RemBertTokenizer RoCBertTokenizer RoFormerTokenizer SeamlessM4TTokenizer Siglip2Tokenizer SiglipTokenizer \
    Speech2TextTokenizer SpeechT5Tokenizer SplinterTokenizer TapasTokenizer Tipsv2Tokenizer UdopTokenizer VideoPrismTokenizer \
    VitsTokenizer Wav2Vec2CTCTokenizer Wav2Vec2PhonemeCTCTokenizer WhisperTokenizer XGLMTokenizer XLMTokenizer XLNetTokenizer";

impl TokenizerClass {
    /// The class that `name` stands for, which a file names.
    ///
    /// Names that are others' in transformers 5 (`tokenizer_class_from_name("ElectraTokenizer")` is `BertTokenizer`)
    /// are those.
    pub(super) fn of(path: &Path, name: &str, model_type: &str) -> Result<Self, Error> {
        let fast = name.ends_with("Fast");
        Ok(match name.strip_suffix("Fast").unwrap_or(name) {
            "BertTokenizer"
            | "ElectraTokenizer"
            | "LayoutLMTokenizer"
            | "LxmertTokenizer"
            | "MobileBertTokenizer"
            | "SqueezeBertTokenizer" => Self::Bert,
            "DistilBertTokenizer" => Self::DistilBert,
            // transformers drops the suffix from the class of the model type alone.
            "DPRQuestionEncoderTokenizer" if !fast || model_type == "dpr" => Self::Dpr,
            "DPRContextEncoderTokenizer" | "DPRReaderTokenizer" if !fast => Self::Dpr,
            "DPRQuestionEncoderTokenizer"
            | "DPRContextEncoderTokenizer"
            | "DPRReaderTokenizer"
            | "ConvBertTokenizer" => Self::BertAsWritten,
            "MPNetTokenizer" => Self::MpNet,
            "RobertaTokenizer" | "BartTokenizer" | "LEDTokenizer" | "LongformerTokenizer" | "MvpTokenizer" => {
                Self::Roberta
            }
            "XLMRobertaTokenizer" => Self::XlmRoberta,
            "CamembertTokenizer" => Self::Camembert,
            "T5Tokenizer" => Self::T5,
            "Qwen2Tokenizer" => Self::Qwen2,
            "GemmaTokenizer" => Self::Gemma,
            other if OTHERS.split_whitespace().any(|known| known == other) => {
                return Err(Error::Unsupported {
                    path: path.to_owned(),
                    what: "tokenizer class",
                    supported: "those of BERT, DistilBERT, DPR, MPNet, RoBERTa, XLM-RoBERTa, CamemBERT, T5, Qwen2 and Gemma, and `PreTrainedTokenizerFast`, which is `tokenizer.json` as it is (set `tokenizer_class` to it if that is what the model was trained with)",
                    got: name.to_owned(),
                });
            }
            _ => Self::AsWritten,
        })
    }

    /// Whether the pipeline is built from the vocabulary, and not as `tokenizer.json` says.
    pub(super) fn is_rebuilt(self) -> bool {
        !matches!(self, Self::AsWritten | Self::BertAsWritten)
    }

    /// Kind of vocabulary that it is built from.
    pub(super) fn model(self) -> Option<&'static str> {
        match self {
            Self::AsWritten | Self::BertAsWritten => None,
            Self::Bert | Self::DistilBert | Self::Dpr | Self::MpNet => Some("WordPiece"),
            Self::Roberta | Self::Qwen2 | Self::Gemma => Some("BPE"),
            Self::XlmRoberta | Self::Camembert | Self::T5 => Some("Unigram"),
        }
    }

    /// Whether the tokens around a text are those that `tokenizer.json` says.
    pub(super) fn keeps_frame(self) -> bool {
        matches!(self, Self::AsWritten | Self::Qwen2 | Self::Gemma)
    }

    /// Whether it gives token types to a network that asks for them, unless `model_input_names` says otherwise.
    pub(super) fn gives_types(self) -> bool {
        matches!(self, Self::Bert | Self::Dpr | Self::BertAsWritten)
    }

    /// Its special tokens where the files name no others: attribute and token.
    pub(super) fn special_tokens(self) -> &'static [(&'static str, &'static str)] {
        const BERT: &[(&str, &str)] = &[
            ("unk_token", "[UNK]"),
            ("sep_token", "[SEP]"),
            ("pad_token", "[PAD]"),
            ("cls_token", "[CLS]"),
            ("mask_token", "[MASK]"),
        ];
        const MPNET: &[(&str, &str)] = &[
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("unk_token", "[UNK]"),
            ("sep_token", "</s>"),
            ("pad_token", "<pad>"),
            ("cls_token", "<s>"),
            ("mask_token", "<mask>"),
        ];
        const ROBERTA: &[(&str, &str)] = &[
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("unk_token", "<unk>"),
            ("sep_token", "</s>"),
            ("pad_token", "<pad>"),
            ("cls_token", "<s>"),
            ("mask_token", "<mask>"),
        ];
        const GEMMA: &[(&str, &str)] = &[
            ("bos_token", "<bos>"),
            ("eos_token", "<eos>"),
            ("unk_token", "<unk>"),
            ("pad_token", "<pad>"),
            ("mask_token", "<mask>"),
        ];
        const QWEN2: &[(&str, &str)] = &[
            ("eos_token", "<|endoftext|>"),
            ("unk_token", "<|endoftext|>"),
            ("pad_token", "<|endoftext|>"),
        ];
        match self {
            Self::AsWritten => &[],
            Self::Qwen2 => QWEN2,
            Self::Gemma => GEMMA,
            Self::Bert | Self::DistilBert | Self::Dpr | Self::BertAsWritten => BERT,
            Self::MpNet => MPNET,
            Self::Roberta | Self::XlmRoberta | Self::Camembert => ROBERTA,
            Self::T5 => &[("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")],
        }
    }

    /// Further special tokens where the files name none.
    pub(super) fn more_special_tokens(self, extra_ids: usize) -> Vec<String> {
        match self {
            Self::T5 => (0..extra_ids).map(|id| format!("<extra_id_{id}>")).collect(),
            Self::Camembert => ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]
                .map(ToOwned::to_owned)
                .to_vec(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::registered_class;

    #[test]
    fn a_class_is_known_by_its_name() {
        let path = Path::new("tokenizer_config.json");
        let of = |name: &str| TokenizerClass::of(path, name, "bert").unwrap();
        let of_dpr = TokenizerClass::of(path, "DPRQuestionEncoderTokenizerFast", "dpr").unwrap();
        assert_eq!(
            (of_dpr, of("DPRQuestionEncoderTokenizerFast")),
            (TokenizerClass::Dpr, TokenizerClass::BertAsWritten)
        );
        assert_eq!(
            (of("ElectraTokenizerFast"), of("LongformerTokenizer")),
            (TokenizerClass::Bert, TokenizerClass::Roberta)
        );
        assert_eq!(of("MPNetTokenizerFast"), TokenizerClass::MpNet);
        assert_eq!(of("DPRContextEncoderTokenizerFast"), TokenizerClass::BertAsWritten);
        for model_type in [
            "bert",
            "dpr",
            "distilbert",
            "mpnet",
            "roberta",
            "xlm-roberta",
            "camembert",
            "t5",
            "gte",
            "nomic_bert",
            "qwen3",
            "gemma3_text",
        ] {
            assert!(of(registered_class(model_type).unwrap()).is_rebuilt(), "{model_type}");
        }
        for name in [
            "PreTrainedTokenizerFast",
            "TokenizersBackend",
            "PreTrainedTokenizer",
            "Nonsense",
        ] {
            assert_eq!(of(name), TokenizerClass::AsWritten, "{name}");
        }
        let message = TokenizerClass::of(path, "AlbertTokenizerFast", "bert")
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("tokenizer_config.json") && message.contains("AlbertTokenizerFast"),
            "{message}"
        );
    }
}
