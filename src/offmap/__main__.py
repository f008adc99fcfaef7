"""python -m offmap."""

from offmap.cli import app

app(prog_name="offmap")
