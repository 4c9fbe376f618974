"""The file Chainlit loads: `chainlit run bot/web/chainlit_app.py` works for development.

Only `raise-chat serve` adds the origin check, the headers, the closed routes, the help page and the clean-up of files.
Chainlit executes this file without registering it as a module, so the handlers live in `bot.web.chat`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bot.web import chat

__all__ = ["chat"]
