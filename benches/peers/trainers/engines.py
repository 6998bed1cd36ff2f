"""The engines by name. sentence-transformers is imported only when one of its names is asked for."""

# name -> whether the model's dropout is on, and whether products are in bf16
_TABLE = {
    "sentence-transformers": (True, False),
    "sentence-transformers-no-dropout": (False, False),
    "sentence-transformers-bf16-no-dropout": (False, True),
}
NAMES = list(_TABLE)


def create(name):
    """The engine of that name; raises what its import or its constructor raises."""
    from trainers.transformer import SentenceTransformers

    return SentenceTransformers(*_TABLE[name])
