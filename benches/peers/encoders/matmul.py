"""The machine's limit: a large product of square matrices by PyTorch."""

import time

import torch

# Rows and columns: 34 GFLOP on a processor; more where that is nothing.
SIZE = {"cpu": 2560, "cuda": 8192}
TRIES = 5
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class Matmul:
    """Products of one number type, the fastest of several."""

    dtype = "f32"
    settings = f"torch.mm of {SIZE['cpu']} x {SIZE['cpu']} matrices ({SIZE['cuda']} on cuda), fastest of {TRIES}"

    def __init__(self):
        self.version = torch.__version__

    def multiply(self, dtype, device, threads):
        """GFLOP/s."""
        if dtype not in DTYPES:
            raise ValueError(f"dtype: expected one of {', '.join(DTYPES)}, got {dtype!r}")
        torch.set_num_threads(threads)
        place = torch.device(device)
        size = SIZE[place.type]
        generator = torch.Generator().manual_seed(0)
        left, right = (torch.randn(size, size, generator=generator).to(place, DTYPES[dtype]) for _ in range(2))
        out = torch.empty(size, size, device=place, dtype=DTYPES[dtype])
        least = float("inf")
        with torch.inference_mode():
            for _ in range(TRIES):
                started = time.perf_counter()
                torch.mm(left, right, out=out)
                if place.type == "cuda":
                    torch.cuda.synchronize(place)
                least = min(least, time.perf_counter() - started)
        return 2 * size**3 / least / 1e9
