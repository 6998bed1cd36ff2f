//! The list of settings: names are those that transformers 5 and sentence-transformers 6, or older versions of them,
//! write.

use super::rotary::ROTARY_CONFIG;
use super::setting::SettingUse::{NoEffect, Only, Read};
use super::setting::{GENERATION, ORIGIN, OUTPUTS, SettingsFile, TRAINING, known};

/// `config.json` of a transformer.
pub(super) const CONFIG: SettingsFile = SettingsFile {
    name: "`config.json` (other transformers), `config_kwargs`",
    settings: &[
        known("model_type", Read("the architecture; another one is refused")),
        known(
            "architectures id2label num_labels",
            Read("whether it is a cross encoder"),
        ),
        known(
            "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size max_position_embeddings type_vocab_size dim n_layers n_heads hidden_dim d_model d_kv d_ff num_layers num_heads projection_dim",
            Read("sizes"),
        ),
        known(
            "hidden_act activation feed_forward_proj",
            Read("the activation between the two maps of a block; another one is refused"),
        ),
        known(
            "layer_norm_eps layer_norm_epsilon",
            Read("the epsilon of layer norms; DistilBERT's is 1e-12 whatever stands here"),
        ),
        known(
            "dense_act_fn is_gated_act",
            Read("T5's feed-forward block; refused where `feed_forward_proj` says otherwise"),
        ),
        known("pad_token_id", Read("RoBERTa's positions begin after it")),
        known(
            "relative_attention_num_buckets relative_attention_max_distance",
            Read("relative positions of MPNet and T5"),
        ),
        known(
            "tokenizer_class",
            Read("the tokenizer, where `tokenizer_config.json` names none"),
        ),
        known(
            "sentence_transformers sbert_ce_default_activation_function",
            Read("what a cross encoder makes of its logit"),
        ),
        known(
            "cell embedding_size layers bidirectional",
            Read("sizes of a recurrent encoder of ours"),
        ),
        known("is_decoder add_cross_attention", Only(&["false"])),
        known("position_embedding_type", Only(&["\"absolute\""])),
        known("pruned_heads", Only(&["{}"])),
        known("quantization_config compression_config", Only(&[])),
        known(
            "per_layer_config per_layer_attributes rope_scaling rope_parameters rope_theta sliding_window",
            Only(&[]),
        ),
        known("is_heterogeneous use_bidirectional_attention", Only(&["false"])),
        known("is_causal", Only(&["false"])),
        known(
            "attention_probs_dropout_prob hidden_dropout_prob attention_dropout dropout dropout_rate classifier_dropout qa_dropout seq_classif_dropout summary_activation summary_first_dropout summary_last_dropout summary_proj_to_labels summary_type summary_use_proj initializer_range initializer_factor gradient_checkpointing tie_weights_ problem_type layerdrop",
            NoEffect(TRAINING),
        ),
        known(
            "bos_token_id eos_token_id sep_token_id cls_token_id decoder_start_token_id decoder num_decoder_layers is_encoder_decoder tie_word_embeddings tie_encoder_decoder cross_attention_hidden_size scale_decoder_outputs task_specific_params prefix n_positions use_cache max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences begin_suppress_tokens suppress_tokens forced_bos_token_id forced_eos_token_id remove_invalid_values exponential_decay_length_penalty output_scores return_dict_in_generate generation_config",
            NoEffect(GENERATION),
        ),
        known(
            "output_attentions output_hidden_states output_past return_dict use_return_dict pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type directionality",
            NoEffect(OUTPUTS),
        ),
        known(
            "_name_or_path name_or_path transformers_version _commit_hash auto_map custom_pipelines finetuning_task label2id _num_labels model_max_length xla_device emb_size structure pre_trained training add_pooling_layer",
            NoEffect(ORIGIN),
        ),
        known(
            "torch_dtype dtype torchscript use_bfloat16 tf_legacy_loss _attn_implementation attn_implementation _attn_implementation_autoset chunk_size_feed_forward sinusoidal_pos_embds head_dim",
            NoEffect("how it is computed is said by `--dtype`, or follows from other settings"),
        ),
    ],
};

