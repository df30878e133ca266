"""Files and folders of the desktop, and files that steps have left on the worker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from desktops.worker.checkers import readers
from desktops.worker.checkers.bench import Bench, in_home
from desktops.worker.checkers.errors import ArtefactMissing
from desktops.worker.guest_client import GuestFileMissing, GuestRefused

from .registry import getter

MAX_TREE_DEPTH = 20


@getter("vm_file")
def vm_file(bench: Bench, parameters: Mapping[str, Any]) -> Path | list[Path]:
    """A file copied to the worker; with `multi` several, of which those at `gives` are handed on."""
    if not parameters.get("multi"):
        return bench.fetch(str(parameters["path"]), str(parameters.get("dest") or ""))
    paths, names = parameters["path"], parameters["dest"]
    fetched = [bench.fetch(path, name) for path, name in zip(paths, names, strict=True)]
    wanted = [fetched[index] for index in parameters.get("gives", range(len(fetched)))]
    return wanted[0] if len(wanted) == 1 else wanted


@getter("cache_file")
def cache_file(bench: Bench, parameters: Mapping[str, Any]) -> Path:
    """A file that an earlier step left on the worker (its `stdout`)."""
    path = bench.folder / PurePosixPath(str(parameters["path"])).name
    if not path.is_file():
        raise ArtefactMissing(f"no step has left {path.name}")
    bench.fetched[path.name] = bench.folder / f".copy-{path.name}"
    bench.fetched[path.name].write_bytes(path.read_bytes())
    return bench.fetched[path.name]


@getter("list_directory")
def list_directory(bench: Bench, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A folder as a tree: {type: directory | file, name, children}."""
    path = PurePosixPath(in_home(str(parameters["path"])))
    return _tree(bench, path, MAX_TREE_DEPTH)


def _tree(bench: Bench, path: PurePosixPath, depth: int) -> dict[str, Any]:
    try:
        entries = bench.guest.list_dir(str(path))
    except (GuestFileMissing, GuestRefused) as error:
        raise ArtefactMissing(f"there is no folder {path}") from error
    children = [
        _tree(bench, path / entry.name, depth - 1)
        if entry.kind == "folder" and depth
        else {"type": "file", "name": entry.name}
        for entry in entries
    ]
    return {"type": "directory", "name": path.name, "children": children}


@getter("content_from_vm_file")
def content_from_vm_file(bench: Bench, parameters: Mapping[str, Any]) -> Any:
    """A part of a file: the last row of an xlsx as a list of texts, or all of a docx or text file."""
    path = bench.fetch(str(parameters["path"]))
    kind, part = parameters["file_type"], parameters["file_content"]
    if kind == "xlsx" and part == "last_row":
        rows = list(readers.workbook(path, values=True).worksheets[0].iter_rows(values_only=True))
        filled = [row for row in rows if any(cell is not None for cell in row)]
        if not filled:
            raise ArtefactMissing(f"{path.name} has no rows")
        return ["" if cell is None else str(cell) for cell in filled[-1]]
    if kind == "docx":
        return "\n".join(paragraph.text for paragraph in readers.writer(path).paragraphs)
    return readers.text(path)
