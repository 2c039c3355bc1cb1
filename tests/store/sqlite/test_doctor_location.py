"""Checks of the place of a store: disks, file systems, sizes."""

import shutil
from pathlib import Path

import pytest

from rekindle.store.sqlite.doctor_location import (
    check_disk,
    file_system_of,
    mounts_of_linux,
    mounts_of_macos,
    size,
)

MOUNTINFO = r"""
22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:40 / /home/me/My\040files rw,relatime shared:5 - nfs4 host:/x rw
31 22 0:41 / /home/me rw - btrfs /dev/sdb rw
32 22 0:42 / /mnt rw - ext4 /dev/sdc rw
33 22 0:43 / /mnt rw - cifs //host/x rw
"""
MOUNT = """
/dev/disk1 on / (apfs, local, journaled)
//me@host/share on /Volumes/share (smbfs, nodev, nosuid)
"""


@pytest.mark.parametrize(
    ("free", "level"),
    [(0, "problem"), (500_000, "problem"), (50_000_000, "warning"), (10**10, "ok")],
)
def test_a_full_disk_is_a_problem(
    tmp_path: Path, free: int, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", {path.parent: usage}.__getitem__)
    (finding,) = [it for it in check_disk(path) if "free" in it.facts]
    assert finding.severity == level
    assert bool(finding.remedy) == (level != "ok")


def test_the_nearest_mount_decides_the_file_system() -> None:
    linux, macos = mounts_of_linux(MOUNTINFO), mounts_of_macos(MOUNT)
    assert file_system_of(Path("/home/me/My files/x"), linux) == "nfs4"
    assert file_system_of(Path("/home/me/other"), linux) == "btrfs"
    assert file_system_of(Path("/home/mean"), linux) == "ext4"
    assert file_system_of(Path("/mnt/x"), linux) == "cifs"
    assert file_system_of(Path("/Volumes/share/x"), macos) == "smbfs"
    assert file_system_of(Path("/Users/me"), macos) == "apfs"
    assert file_system_of(Path("/x"), []) is None


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (2.5e9, "2.5 GB")]
)
def test_sizes_are_formatted_with_one_unit(amount: float, text: str) -> None:
    assert size(amount) == text
