"""ONLINE: one conversation, turn by turn. Start reading at `bot.dialogue`."""

import os

# Read by numpy when it is imported. Its helper threads spin while they wait, and cost the chat more than they save it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
