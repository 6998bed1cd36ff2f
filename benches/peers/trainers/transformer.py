"""sentence-transformers: the step of its trainer."""

import contextlib

import sentence_transformers
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.losses import MultipleNegativesRankingLoss

NORM = 1.0


class SentenceTransformers:
    """One model in training."""

    def __init__(self, dropout, bf16=False):
        versions = f"transformers {transformers.__version__}, torch {torch.__version__}"
        self.version = f"{sentence_transformers.__version__} ({versions})"
        self.dropout, self.bf16 = dropout, bf16
        mode = "with" if dropout else "without"
        self.settings = f"MultipleNegativesRankingLoss, clipping to norm {NORM}, AdamW(fused=True), {'autocast to bf16' if bf16 else 'f32'}, {mode} dropout"
        self.device = torch.device("cpu")
        self.model = self.loss = self.optimizer = None

    def open(self, request):
        """Loads the model onto the device, and makes loss and optimizer."""
        torch.set_num_threads(int(request["threads"]))
        torch.manual_seed(0)
        self.device = torch.device(request["device"])
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device: torch {torch.__version__} sees no GPU, got {request['device']!r}")
        # Without a dtype, transformers 5 takes that of the file.
        f32 = {"dtype": torch.float32}
        self.model = SentenceTransformer(request["model"], device=request["device"], model_kwargs=f32)
        self.model.train(self.dropout)
        self.loss = MultipleNegativesRankingLoss(self.model, scale=1.0 / request["temperature"])
        learned = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(learned, lr=request["learning_rate"], weight_decay=0.0, fused=True)

    def collate(self, pairs):
        """A batch as the trainer's collator makes it: each column padded to its longest text. Also real and padded tokens."""
        columns = [self.model.preprocess(list(texts)) for texts in zip(*pairs, strict=True)]
        features, counts = [], [0, 0]
        for column in columns:
            counts[0] += int(column["attention_mask"].sum())
            counts[1] += column["attention_mask"].numel()
            features.append({k: v.to(self.device) if torch.is_tensor(v) else v for k, v in column.items()})
        return features, counts

    def step(self, features):
        """One step; the loss before it."""
        # The modules write into what they are given.
        bf16 = torch.autocast(self.device.type, dtype=torch.bfloat16) if self.bf16 else contextlib.nullcontext()
        with bf16:
            loss = self.loss([dict(column) for column in features], None)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), NORM)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def synchronize(self):
        """Waits for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