/// `config.json` of a Model2Vec model (`StaticModelConfig`).
pub(super) const MODEL2VEC: SettingsFile = SettingsFile {
    name: "`config.json` (Model2Vec)",
    settings: &[
        known("model_type", Read("whether it is one: the table's name says so too")),
        known(
            "normalize",
            Read("whether vectors are normalised, where there is no `modules.json`"),
        ),
        known(
            "max_length",
            Read("the longest input; 512 where it is absent, none for `null`"),
        ),
        known("pooling", Only(&["\"mean\""])),
        known(
            "embedding_dtype vocabulary_quantization hidden_dim",
            NoEffect("the file of weights says it"),
        ),
        known(
            "architectures tokenizer_name apply_pca apply_zipf sif_coefficient seq_length",
            NoEffect(ORIGIN),
        ),
        known("head_config", NoEffect("it is for a classifier")),
    ],
};

/// `tokenizer_config.json`, its companions and the `processor_kwargs` of `sentence_bert_config.json`.
pub(super) const TOKENIZER: SettingsFile = SettingsFile {
    name: "`tokenizer_config.json`, `special_tokens_map.json`, `processor_kwargs`",
    settings: &[
        known(
            "tokenizer_class",
            Read("how the vocabulary is used; a class that is none of ours is refused"),
        ),
        known(
            "do_lower_case strip_accents tokenize_chinese_chars",
            Read("BERT's normaliser, for the classes of BERT, DistilBERT and MPNet; DPR's drop `do_lower_case`"),
        ),
        known(
            "add_prefix_space",
            Read("a space before a text, for RoBERTa, XLM-RoBERTa and CamemBERT"),
        ),
        known(
            "added_tokens_decoder extra_special_tokens additional_special_tokens",
            Read("tokens added to the vocabulary"),
        ),
        known(
            "*_token",
            Read("special tokens; `add_bos_token` and `add_eos_token` have no effect in a file"),
        ),
        known(
            "extra_ids",
            Read("how many further special tokens T5 has, where no file lists them"),
        ),
        known(
            "model_max_length max_len",
            Read("the longest input, where `max_seq_length` does not say it"),
        ),
        known("truncation_side", Read("which end of a long text is cut off")),
        known(
            "split_special_tokens",
            Read("whether special tokens in a text are texts"),
        ),
        known("model_input_names", Read("whether a cross encoder sees token types")),
        known("fast_tokenizer_files", Only(&["[]", "[\"tokenizer.json\"]"])),
        known("gguf_file tokenizer_type", Only(&[])),
        known("fix_mistral_regex", Only(&["false"])),
        known(
            "padding_side padding pad_to_multiple_of pad_token_type_id pad_id max_length stride truncation truncation_strategy token_type_ids return_token_type_ids",
            NoEffect("texts are not padded, and cut at the longest input"),
        ),
        known(
            "do_basic_tokenize never_split use_fast legacy sp_model_kwargs trim_offsets errors clean_text wordpieces_prefix word_tokenizer_type subword_tokenizer_type",
            NoEffect("it is for tokenizers in Python, or changes no id"),
        ),
        known(
            "clean_up_tokenization_spaces spaces_between_special_tokens chat_template response_schema response_template default_chat_template",
            NoEffect(GENERATION),
        ),
        known(
            "backend is_local local_files_only name_or_path special_tokens_map_file tokenizer_file vocab_file merges_file vocab auto_map processor_class init_inputs full_tokenizer_file _commit_hash transformers_version device_map",
            NoEffect(ORIGIN),
        ),
    ],
};

/// Settings of `processor_kwargs` that put tokens around a text.
pub(super) const FRAMED: SettingsFile = SettingsFile {
    name: "`processor_kwargs`",
    settings: &[known("add_bos_token add_eos_token", Only(&[]))],
};

/// Settings of `processor_kwargs` that say where to fetch.
pub(super) const PROCESSOR: SettingsFile = SettingsFile {
    name: "`processor_kwargs`",
    settings: &[known(
        "cache_dir revision token use_auth_token trust_remote_code subfolder force_download proxies",
        NoEffect("the directory is here"),
    )],
};

/// `sentence_bert_config.json` and its kin, where there is a `modules.json`.
pub(super) const TRANSFORMER: SettingsFile = SettingsFile {
    name: "`sentence_bert_config.json`",
    settings: &[
        known("max_seq_length", Read("the longest input")),
        known("do_lower_case", Read("texts are brought to lower case before all else")),
        known(
            "processor_kwargs tokenizer_args",
            Read("they go before `tokenizer_config.json`"),
        ),
        known("config_kwargs config_args", Read("they go before `config.json`")),
        known(
            "transformer_task",
            Only(&["\"feature-extraction\"", "\"sequence-classification\""]),
        ),
        known("module_output_name", Only(&["\"token_embeddings\"", "\"scores\""])),
        known(
            "query_length document_length query_expansion tokenizer_name_or_path",
            Only(&[]),
        ),
        known("processing_kwargs", Only(&["{}"])),
        known("model_kwargs model_args", Read("checked: only what changes no vector")),
        known(
            "modality_config",
            Only(&[
                r#"{"text": {"method": "forward", "method_output_name": "last_hidden_state"}}"#,
                r#"{"text": {"method": "forward", "method_output_name": "logits"}}"#,
            ]),
        ),
        known(
            "unpad_inputs cache_dir backend",
            NoEffect("how Python loads and feeds the model"),
        ),
    ],
};

