"""The kinds of derived labelled traces, one file each; `derive_traces.py` is the command."""
