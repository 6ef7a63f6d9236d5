"""The other tools that `compare_peers.py` runs, one to a file, and the models it runs them on."""