/// `model_kwargs` of `sentence_bert_config.json`.
pub(super) const MODEL: SettingsFile = SettingsFile {
    name: "`model_kwargs`",
    settings: &[
        known("quantization_config subfolder variant gguf_file", Only(&[])),
        known("is_decoder add_cross_attention", Only(&["false"])),
        known(
            "torch_dtype dtype attn_implementation device_map low_cpu_mem_usage use_safetensors add_pooling_layer reference_compile cache_dir revision token use_auth_token trust_remote_code code_revision local_files_only",
            NoEffect("how Python loads the model"),
        ),
    ],
};

/// `config_sentence_transformers.json`, where there is a `modules.json`.
pub(super) const SENTENCE: SettingsFile = SettingsFile {
    name: "`config_sentence_transformers.json`",
    settings: &[
        known(
            "prompts default_prompt_name",
            Read("what stands before each text of a tower, see `--prompts`"),
        ),
        known("truncate_dim", Read("leading values of a vector that are kept")),
        known("similarity_fn_name", Read("told where it is not `cosine`")),
        known("activation_fn", Read("what a cross encoder makes of its logit")),
        known("model_type", Only(&["\"SentenceTransformer\"", "\"CrossEncoder\""])),
        known("__version__ requirements", NoEffect(ORIGIN)),
    ],
};

/// `config.json` of a pooling.
pub(super) const POOLING: SettingsFile = SettingsFile {
    name: "`1_Pooling/config.json`",
    settings: &[
        known(
            "pooling_mode pooling_mode_cls_token pooling_mode_max_tokens pooling_mode_mean_tokens pooling_mode_mean_sqrt_len_tokens pooling_mode_weightedmean_tokens pooling_mode_lasttoken",
            Read("how token vectors become one"),
        ),
        known("include_prompt", Read("whether the tokens of a prompt are pooled")),
        known(
            "word_embedding_dimension embedding_dimension",
            NoEffect("it is the transformer's size"),
        ),
    ],
};

/// `config.json` of our multi-hop attention.
pub(super) const MULTIHOP: SettingsFile = SettingsFile {
    name: "`1_MultiHopAttention/config.json`",
    settings: &[known(
        "in_features inner hops include_prompt",
        Read("sizes, and whether the tokens of a prompt are pooled"),
    )],
};

/// `config.json` of a dense layer.
pub(super) const DENSE: SettingsFile = SettingsFile {
    name: "`2_Dense/config.json`",
    settings: &[
        known(
            "in_features out_features bias activation_function",
            Read("sizes and activation; another activation is refused"),
        ),
        known(
            "module_input_name module_output_name",
            Only(&["\"sentence_embedding\""]),
        ),
        known("use_residual", Only(&["false"])),
        known("init_weight init_bias", NoEffect(TRAINING)),
    ],
};

/// An entry of `modules.json`.
pub(super) const MODULES: SettingsFile = SettingsFile {
    name: "`modules.json`",
    settings: &[
        known("type path", Read("the class of a module, and its folder")),
        known("idx name kwargs", NoEffect("modules run in the order of the file")),
    ],
};

/// `router_config.json`.
pub(super) const ROUTER: SettingsFile = SettingsFile {
    name: "`router_config.json`",
    settings: &[known("types structure parameters", Read("the modules of each tower"))],
};

/// `parameters` of `router_config.json`.
pub(super) const PARAMETERS: SettingsFile = SettingsFile {
    name: "`router_config.json`, `parameters`",
    settings: &[
        known("route_mappings", Only(&["{}"])),
        known("default_route allow_empty_key", NoEffect("each text is of a tower")),
    ],
};

/// All of them.
pub(super) const FILES: [&SettingsFile; 15] = [
    &MODULES,
    &ROUTER,
    &PARAMETERS,
    &SENTENCE,
    &TRANSFORMER,
    &CONFIG,
    &ROTARY_CONFIG,
    &MODEL2VEC,
    &TOKENIZER,
    &PROCESSOR,
    &FRAMED,
    &MODEL,
    &POOLING,
    &MULTIHOP,
    &DENSE,
];
