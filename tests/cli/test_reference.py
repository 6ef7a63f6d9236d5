"""The pages about the command line and the settings say what the program does."""

import re
import tomllib

import pytest

from normdiag import config
from normdiag.cli.reference import format_command_line_page, format_settings_page, list_commands

SETTINGS = format_settings_page()


def test_every_command_and_every_option_is_on_the_page():
    page = format_command_line_page()
    for name, command in list_commands():
        assert f"## `normdiag {name}" in page
        options = [each for each in command.params if each.param_type_name == "option"]
        assert all(f"`{spelling}`" in page for each in options for spelling in each.opts)


def test_every_setting_is_on_its_page():
    assert re.findall(r"^\| `(\w+)` \|", SETTINGS, re.MULTILINE) == list(config.KEYS)


def test_every_link_within_the_page_has_its_heading():
    page = format_command_line_page()
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#(.*?)\)", page)) <= anchors


@pytest.mark.parametrize("block", re.findall(r"```toml\n(.*?)```", SETTINGS, re.DOTALL))
def test_the_examples_are_settings(tmp_path, block):
    path = tmp_path / "normdiag.toml"
    path.write_text(block, encoding="utf-8")
    settings = config.find_settings(tmp_path)
    assert settings.path == path
    assert tomllib.loads(block)
