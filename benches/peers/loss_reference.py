#!/usr/bin/env python3
"""Losses, optimizers and schedules by PyTorch, transformers and sentence-transformers: the reference that dyad-encoder's training is held against.

    .venv/bin/python benches/peers/loss_reference.py --out encoder/tests/golden

(`deploy/venv.sh` makes the environment) writes `loss.json` and `optim.json`. Inputs are sines of a place and a seed, so that
the tests make the same ones; every loss here is written from its paper's equation and differentiated by autograd in f64; Matryoshka's is sentence-transformers'.
"""

import argparse
import json
import math
import pathlib

import torch
from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss, MultipleNegativesRankingLoss
from torch.nn import functional
from transformers import get_scheduler
from transformers.optimization import Adafactor

STEPS = 5
SHAPES = {"matrix": (3, 4), "vector": (5,), "cube": (2, 3, 4)}
SCHEDULED = 16


def values(shape: tuple[int, ...], seed: float) -> torch.Tensor:
    """The sines that the tests draw too: rounded to f32, held in f64."""
    values = [math.sin((place + 1) * 12.9898 + seed * 78.233) * 1.5 for place in range(math.prod(shape))]
    return torch.tensor(values, dtype=torch.float64).float().double().reshape(shape)


def learned(shape: tuple[int, ...], seed: float) -> torch.Tensor:
    return values(shape, seed).requires_grad_()


def record(value: torch.Tensor, **inputs: torch.Tensor) -> dict:
    gradients = torch.autograd.grad(value, list(inputs.values()), allow_unused=True)
    named = {name: None if gradient is None else gradient.flatten().tolist() for name, gradient in zip(inputs, gradients)}
    return {"value": value.item(), "gradients": named}


def in_batch(cosine: bool, log_temperature: torch.Tensor, symmetric: bool, left_out: list[tuple[int, int]]) -> dict:
    """Ni et al. 2022, equations 1 and 2: three questions, their answers, four hard negatives."""
    questions, documents = learned((3, 5), 1), learned((7, 5), 2)
    q, d = (functional.normalize(questions), functional.normalize(documents)) if cosine else (questions, documents)
    scores = q @ d.T / log_temperature.exp()
    mask = torch.zeros(3, 7, dtype=torch.bool)
    for row, column in left_out:
        mask[row, column] = True
    scores = scores.masked_fill(mask, -torch.inf)
    loss = functional.cross_entropy(scores, torch.arange(3))
    if symmetric:
        loss = loss + functional.cross_entropy(scores[:, :3].T, torch.arange(3))
    inputs = {"questions": questions, "documents": documents}
    if log_temperature.requires_grad:
        inputs["log_temperature"] = log_temperature
    return record(loss, **inputs)


def in_batch_cases() -> dict:
    fixed = lambda temperature: torch.tensor(math.log(temperature), dtype=torch.float64)
    mask = [(0, 1), (0, 4), (1, 6), (2, 0)]
    return {
        "cosine": in_batch(True, fixed(0.05), False, []),
        "inner_product_symmetric": in_batch(False, fixed(1.0), True, []),
        "learned_masked_symmetric": in_batch(True, fixed(0.2).requires_grad_(), True, mask),
    }


class Embedded(torch.nn.Module):
    """A model whose vectors are what it is given, as sentence-transformers' losses ask one for them."""

    def forward(self, features: dict) -> dict:
        return dict(features)

    def get_embedding_dimension(self) -> int:
        return 6


def matryoshka(weights: list[float] | None, negatives: list[int]) -> dict:
    """sentence-transformers' own class, over its own softmax; negatives are further columns."""
    questions, answers = learned((3, 6), 1), learned((3 + len(negatives), 6), 2)
    model = Embedded()
    # A column of negatives is a batch of its own: of as many rows as there are questions, those that lack one repeat nothing.
    softmax = MultipleNegativesRankingLoss(model, scale=20.0)
    loss = MatryoshkaLoss(model, softmax, [6, 2, 3], weights)
    columns = [questions, answers[:3]] + ([answers[3:]] if negatives else [])
    value = loss([{"sentence_embedding": column} for column in columns], None)
    return record(value, questions=questions, answers=answers)


