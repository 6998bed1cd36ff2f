"""Trying an engine's own settings on some of the texts."""

import time

BATCHES = [16, 32, 64, 128]
# Texts tried: evenly spaced, so that all lengths are among them, and enough for two of the largest batches.
TRIED = 256


def sample(texts):
    """Evenly spaced texts, all of them where there are few."""
    if len(texts) <= TRIED:
        return texts
    return [texts[at * len(texts) // TRIED] for at in range(TRIED)]


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
