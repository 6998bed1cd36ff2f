"""Texts, and a tiny tokenizer of each kind, built and saved by the classes of transformers themselves."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import BertTokenizer, MPNetTokenizer, RobertaTokenizer, T5Tokenizer

WORDS = (
    "the a of and who what is was in to query passage river city mountain king queen water light sun moon house bread "
    "salt gold silver north south east west summer winter \u4f60 \u597d"
).split()
MARKS = ", . ? ! : ' - ( )".split()
LETTERS = list("abcdefghijklmnopqrstuvwxyz0123456789")
ENDINGS = ["s", "ed", "ing", "er", "ly"]

# Short, long (more tokens than any model here reads), unknown letters, accents, control characters.
TEXTS = [
    "Who was the king of the city?",
    "the queen",
    "water, light and mountain rivers",
    "a",
    "\u4f60\u597d the R\u00edver",
    "\u0001",
    "gold and silver: the bread (and salt) of the north in winter",
    "the moon is in the east, the sun was in the west - who walked to the house of the queen, and what was the light?",
    "the river of the city and the mountain of the king and the queen of the water and the light " * 4,
]


def word_pieces(special: list[str], last: list[str] | None = None) -> dict[str, int]:
    """A WordPiece vocabulary, special tokens first."""
    pieces = [*special, *WORDS, *MARKS, *LETTERS, *(f"##{piece}" for piece in ENDINGS + LETTERS), *(last or [])]
    # `a` is a word and a letter: ids without a gap, so that the table has a row for the last.
    return {piece: at for at, piece in enumerate(dict.fromkeys(pieces))}


def bert(max_tokens: int) -> BertTokenizer:
    """WordPiece between [CLS] and [SEP]; also DistilBERT's and DPR's."""
    return BertTokenizer(vocab=word_pieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]), model_max_length=max_tokens)


def mpnet(max_tokens: int) -> MPNetTokenizer:
    """WordPiece between <s> and </s>, padding id 1."""
    vocab = word_pieces(["<s>", "<pad>", "</s>", "[UNK]"], ["<mask>"])
    return MPNetTokenizer(vocab=vocab, model_max_length=max_tokens)


def roberta(max_tokens: int) -> RobertaTokenizer:
    """BPE over bytes, trained on the texts, between <s> and </s>, padding id 1."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    trained.train_from_iterator(TEXTS, trainer)
    vocab = trained.get_vocab()
    vocab["<mask>"] = len(vocab)
    # Merges in the order of the ids that they make: a merged piece's id is its rank.
    merges = []
    for piece, at in sorted(vocab.items(), key=lambda item: item[1]):
        if len(piece) > 1 and piece not in special and piece != "<mask>":
            merges.append(_halves(piece, vocab, at))
    return RobertaTokenizer(vocab=vocab, merges=merges, model_max_length=max_tokens)


def _halves(piece: str, vocab: dict[str, int], at: int) -> tuple[str, str]:
    """Two earlier pieces that make this one."""
    for cut in range(1, len(piece)):
        left, right = piece[:cut], piece[cut:]
        if vocab.get(left, at) < at and vocab.get(right, at) < at:
            return left, right
    raise ValueError(f"{piece!r}: no two earlier pieces make it")


def t5(max_tokens: int) -> T5Tokenizer:
    """Unigram pieces with U+2581 for a space, </s> behind the text, padding id 0."""
    space = "\u2581"
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), (space, -2.0)]
    pieces += [(space + word, -3.0 - 0.05 * at) for at, word in enumerate(WORDS)]
    pieces += [(piece, -5.0 - 0.05 * at) for at, piece in enumerate(MARKS + ENDINGS)]
    pieces += [(letter, -8.0 - 0.05 * at) for at, letter in enumerate(LETTERS)]
    pieces += [("<extra_id_1>", 0.0), ("<extra_id_0>", 0.0)]
    return T5Tokenizer(vocab=pieces, extra_ids=2, model_max_length=max_tokens)