def kl(temperature: float, missing: list[tuple[int, int]]) -> dict:
    own, teacher = learned((3, 4), 3), values((3, 4), 4)
    mask = torch.zeros(3, 4, dtype=torch.bool)
    for row, column in missing:
        mask[row, column] = True
    own_log = (own / temperature).masked_fill(mask, -torch.inf).log_softmax(1)
    teacher_log = (teacher / temperature).masked_fill(mask, -torch.inf).log_softmax(1)
    terms = (teacher_log.exp() * (teacher_log - own_log))[~mask]
    return record(terms.sum() / 3, own=own)


def margin_mse(missing: list[tuple[int, int]]) -> dict:
    """Hofstätter et al. 2020, equation 3; the first candidate is the positive."""
    own, teacher = learned((3, 4), 3), values((3, 4), 4)
    keep = torch.ones(3, 3, dtype=torch.bool)
    for row, column in missing:
        keep[row, column - 1] = False
    margin = lambda scores: (scores[:, :1] - scores[:, 1:])[keep]
    return record(functional.mse_loss(margin(own), margin(teacher)), own=own)


def geometry(width: float | None, cross_learns: bool) -> dict:
    """Wang et al. 2021, equations 6 to 12."""
    names = {"dual_questions": (4, 5), "dual_answers": (4, 5), "cross_questions": (4, 6), "cross_answers": (4, 6)}
    inputs = {name: learned(shape, 10 + at) for at, (name, shape) in enumerate(names.items())}
    weights = {"a_q": 0.5, "q_q": 3.0, "q_a": 0.25, "a_a": 2.0}

    def log_probabilities(of: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        if width is None:
            return (given @ of.T).log_softmax(1)
        squares = (given[:, None, :] - of[None, :, :]).square().sum(2)
        return (-squares / width).exp().log_softmax(1)

    terms = {}
    for name in weights:
        side = {"q": "questions", "a": "answers"}
        of, given = (side[part] for part in name.split("_"))
        cross = log_probabilities(inputs[f"cross_{of}"], inputs[f"cross_{given}"])
        dual = log_probabilities(inputs[f"dual_{of}"], inputs[f"dual_{given}"])
        cross = cross if cross_learns else cross.detach()
        terms[name] = (cross.exp() * (cross - dual)).sum() / 4
    found = record(sum(weights[name] * term for name, term in terms.items()), **inputs)
    return found | {"terms": {name: term.item() for name, term in terms.items()}}


# Of the cross side: values of a token vector, heads, values between the maps of the feed-forward block, and of the aggregator.
SIZE, HEADS, WIDE, INNER, HOPS = 6, 2, 8, 4, 2
# Tokens of each question and each answer, in the order of the texts.
QUESTION_TOKENS, ANSWER_TOKENS = (3, 1, 2), (2, 4, 1)
SIDE = {
    "attention.query.weight": (SIZE, SIZE),
    "attention.key.weight": (SIZE, SIZE),
    "attention.value.weight": (SIZE, SIZE),
    "attention.output.weight": (SIZE, SIZE),
    "feed_forward.widen.weight": (WIDE, SIZE),
    "feed_forward.widen.bias": (WIDE,),
    "feed_forward.narrow.weight": (SIZE, WIDE),
    "feed_forward.narrow.bias": (SIZE,),
    "norm.weight": (SIZE,),
    "norm.bias": (SIZE,),
    "w1.weight": (INNER, SIZE),
    "w2.weight": (HOPS, INNER),
}


def scattered(shape: tuple[int, ...], seed: float) -> torch.Tensor:
    """As `values`, from -1.5 to 1.5 and without the sine's regularity, by which rows of a matrix would be sums of two others."""
    large = [math.sin((place + 1) * 12.9898 + seed * 78.233) * 43758.5453 for place in range(math.prod(shape))]
    values = [3 * (value - math.floor(value)) - 1.5 for value in large]
    return torch.tensor(values, dtype=torch.float64).float().double().reshape(shape).requires_grad_()


def cross_vector(own: torch.Tensor, other: torch.Tensor, maps: dict[str, torch.Tensor], multi_hop: bool) -> torch.Tensor:
    """Wang et al. 2021, equations 2 to 4, of one text and its match; then the mean, or Lin et al. 2017, equation 6."""
    query, key, value = (
        (side @ maps[f"attention.{name}.weight"].T).unflatten(1, (HEADS, -1)).transpose(0, 1)
        for name, side in [("query", other), ("key", own), ("value", own)]
    )
    heads = functional.scaled_dot_product_attention(query, key, value)
    refined = heads.transpose(0, 1).flatten(1) @ maps["attention.output.weight"].T
    wide = functional.linear(refined, maps["feed_forward.widen.weight"], maps["feed_forward.widen.bias"])
    forward = functional.linear(
        functional.gelu(wide), maps["feed_forward.narrow.weight"], maps["feed_forward.narrow.bias"]
    )
    tokens = functional.layer_norm(refined + forward, (SIZE,), maps["norm.weight"], maps["norm.bias"], 1e-12)
    if not multi_hop:
        return tokens.mean(0)
    weights = ((tokens @ maps["w1.weight"].T).tanh() @ maps["w2.weight"].T).softmax(0)
    return (weights.T @ tokens).flatten()


def endx(multi_hop: bool, one_side: bool, cross_learns: bool) -> dict:
    """Wang et al. 2021, equation 13 with 1, 5 and 12: from token vectors, maps and the dual side's vectors to one loss."""
    tokens = {"questions": QUESTION_TOKENS, "answers": ANSWER_TOKENS}
    inputs = {name: scattered((sum(lengths), SIZE), 40 + at) for at, (name, lengths) in enumerate(tokens.items())}
    inputs |= {f"dual_{name}": scattered((3, 5), 42 + at) for at, name in enumerate(tokens)}
    sides = ["both"] if one_side else ["question", "answer"]
    names = [name for name in SIDE if multi_hop or not name.startswith("w")]
    for at, side in enumerate(sides):
        inputs |= {f"{side}/{name}": scattered(SIDE[name], 50 + 20 * at + list(SIDE).index(name)) for name in names}
    texts = {name: inputs[name].split(lengths) for name, lengths in tokens.items()}
    of_side = lambda side: {name: inputs[f"{side}/{name}"] for name in names}

    def vectors(own: str, other: str, side: str) -> torch.Tensor:
        pairs = zip(texts[own], texts[other])
        return torch.stack([cross_vector(left, right, of_side(side), multi_hop) for left, right in pairs])

    cross = {
        "questions": vectors("questions", "answers", sides[0]),
        "answers": vectors("answers", "questions", sides[-1]),
    }
    dual = {name: inputs[f"dual_{name}"] for name in tokens}

    def in_batch_loss(side: dict[str, torch.Tensor]) -> torch.Tensor:
        return functional.cross_entropy(side["questions"] @ side["answers"].T, torch.arange(3))

    def term(of: str, given: str) -> torch.Tensor:
        own, guide = ((side[given] @ side[of].T).log_softmax(1) for side in (dual, cross))
        guide = guide if cross_learns else guide.detach()
        return (guide.exp() * (guide - own)).sum() / 3

    weighed = [("answers", "questions", 0.5), ("questions", "questions", 3.0), ("questions", "answers", 0.25)]
    geometry_loss = sum(weight * term(of, given) for of, given, weight in [*weighed, ("answers", "answers", 2.0)])
    losses = {"dual": in_batch_loss(dual), "cross": in_batch_loss(cross), "geometry": geometry_loss}
    whole = 0.3 * losses["dual"] + 0.2 * losses["cross"] + 0.5 * losses["geometry"]
    found = record(whole, **inputs) | {name: loss.item() for name, loss in losses.items()}
    return found | {"vectors": {name: vector.flatten().tolist() for name, vector in cross.items()}}


def losses() -> dict:
    return {
        "in_batch": in_batch_cases(),
        "matryoshka": {
            "plain": matryoshka(None, []),
            "weighted_negatives": matryoshka([0.5, 2.0, 0.25], [0, 1, 2, 0]),
        },
        "kl": {"plain": kl(1.0, []), "masked": kl(2.0, [(0, 3), (2, 1)])},
        "margin_mse": {"plain": margin_mse([]), "masked": margin_mse([(0, 3), (2, 1)])},
        "geometry": {
            "inner_product": geometry(None, False),
            "gaussian": geometry(4.0, False),
            "cross_learns": geometry(None, True),
        },
        "endx": {
            "two_sides": endx(True, False, False),
            "one_side_learns": endx(True, True, True),
            "mean": endx(False, False, False),
        },
    }


def steps(make) -> dict:
    """Values after the first and the last step; gradients depend on the step alone."""
    tensors = {name: values(shape, 20 + at).float().requires_grad_() for at, (name, shape) in enumerate(SHAPES.items())}
    optimizer = make(list(tensors.values()))
    after = {}
    for step in range(1, STEPS + 1):
        for at, tensor in enumerate(tensors.values()):
            tensor.grad = (values(tuple(tensor.shape), 100 * step + at) * 0.7).float()
        optimizer.step()
        if step in (1, STEPS):
            after[str(step)] = {name: tensor.detach().flatten().tolist() for name, tensor in tensors.items()}
    return after


def optimizers() -> dict:
    relative = {"scale_parameter": True, "relative_step": True}
    external = {"lr": 1e-2, "scale_parameter": False, "relative_step": False}
    return {
        "adamw": {
            "decayed": steps(lambda tensors: torch.optim.AdamW(tensors, lr=1e-2, weight_decay=0.1)),
            "other_betas": steps(lambda t: torch.optim.AdamW(t, lr=3e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.0)),
        },
        "adafactor": {
            "relative": steps(lambda tensors: Adafactor(tensors, **relative)),
            "relative_warm_up": steps(lambda tensors: Adafactor(tensors, **relative, warmup_init=True)),
            "papers": steps(lambda t: Adafactor(t, lr=1e-3, scale_parameter=True, relative_step=False)),
            "external": steps(lambda tensors: Adafactor(tensors, **external)),
            "external_decayed": steps(lambda tensors: Adafactor(tensors, **external, weight_decay=0.1)),
            "momentum": steps(lambda tensors: Adafactor(tensors, **external, beta1=0.9, clip_threshold=0.5)),
            "everything": steps(lambda t: Adafactor(t, **relative, beta1=0.9, weight_decay=0.1, decay_rate=-0.5)),
        },
        "schedules": {
            "constant": schedule("constant", 0, 12),
            "constant_warm_up": schedule("constant_with_warmup", 4, 12),
            "linear": schedule("linear", 0, 12),
            "linear_warm_up": schedule("linear", 4, 12),
            "inverse_square_root": schedule("inverse_sqrt", 4, 12),
        },
    }


def schedule(name: str, warm_up: int, total: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = get_scheduler(name, optimizer, num_warmup_steps=warm_up, num_training_steps=total)
    factors = []
    for _ in range(SCHEDULED):
        factors.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return factors


def compact(value: dict, indent: str = "") -> str:
    """JSON with a list on a line, and numbers of ten digits."""
    if isinstance(value, dict):
        inner = ",\n".join(f"{indent} {json.dumps(key)}: {compact(part, indent + ' ')}" for key, part in value.items())
        return f"{{\n{inner}\n{indent}}}"
    if isinstance(value, list):
        return "[" + ", ".join(compact(part) for part in value) + "]"
    return json.dumps(float(f"{value:.10g}") if isinstance(value, float) else value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, value in [("loss", losses()), ("optim", optimizers())]:
        (arguments.out / f"{name}.json").write_text(compact(value) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
