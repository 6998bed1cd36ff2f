#!/usr/bin/env python3
"""How transformers initialises the tensors of a model by its config.json: the oracle of `dyad-encoder create --from-scratch`.

    .venv/bin/python benches/peers/hf_initial.py DIR...

(`deploy/venv.sh` makes the environment.) Prints a line of JSON per directory: its path, and of every tensor name, shape, mean and
standard deviation, initialised with seed 0. No weights are read.
"""

import argparse
import json

import torch
from transformers import AutoConfig, AutoModel, T5EncoderModel


def initial(directory: str) -> dict[str, dict]:
    """Shape, mean and deviation of each tensor of a new model."""
    config = AutoConfig.from_pretrained(directory)
    torch.manual_seed(0)
    model = T5EncoderModel(config) if config.model_type == "t5" else AutoModel.from_config(config)
    return {
        name: {"shape": list(tensor.shape), "mean": tensor.mean().item(), "deviation": tensor.std(correction=0).item()}
        for name, tensor in model.state_dict().items()
        if tensor.is_floating_point()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="+", metavar="DIR", help="with a config.json")
    for directory in parser.parse_args().directories:
        print(json.dumps({"directory": directory, "tensors": initial(directory)}))


if __name__ == "__main__":
    main()
