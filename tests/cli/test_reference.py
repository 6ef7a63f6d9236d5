"""The pages about the command line and the settings say what the program does."""

import re
import tomllib
from pathlib import Path

import pytest

from normdiag import config
from normdiag.cli.reference import commands, markdown

DOCS = Path(__file__).parents[2] / "docs"
CONFIGURATION = (DOCS / "reference/configuration.md").read_text(encoding="utf-8")


def test_every_command_and_every_option_is_on_the_page():
    page = markdown()
    for name, command in commands():
        assert f"## `normdiag {name}" in page
        options = [each for each in command.params if each.param_type_name == "option"]
        assert all(f"`{spelling}`" in page for each in options for spelling in each.opts)


def test_every_setting_is_on_its_page():
    assert re.findall(r"^\| `(\w+)` \|", CONFIGURATION, re.MULTILINE) == list(config.READERS)


@pytest.mark.parametrize("block", re.findall(r"```toml\n(.*?)```", CONFIGURATION, re.DOTALL))
def test_the_examples_are_settings(tmp_path, block):
    path = tmp_path / "normdiag.toml"
    path.write_text(block, encoding="utf-8")
    settings = config.find(tmp_path)
    assert settings.path == path
    assert tomllib.loads(block)
