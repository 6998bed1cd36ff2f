"""Peers of `dyad-bench encode`: worker.py is the protocol, engines.py the names, the other modules one family of engines each."""
