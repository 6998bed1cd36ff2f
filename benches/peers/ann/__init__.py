"""Peers of `dyad-bench ann`: worker.py is the protocol, engines.py the names, the other modules one family of engines each."""
