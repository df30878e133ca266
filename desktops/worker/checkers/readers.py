"""Open what a desktop made. Whatever cannot be read as what it should be raises Unreadable."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import docx
import docx.document
import docx.opc.exceptions
import numpy as np
import openpyxl
import openpyxl.utils.exceptions
import pptx
import pptx.exc
import pptx.presentation
import yaml
from lxml import etree
from numpy.typing import NDArray
from PIL import Image

from .errors import Unreadable

Array = NDArray[np.float64]

# What the libraries for office files raise when the file is not one.
_NO_OFFICE_FILE = (
    ValueError,
    KeyError,
    OSError,
    zipfile.BadZipFile,
    etree.XMLSyntaxError,
    docx.opc.exceptions.PackageNotFoundError,
    pptx.exc.PackageNotFoundError,
    openpyxl.utils.exceptions.InvalidFileException,
)


def text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{path.name} is not text in UTF-8") from error


def lines(path: Path) -> list[str]:
    return text(path).splitlines()


def json_value(path: Path) -> Any:
    """JSON; with comments and trailing commas, as editors write their settings, it is read too."""
    content = text(path)
    try:
        return json.loads(content)
    except ValueError:
        # Strings are matched first, so that a // inside one is left alone.
        bare = re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', r"\1", content, flags=re.DOTALL)
        bare = re.sub(r",(\s*[}\]])", r"\1", bare)
    try:
        return json.loads(bare)
    except ValueError as error:
        raise Unreadable(f"{path.name} is not JSON: {error}") from error


def yaml_value(path: Path) -> Any:
    try:
        return yaml.safe_load(text(path))
    except yaml.YAMLError as error:
        raise Unreadable(f"{path.name} is not YAML") from error


def csv_rows(path: Path) -> list[dict[str, str]]:
    try:
        return [dict(row) for row in csv.DictReader(lines(path))]
    except csv.Error as error:
        raise Unreadable(f"{path.name} is not CSV: {error}") from error


def xml(source: Path | str) -> Any:
    """The root element of a file or of a text."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    data = source.read_bytes() if isinstance(source, Path) else source.encode()
    name = source.name if isinstance(source, Path) else "the tree"
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise Unreadable(f"{name} is not XML: {error}") from error


def writer(path: Path) -> docx.document.Document:
    try:
        return docx.Document(str(path))
    except _NO_OFFICE_FILE as error:
        raise Unreadable(f"{path.name} is not a Word document") from error


def impress(path: Path) -> pptx.presentation.Presentation:
    try:
        return pptx.Presentation(str(path))
    except _NO_OFFICE_FILE as error:
        raise Unreadable(f"{path.name} is not a PowerPoint presentation") from error


def workbook(path: Path, *, values: bool) -> Any:
    """An Excel workbook: its computed values, or its formulas."""
    try:
        return openpyxl.load_workbook(path, data_only=values)
    except _NO_OFFICE_FILE as error:
        raise Unreadable(f"{path.name} is not an Excel workbook") from error


def image(path: Path) -> Image.Image:
    try:
        with Image.open(path) as picture:
            picture.load()
            return picture.copy()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise Unreadable(f"{path.name} is not a picture") from error


def rows(path: Path, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """What a query on an SQLite file gives."""
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        return list(connection.execute(sql, parameters))
    except sqlite3.DatabaseError as error:
        raise Unreadable(f"{path.name} cannot be queried: {error}") from error
    finally:
        connection.close()


def registry_value(path: Path, node: str, name: str) -> str | None:
    """One value of LibreOffice's registrymodifications.xcu; None when it is at its default."""
    oor = "{http://openoffice.org/2001/registry}"
    found = None
    for item in xml(path).iter("item"):
        if item.get(f"{oor}path") != node:
            continue
        for prop in item.iter("prop"):
            if prop.get(f"{oor}name") == name:
                value = prop.find("value")
                found = "" if value is None else (value.text or "")
    return found
