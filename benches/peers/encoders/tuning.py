"""Trying an engine's own settings on some of the texts."""

import time

BATCHES = [16, 32, 64, 128]
GPU_BATCHES = [64, 128, 256, 512, 1024, 2048]


def sample(texts, batches):
    """Evenly spaced texts, so that all lengths are among them, and enough for two of the largest batches; all where there are few."""
    tried = 2 * max(batches)
    if len(texts) <= tried:
        return texts
    return [texts[at * len(texts) // tried] for at in range(tried)]


def fastest(settings, run):
    """The setting whose `run` takes least of two tries each; the first try of all warms up."""
    run(settings[0])
    best, least = settings[0], float("inf")
    for setting in settings:
        for _ in range(2):
            started = time.perf_counter()
            run(setting)
            seconds = time.perf_counter() - started
            if seconds < least:
                best, least = setting, seconds
    return best
