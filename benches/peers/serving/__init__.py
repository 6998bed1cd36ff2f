"""Peers of `dyad-bench load`: worker.py is the protocol and the client; the search engines are those of `ann`."""
