"""The documents, writes and questions: the same for every engine."""

import collections
import dataclasses
import math
import random

QUARTERS = 4
QUESTIONS = 200
WORDS_OF_A_TEXT = 20
# A document that was written is left alone for as many writes: clients that write at once do so in any order.
APART = 64
WORDS = "river stone planet music engine field water light north winter paper glass market signal ocean bridge forest metal".split()


@dataclasses.dataclass(frozen=True)
class Write:
    """A document to add or replace; one to delete where it has no vector."""

    number: int
    text: str
    vector: list[float] | None

    @property
    def key(self):
        """The document's key."""
        return f"d{self.number}"


def unit(row):
    """A row of length 1."""
    values = [float(value) for value in row]
    length = math.sqrt(sum(value * value for value in values))
    return [value / length for value in values]


class Plan:
    """Documents that are there before, and writes that follow. Each number is a document's; vectors come in their order."""

    def __init__(self, rows, questions, documents, writes):
        random_of = random.Random(7)
        vectors = iter(rows)

        def text():
            return " ".join(random_of.choice(WORDS) for _ in range(WORDS_OF_A_TEXT))

        self.questions = [unit(question) for question in questions[:QUESTIONS]]
        self.documents = [Write(number, text(), unit(next(vectors))) for number in range(documents)]
        self.writes = []
        settled, recent, following = list(range(documents)), collections.deque(), documents

        def take():
            place = random_of.randrange(len(settled))
            settled[place], settled[-1] = settled[-1], settled[place]
            return settled.pop()

        for step in range(writes):
            kind = step % 4
            if kind < 2:
                written, following = following, following + 1
            else:
                written = take()
            if kind < 3:
                self.writes.append(Write(written, text(), unit(next(vectors))))
                recent.append((step, written))
            else:
                self.writes.append(Write(written, "", None))
            while recent and recent[0][0] + APART < step:
                settled.append(recent.popleft()[1])
        self.live = len(settled) + len(recent)

    def quarters(self):
        """The writes in four parts."""
        bounds = [len(self.writes) * part // QUARTERS for part in range(QUARTERS + 1)]
        return [self.writes[begin:end] for begin, end in zip(bounds, bounds[1:], strict=False)]

    def documents_after(self):
        """Documents that are left after all writes."""
        return self.live
