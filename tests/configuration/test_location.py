"""The path of the configuration file, by environment and system."""

from pathlib import Path

import pytest

from rekindle.configuration import location
from rekindle.configuration.location import configuration_path, existing_configuration_path

NAME = "rekindle/config.toml"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("REKINDLE_CONFIG")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(location.sys, "platform", "linux")
    return tmp_path


def write(path: Path) -> str:
    path.parent.mkdir(parents=True)
    path.write_text("")
    return str(path)


def test_the_file_is_in_the_configuration_folder(home: Path) -> None:
    assert configuration_path() == str(home / ".config" / NAME)
    assert existing_configuration_path() is None
    write(home / ".config" / NAME)
    assert existing_configuration_path() == configuration_path()


def test_xdg_names_the_folder_unless_it_is_relative(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "other"))
    assert configuration_path() == str(home / "other" / NAME)
    monkeypatch.setenv("XDG_CONFIG_HOME", "other")
    assert configuration_path() == str(home / ".config" / NAME)


def test_macos_has_two_folders(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location.sys, "platform", "darwin")
    usual = home / "Library" / "Application Support" / NAME
    assert configuration_path() == str(usual)
    other = write(home / ".config" / NAME)
    assert configuration_path() == other
    assert configuration_path() == other
    write(usual)
    assert configuration_path() == str(usual)


def test_the_variable_names_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    for value, path in (("~/a.toml", home / "a.toml"), ("b.toml", home / "b.toml")):
        monkeypatch.setenv("REKINDLE_CONFIG", value)
        assert configuration_path() == str(path)


def test_an_empty_variable_means_no_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / ".config" / NAME)
    monkeypatch.setenv("REKINDLE_CONFIG", "")
    assert configuration_path() is None
    assert existing_configuration_path() is None


def test_an_unknown_home_means_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location.os.path, "expanduser", lambda path: path)
    assert configuration_path() is None
