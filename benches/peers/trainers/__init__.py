"""Engines of `dyad-bench train-step`: see train_step.py."""
