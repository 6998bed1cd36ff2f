"""The checkpoints of st_checkpoints.py: vocabulary.py texts and tokenizers, networks.py random transformers, layouts.py folders."""
