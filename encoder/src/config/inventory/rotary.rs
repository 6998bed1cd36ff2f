//! The settings of `config.json` of encoders with rotary positions: ModernBERT, GTE, NomicBERT, Qwen3 and Gemma3, by
//! the names of transformers 5 and of the models' own code.

use super::setting::SettingUse::{NoEffect, Only, Read};
use super::setting::{GENERATION, ORIGIN, OUTPUTS, SettingsFile, TRAINING, known};

/// `config.json` of an encoder with rotary positions.
pub(super) const ROTARY_CONFIG: SettingsFile = SettingsFile {
    name: "`config.json` (ModernBERT, GTE, NomicBERT, Qwen3, Gemma3), `config_kwargs`",
    settings: &[
        known("model_type", Read("the architecture; another one is refused")),
        known(
            "architectures id2label num_labels",
            Read("whether it is a cross encoder"),
        ),
        known(
            "vocab_size hidden_size num_hidden_layers num_attention_heads num_key_value_heads head_dim intermediate_size max_position_embeddings type_vocab_size n_embd n_layer n_head n_inner n_positions",
            Read("sizes"),
        ),
        known(
            "hidden_act hidden_activation activation_function",
            Read("the activation of the half that gates the other; another one is refused"),
        ),
        known(
            "layer_norm_eps layer_norm_epsilon norm_eps rms_norm_eps",
            Read("the epsilon of norms"),
        ),
        known(
            "attention_bias mlp_bias norm_bias",
            Read("which maps and norms have biases"),
        ),
        known(
            "layer_types global_attn_every_n_layers sliding_window_pattern _sliding_window_pattern use_sliding_window max_window_layers",
            Read("which layers have a sliding window"),
        ),
        known(
            "local_attention sliding_window use_bidirectional_attention",
            Read("the keys that a query attends to"),
        ),
        known("query_pre_attn_scalar", Read("the factor of Gemma's scores")),
        known(
            "rope_parameters rope_scaling rope_theta global_rope_theta local_rope_theta rope_local_base_freq rotary_emb_base",
            Read(
                "the frequencies of the rotations: `default`, `linear`, and `ntk` of GTE's own code; other kinds are refused",
            ),
        ),
        known(
            "rotary_scaling_factor max_trained_positions",
            Read(
                "texts of NomicBERT are cut at its longest training text where they stand both: beyond it, the models' own code makes a text's vector depend on its neighbours",
            ),
        ),
        known(
            "tokenizer_class",
            Read("the tokenizer, where `tokenizer_config.json` names none"),
        ),
        known(
            "classifier_pooling classifier_bias classifier_activation",
            Read("the head of ModernBERT as a cross encoder"),
        ),
        known(
            "sentence_transformers sbert_ce_default_activation_function",
            Read("what a cross encoder makes of its logit"),
        ),
        known(
            "is_decoder add_cross_attention is_heterogeneous logn_attention_scale logn_attention_clip1 qkv_proj_bias mlp_fc1_bias mlp_fc2_bias prenorm parallel_block causal use_rms_norm rotary_emb_interleaved parallel_block_tied_norm reorder_and_upcast_attn scale_attn_by_inverse_layer_idx add_moe_block",
            Only(&["false"]),
        ),
        known("is_causal", Read("refused where other settings say otherwise")),
        known("scale_attn_weights pack_qkv", Only(&["true"])),
        known("position_embedding_type", Only(&["\"rope\"", "\"absolute\""])),
        known("layer_norm_type", Only(&["\"layer_norm\""])),
        known("rotary_emb_fraction partial_rotary_factor", Only(&["1", "1.0"])),
        known(
            "moe_every_n_layers num_shared_experts rotary_emb_scale_base",
            Only(&["0"]),
        ),
        known(
            "quantization_config compression_config per_layer_config per_layer_attributes attn_logit_softcapping",
            Only(&[]),
        ),
        known(
            "attention_probs_dropout_prob hidden_dropout_prob attention_dropout embedding_dropout mlp_dropout classifier_dropout attn_pdrop embd_pdrop resid_pdrop initializer_range initializer_cutoff_factor gradient_checkpointing problem_type sparse_prediction sparse_pred_ignore_index decoder_bias dense_seq_output last_layer_subset loss summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj",
            NoEffect(TRAINING),
        ),
        known(
            "pad_token_id bos_token_id eos_token_id cls_token_id sep_token_id tie_word_embeddings use_cache cache_implementation final_logit_softcapping max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences begin_suppress_tokens suppress_tokens forced_bos_token_id forced_eos_token_id remove_invalid_values exponential_decay_length_penalty output_scores return_dict_in_generate generation_config is_encoder_decoder decoder_start_token_id prefix task_specific_params tie_encoder_decoder cross_attention_hidden_size",
            NoEffect(GENERATION),
        ),
        known(
            "output_attentions output_hidden_states return_dict use_return_dict",
            NoEffect(OUTPUTS),
        ),
        known(
            "_name_or_path name_or_path transformers_version _commit_hash auto_map finetuning_task label2id _num_labels model_max_length",
            NoEffect(ORIGIN),
        ),
        known(
            "torch_dtype dtype torchscript use_bfloat16 tf_legacy_loss _attn_implementation attn_implementation _attn_implementation_autoset _attn_implementation_internal chunk_size_feed_forward pruned_heads reference_compile deterministic_flash_attn repad_logits_with_grad unpad_inputs use_memory_efficient_attention use_flash_attn fused_bias_fc fused_dropout_add_ln use_xentropy pad_vocab_size_multiple",
            NoEffect("how it is computed is said by `--dtype`, or follows from other settings"),
        ),
    ],
};
