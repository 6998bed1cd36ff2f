#!/usr/bin/env python3
"""Vectors of models whose settings were changed at random, against sentence-transformers on the same directory.

    .venv/bin/python deploy/tests/wild/models.py target/release --seconds 3600 --seed 1

A tiny random model of every family is written by transformers, and then some of its files are changed, as users and other tools change
them: tokenizer classes, normalisers, added and special tokens, truncation, rotations and windows, poolings, prompts. Both programs then embed texts that are odd
for one tokenizer or another. Equal to 1e-5 (or to ten times what sentence-transformers in float32 differs from float64), or refused by
dyad-encoder with the name of the file: anything else is a difference, which is printed with what was changed, and kept.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benches/peers"))

import numpy
import torch
import transformers
from checkpoints import layouts, networks, rotary, vocabulary
from sentence_transformers import SentenceTransformer
from transformers import CamembertConfig, CamembertModel, CamembertTokenizer, XLMRobertaConfig, XLMRobertaModel, XLMRobertaTokenizer

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

ALIKE, ENLARGED, COMMAND_S = 1e-5, 10, 60
ROTARY = ("modernbert", "gte", "nomic-bert", "qwen3", "gemma3", "gemma3-causal")
FAMILIES = ("bert", "distilbert", "roberta", "mpnet", "t5-relu", "xlm-roberta", "camembert", "word-list", *ROTARY)
CLASSES = (
    "BertTokenizer BertTokenizerFast DistilBertTokenizer MPNetTokenizerFast RobertaTokenizer XLMRobertaTokenizer CamembertTokenizer "
    "T5TokenizerFast PreTrainedTokenizerFast TokenizersBackend DPRQuestionEncoderTokenizer DPRContextEncoderTokenizerFast Unheard "
    "DPRQuestionEncoderTokenizerFast DPRContextEncoderTokenizer ElectraTokenizerFast LongformerTokenizerFast Qwen2TokenizerFast GemmaTokenizer"
).split()
MARKED = ["[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]", "<s>", "</s>", "<pad>", "<mask>", "<unk>", "<extra_id_0>", "[Q]", "[D] "]
WORDS = vocabulary.WORDS[:24] + ["R\u00edver", "Ri\u0301ver", "CIT\u00c9", "\u03a3\u039f\u03a6\u039f\u03a3", "\u4f60\u597d", "\U0001f469\u200d\U0001f467",
    "\u200b", "\t", "\n", "\u00a0", "\u0130", "stra\u00dfe", "e\u0301", "\ufb01", "\u0001", "  ", "A", "don't", "x" * 120, "1,000"]
POOLINGS = ["cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]


def edit(path: pathlib.Path, change) -> None:
    """Changes a JSON file in place; one that is not there begins empty."""
    value = json.loads(path.read_text()) if path.exists() else {}
    value = change(value) or value
    path.write_text(json.dumps(value))


def put(path: pathlib.Path, **fields) -> None:
    """Sets fields of a JSON file."""
    edit(path, lambda value: value.update(fields))


def unigram(of):
    """A tokenizer of Unigram pieces between <s> and </s>."""
    space = "\u2581"
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), (space, -2.0)]
    pieces += [(space + word, -3.0 - 0.05 * at) for at, word in enumerate(vocabulary.WORDS)]
    pieces += [(piece, -5.0 - 0.05 * at) for at, piece in enumerate(vocabulary.MARKS + vocabulary.ENDINGS)]
    pieces += [(letter, -8.0 - 0.05 * at) for at, letter in enumerate(vocabulary.LETTERS)]
    return of(vocab=[*pieces, ("<mask>", 0.0)], model_max_length=networks.MAX_TOKENS)


def network(family: str):
    """A network of the family, with rows to spare in its table, and its tokenizer."""
    if family in ROTARY:
        model, tokenizer = rotary.network(family, 7)
        model.resize_token_embeddings(len(tokenizer) + 6, mean_resizing=False)
        with torch.no_grad():
            model.get_input_embeddings().weight.normal_(0.0, 0.5, generator=torch.Generator().manual_seed(7))
        return model, tokenizer
    if family not in ("xlm-roberta", "camembert"):
        model, tokenizer = networks.transformer("bert" if family == "word-list" else family, 7)
        if not family.startswith("t5"):
            model.resize_token_embeddings(len(tokenizer) + 6, mean_resizing=False)
            networks.redraw(model, 7)
        return model, tokenizer
    tokenizer = unigram(XLMRobertaTokenizer if family == "xlm-roberta" else CamembertTokenizer)
    sizes = {"hidden_size": networks.HIDDEN, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    more = {"vocab_size": len(tokenizer) + 6, "max_position_embeddings": networks.MAX_TOKENS + 2, "type_vocab_size": 1, "pad_token_id": 1}
    config, of = (XLMRobertaConfig, XLMRobertaModel) if family == "xlm-roberta" else (CamembertConfig, CamembertModel)
    model = of(config(**sizes, **more), add_pooling_layer=False)
    networks.redraw(model, 8)
    return model.eval(), tokenizer


def base(root: pathlib.Path, family: str) -> None:
    """A model of the family as sentence-transformers has it: transformer, mean, unit length."""
    model, tokenizer = network(family)
    networks.save(root, (model, tokenizer))
    if family == "word-list":
        pieces = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        (root / "vocab.txt").write_text("".join(f"{piece}\n" for piece, _ in pieces))
        (root / "tokenizer.json").unlink()
    layouts.write(root / "sentence_bert_config.json", {"max_seq_length": networks.MAX_TOKENS - 8, "do_lower_case": False})
    layouts.modules(root, ["Transformer", "Pooling", "Normalize"])
    layouts.pooling(root / "1_Pooling", size=getattr(model.config, "hidden_size", networks.HIDDEN))
    layouts.settings(root, {"query": "", "document": ""})


class Changes:
    """Changes of a model's directory; each says what it did, or None where it does not apply."""

    def __init__(self, root: pathlib.Path, chance: random.Random):
        self.root, self.chance = root, chance
        self.config, self.tokenizer = root / "config.json", root / "tokenizer_config.json"
        self.file, self.sentence = root / "tokenizer.json", root / "sentence_bert_config.json"

    def _word(self) -> str:
        return self.chance.choice([*MARKED, *vocabulary.WORDS[:20], "of the", "rive", "Q"])

    def _token(self, content: str) -> dict:
        flags = {name: self.chance.random() < 0.3 for name in ("single_word", "lstrip", "rstrip", "normalized")}
        return {"content": content, **flags, "special": self.chance.random() < 0.5}

    def tokenizer_class(self):
        name = self.chance.choice(CLASSES)
        put(self.tokenizer, tokenizer_class=name)
        return f"tokenizer_class {name}"

    def no_tokenizer_class(self):
        edit(self.tokenizer, lambda value: value.pop("tokenizer_class", None) and None)
        return "no tokenizer_class"

    def class_of_config(self):
        name = self.chance.choice(CLASSES)
        put(self.config, tokenizer_class=name)
        edit(self.tokenizer, lambda value: value.pop("tokenizer_class", None) and None)
        return f"tokenizer_class {name} in config.json alone"

    def normaliser_setting(self):
        name = self.chance.choice(["do_lower_case", "strip_accents", "tokenize_chinese_chars", "add_prefix_space", "split_special_tokens"])
        value = self.chance.choice([True, False])
        put(self.tokenizer, **{name: value})
        return f"{name} {value}"

    def setting_of_processor(self):
        name = self.chance.choice(["do_lower_case", "strip_accents", "add_prefix_space", "tokenizer_class", "add_bos_token"])
        value = self.chance.choice(CLASSES) if name == "tokenizer_class" else self.chance.choice([True, False])
        key = self.chance.choice(["tokenizer_args", "processor_kwargs"])
        put(self.sentence, **{key: {name: value}})
        return f"{key} {name} {value}"

    def nothing_named(self):
        name = self.chance.choice(["unk_token", "mask_token", "pad_token", "bos_token", "my_own_token"])
        put(self.tokenizer, **{name: None})
        return f"{name} null"

    def no_tokens_listed(self):
        where = self.chance.choice(["added_tokens_decoder", "added_tokens"])
        if where == "added_tokens_decoder":
            put(self.tokenizer, added_tokens_decoder={})
        elif self.file.exists():
            edit(self.file, lambda value: value.update(added_tokens=[]))
        return f"{where} empty"

    def extra_ids(self):
        count = self.chance.choice([0, 2, 100])
        put(self.tokenizer, extra_ids=count, added_tokens_decoder={})
        return f"extra_ids {count}"

    def feed_forward(self):
        fields = self.chance.choice([{"dense_act_fn": "silu"}, {"dense_act_fn": "relu"}, {"is_gated_act": True}, {"is_gated_act": False}])
        put(self.config, **fields)
        return f"{fields}"

    def padding_in_file(self):
        if not self.file.exists():
            return None
        word = self._word()
        padding = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 1, "pad_type_id": 0, "pad_token": word}
        edit(self.file, lambda value: value.update(padding=padding))
        return f"padding with {word!r} in tokenizer.json"

    def truncation_side(self):
        side = self.chance.choice(["left", "right"])
        put(self.tokenizer, truncation_side=side)
        return f"truncation_side {side}"

    def truncation_of_processor(self):
        put(self.sentence, tokenizer_args={"truncation_side": "left"})
        return "tokenizer_args truncation_side left"

    def truncation_in_file(self):
        if not self.file.exists():
            return None
        direction = self.chance.choice(["Left", "Right"])
        truncation = {"direction": direction, "max_length": 9, "strategy": "LongestFirst", "stride": 0}
        edit(self.file, lambda value: value.update(truncation=truncation))
        return f"truncation {direction} in tokenizer.json"

    def longest(self):
        length = self.chance.randint(4, 40)
        where = self.chance.choice(["max_seq_length", "model_max_length", "max_len"])
        if where == "max_seq_length":
            put(self.sentence, max_seq_length=length)
        else:
            edit(self.sentence, lambda value: value.pop("max_seq_length", None) and None)
            edit(self.tokenizer, lambda value: value.pop("model_max_length", None) and None)
            put(self.tokenizer, **{where: length})
        return f"{where} {length}"

    def lower_case_first(self):
        put(self.sentence, do_lower_case=True)
        return "do_lower_case of sentence_bert_config.json"

    def added_in_config(self):
        tokens = {str(self.chance.randint(0, 140)): self._token(self._word()) for _ in range(self.chance.randint(1, 3))}
        edit(self.tokenizer, lambda value: value.setdefault("added_tokens_decoder", {}).update(tokens))
        return f"added_tokens_decoder {tokens}"

    def no_added_in_config(self):
        edit(self.tokenizer, lambda value: value.pop("added_tokens_decoder", None) and None)
        return "no added_tokens_decoder"

    def added_in_file_of_old(self):
        edit(self.tokenizer, lambda value: value.pop("added_tokens_decoder", None) and None)
        tokens = {self._word(): self.chance.randint(0, 140) for _ in range(2)}
        (self.root / "added_tokens.json").write_text(json.dumps(tokens))
        return f"added_tokens.json {tokens}"

    def special_tokens_map(self):
        edit(self.tokenizer, lambda value: value.pop("added_tokens_decoder", None) and None)
        names = ["unk_token", "mask_token", "pad_token", "additional_special_tokens", "bos_token"]
        fields = {}
        for name in self.chance.sample(names, 2):
            word = self._word()
            token = {key: value for key, value in self._token(word).items() if key != "special"}
            one = self.chance.choice([word, token])
            fields[name] = [one] if name.startswith("add") else one
        (self.root / "special_tokens_map.json").write_text(json.dumps(fields))
        return f"special_tokens_map.json {fields}"

    def named_token(self):
        name = self.chance.choice(["unk_token", "mask_token", "pad_token", "bos_token", "sep_token", "my_own_token"])
        word = self._word()
        put(self.tokenizer, **{name: word})
        return f"{name} {word!r}"

    def more_special_tokens(self):
        name = self.chance.choice(["additional_special_tokens", "extra_special_tokens"])
        words = [self._word() for _ in range(2)]
        value = words if self.chance.random() < 0.8 else {"image_token": words[0]}
        put(self.tokenizer, **{name: value})
        return f"{name} {value}"

    def normaliser_in_file(self):
        if not self.file.exists():
            return None
        bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": False, "strip_accents": True, "lowercase": False}
        steps = {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]}
        normaliser = self.chance.choice([None, {"type": "Lowercase"}, bert, steps, {"type": "NFKC"}])
        edit(self.file, lambda value: value.update(normalizer=normaliser))
        return f"normalizer {normaliser} in tokenizer.json"

    def pre_tokenizer_in_file(self):
        if not self.file.exists():
            return None
        step = self.chance.choice([{"type": "WhitespaceSplit"}, {"type": "Whitespace"}, {"type": "BertPreTokenizer"}])
        edit(self.file, lambda value: value.update(pre_tokenizer=step))
        return f"pre_tokenizer {step} in tokenizer.json"

    def model_in_file(self):
        if not self.file.exists():
            return None
        fields = self.chance.choice([{"max_input_chars_per_word": 4}, {"unk_id": 0}, {"dropout": None}, {"byte_fallback": False}])
        edit(self.file, lambda value: value["model"].update(fields))
        return f"model {fields} in tokenizer.json"

    def added_in_file(self):
        if not self.file.exists():
            return None
        vocab = json.loads(self.file.read_text())["model"]["vocab"]
        pieces = list(vocab) if isinstance(vocab, dict) else [piece for piece, _ in vocab]
        at = self.chance.randrange(len(pieces))
        token = {"id": vocab[pieces[at]] if isinstance(vocab, dict) else at, **self._token(pieces[at])}
        edit(self.file, lambda value: value["added_tokens"].append(token))
        return f"added token {token} in tokenizer.json"

    def activation(self):
        name = self.chance.choice(["gelu", "gelu_new", "relu", "gelu_pytorch_tanh", "silu"])
        put(self.config, **{"activation" if "n_layers" in json.loads(self.config.read_text()) else "hidden_act": name})
        return f"activation {name}"

    def rotation(self):
        settings = json.loads(self.config.read_text()).get("rope_parameters")
        if settings is None:
            return None
        kinds = [{"rope_type": "default"}, {"rope_type": "linear", "factor": 2.0}, {"type": "linear", "factor": 1.5}, {"rope_theta": 100.0},
            {"rope_type": "yarn", "factor": 4.0}, {"rope_type": "dynamic", "factor": 2.0}, {"rope_type": "linear"}]
        kind = self.chance.choice(kinds)
        nested = "full_attention" in settings
        given = {self.chance.choice(list(settings)): kind} if nested else kind
        older = {"rope_scaling": kind if "rope_theta" not in kind else None, "rope_theta": 50.0, "global_rope_theta": 70.0, "rope_local_base_freq": 30.0}
        if self.chance.random() < 0.5:
            put(self.config, rope_parameters=given)
            return f"rope_parameters {given}"
        edit(self.config, lambda value: value.pop("rope_parameters", None) and None)
        put(self.config, **older)
        return f"{older}"

    def windows(self):
        config = json.loads(self.config.read_text())
        if "rope_parameters" not in config:
            return None
        layers = config["num_hidden_layers"]
        types = [self.chance.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]
        fields = self.chance.choice([{"layer_types": types}, {"layer_types": types[1:]}, {"layer_types": None, "sliding_window_pattern": 2},
            {"layer_types": None, "global_attn_every_n_layers": 2}, {"layer_types": None, "max_window_layers": 1}, {"local_attention": 7},
            {"sliding_window": 5}, {"use_sliding_window": False, "layer_types": None}, {"use_bidirectional_attention": False},
            {"use_bidirectional_attention": True}, {"sliding_window": None}])
        put(self.config, **fields)
        return f"{fields}"

    def sizes_of_heads(self):
        config = json.loads(self.config.read_text())
        if "rope_parameters" not in config:
            return None
        fields = self.chance.choice([{"query_pre_attn_scalar": 7}, {"query_pre_attn_scalar": None}, {"rms_norm_eps": 0.01}, {"norm_eps": 0.01},
            {"attn_logit_softcapping": 30.0}, {"final_logit_softcapping": 30.0}, {"num_key_value_heads": 3}, {"hidden_activation": "silu"},
            {"partial_rotary_factor": 0.5}, {"attention_bias": True}, {"is_causal": False}, {"type_vocab_size": 0}, {"head_dim": 31}])
        put(self.config, **fields)
        return f"{fields}"

    def config_value(self):
        fields = self.chance.choice([{"layer_norm_eps": 0.01}, {"layer_norm_epsilon": 0.01}, {"pad_token_id": 0}, {"pad_token_id": 2},
            {"is_decoder": True}, {"is_decoder": False}, {"use_cache": True}, {"is_causal": True}, {"relative_attention_num_buckets": 16}])
        fields = self.chance.choice([fields, fields, {"tokenizer_class": self.chance.choice(CLASSES)}])
        where = self.chance.choice(["config.json", "config_args"])
        if where == "config.json":
            put(self.config, **fields)
        else:
            put(self.sentence, config_args=fields)
        return f"{where} {fields}"

    def pooling(self):
        modes = self.chance.sample(POOLINGS, self.chance.choice([1, 1, 2]))
        flags = {f"pooling_mode_{name}": name in modes for name in POOLINGS}
        put(self.root / "1_Pooling/config.json", **flags, include_prompt=self.chance.random() < 0.6)
        return f"pooling {modes}"

    def prompts(self):
        names = self.chance.sample(["query", "document", "passage", "corpus", "mine"], 3)
        prompts = {name: self.chance.choice(["", "query: ", "the king ", "Passage: "]) for name in names}
        default = self.chance.choice([None, *names])
        put(self.root / "config_sentence_transformers.json", prompts=prompts, default_prompt_name=default)
        return f"prompts {prompts}, default {default}"

    def all(self):
        """The names of all changes."""
        return [name for name in dir(self) if not name.startswith("_") and name not in ("all", "root", "chance", "config", "tokenizer", "file", "sentence")]


