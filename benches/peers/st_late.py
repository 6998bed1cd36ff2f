"""Late chunking by sentence-transformers: st_late.py TASKS.json, a list of {"model": DIR, "window": TEXT, "passages": [[FIRST, END], ...]}.

For each task it prints a line of JSON: for each passage, whose bytes in the window are given, the mean of the vectors of the tokens that overlap it, after the
prompt of documents
(Guenther et al. 2024, arXiv:2409.04701), sent through the modules after the pooling, of unit length.
"""

import json
import sys

import torch
from sentence_transformers import SentenceTransformer


def vectors(model, window, passages):
    """The vectors of the passages of a window."""
    tokenizer, transformer = model.tokenizer, model[0]
    prompt = model.prompts.get("document", "")
    window, before = prompt + window, len(prompt.encode())
    tokens = tokenizer(window, return_offsets_mapping=True, return_special_tokens_mask=True, return_tensors="pt")
    offsets, special = tokens.pop("offset_mapping")[0].tolist(), tokens.pop("special_tokens_mask")[0].tolist()
    limit = transformer.max_seq_length
    if len(offsets) > limit:
        raise SystemExit(f"expected a window of {limit} tokens at most, got {len(offsets)}")
    states = transformer(dict(tokens))["token_embeddings"][0]
    found = []
    for first, end in passages:
        # Tokens know characters, and not bytes.
        first, end = (len(window.encode()[: before + byte].decode()) for byte in (first, end))
        own = [at for at, (begin, stop) in enumerate(offsets) if not special[at] and begin < end and first < stop and begin < stop]
        # Tokens between them belong to the passage too.
        features = {"sentence_embedding": states[own[0] : own[-1] + 1].float().mean(0, keepdim=True)}
        for module in list(model)[2:]:
            features = module(features)
        found.append(torch.nn.functional.normalize(features["sentence_embedding"], dim=-1)[0].tolist())
    return found


def main():
    """Prints the vectors of all tasks."""
    models = {}
    with open(sys.argv[1], encoding="utf-8") as file, torch.no_grad():
        for task in json.load(file):
            directory = task["model"]
            if directory not in models:
                models[directory] = SentenceTransformer(directory, device="cpu", model_kwargs={"dtype": torch.float32}).eval()
            print(json.dumps(vectors(models[directory], task["window"], task["passages"])), flush=True)


main()
