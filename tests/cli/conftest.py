"""What the tests of commands share."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from cli.main import run
from testing.commands import COLOURS, Said, Tidings


@pytest.fixture
def tidings(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tidings:
    """Runs a command in this process, in a folder of its own, with no setting from outside."""
    monkeypatch.chdir(tmp_path)
    for variable in [*COLOURS, *(name for name in os.environ if name.startswith("TIDINGS_"))]:
        monkeypatch.delenv(variable, raising=False)

    def command(*arguments: str, stdin: str = "") -> Said:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run(arguments)
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Said(ended.value.code, out, err)

    return command