def texts(chance: random.Random) -> list[str]:
    """A handful of odd texts."""
    def one():
        words = [chance.choice(WORDS if chance.random() < 0.75 else MARKED) for _ in range(chance.choice([1, 3, 8, 60]))]
        return chance.choice([" ", " ", ""]).join(words)
    found = [one() for _ in range(6)] + ["the river of the king"]
    return [text for text in found if text.strip() and "\0" not in text]


def by_dyad(binary: pathlib.Path, folder: pathlib.Path, tower: str, given: list[str]):
    """Vectors, or the refusal."""
    options = ["--threads", "1", "--tower", tower, "--prompts", "sentence-transformers"]
    done = subprocess.run([binary, "encode", "--model", folder, *options, "--", *given], capture_output=True, text=True, timeout=COMMAND_S)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1]
    return numpy.array([json.loads(line)["vector"] for line in done.stdout.splitlines()]), ""


def by_python(folder: pathlib.Path, tower: str, given: list[str], dtype=torch.float32):
    """Vectors of each text alone, so that padding has no part in them; or the error."""
    try:
        with contextlib.redirect_stderr(None), torch.inference_mode():
            model = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": dtype})
            encode = model.encode_query if tower == "question" else model.encode_document
            return numpy.array([encode([text], show_progress_bar=False)[0] for text in given]), ""
    except Exception as error:  # Whatever Python says, the directory has no vectors there.
        return None, f"{type(error).__name__}: {error}"


