"""Write the table of docs/failures.md from the rows that the tests run.

usage: python scripts/make_failures.py     (make docs)
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.models.rows import table  # noqa: E402

PAGE = ROOT / "docs" / "failures.md"
BEGIN, END = "<!-- rows: made by scripts/make_failures.py -->", "<!-- end of rows -->"


def filled(page):
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
    print(f"wrote {PAGE.relative_to(ROOT)}", file=sys.stderr)