def unit(rows):
    """Rows of unit length."""
    return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)


def distances(rows, others):
    """The largest difference of each row."""
    return numpy.abs(unit(rows) - unit(others)).max(axis=1)


def trial(binary, bases, scratch, seed, tally):
    """One changed model; what differs, or nothing."""
    chance = random.Random(seed)
    family = chance.choice(FAMILIES)
    folder = scratch / "model"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(bases / family, folder)
    changes = Changes(folder, chance)
    done = [getattr(changes, name)() for name in chance.choices(changes.all(), k=chance.choice([1, 1, 2, 3]))]
    done = [one for one in done if one]
    tower, given = chance.choice(["question", "answer"]), texts(chance)
    ours, refusal = by_dyad(binary, folder, tower, given)
    if ours is None and any(part in refusal for part in ("panicked", "libtorch failed")):
        return f"seed {seed}, {family}, {done}: {refusal}"
    theirs, error = by_python(folder, tower, given)
    if ours is None or theirs is None:
        tally["refused here" if theirs is not None else "refused there" if ours is not None else "refused by both"] += 1
        if ours is None and theirs is not None:
            reason = refusal.split(": ", 1)[-1]
            tally[f"  {reason[:100]}"] += 1
        if ours is None and str(folder) not in refusal and folder.name not in refusal:
            return f"seed {seed}, {family}, {done}: the refusal names no file: {refusal}"
        return None
    off = distances(ours, theirs)
    if not (off <= ALIKE).all():
        # A network whose layers enlarge what float32 rounds away: sentence-transformers differs from itself in float64.
        exact, error = by_python(folder, tower, given, torch.float64)
        if exact is not None and (distances(ours, exact) <= numpy.maximum(ALIKE, ENLARGED * distances(theirs, exact))).all():
            tally["equal but for rounding"] += 1
            return None
        worst = int(numpy.nanargmax(off))
        return f"seed {seed}, {family}, {tower}, {done}: off by {off[worst]:.2g} for {given[worst]!r}"
    tally["equal"] += 1
    return None


def main() -> int:
    """0 where nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=pathlib.Path, help="folder of the programs")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0, help="first seed; one after another is tried")
    parser.add_argument("--only", type=int, help="this seed alone, and keep its model in ./wild-model")
    given = parser.parse_args()
    torch.set_num_threads(1)
    binary, tally, differ = given.binaries.resolve() / "dyad-encoder", collections.Counter(), []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for family in FAMILIES:
            base(scratch / "bases" / family, family)
        until, seed = time.monotonic() + given.seconds, given.seed if given.only is None else given.only
        while time.monotonic() < until:
            found = trial(binary, scratch / "bases", scratch, seed, tally)
            if found:
                differ.append(found)
                print(f"DIFFERS: {found}", flush=True)
            if given.only is not None:
                shutil.copytree(scratch / "model", "wild-model", dirs_exist_ok=True)
                break
            seed += 1
    for what, count in sorted(tally.items(), key=lambda item: (item[0].startswith(" "), -item[1]))[:30]:
        print(f"{count:6}  {what}")
    print(f"{len(differ)} differences")
    return 1 if differ or not tally["equal"] else 0


if __name__ == "__main__":
    sys.exit(main())
