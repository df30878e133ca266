"""Metrics on pictures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps
from scipy.ndimage import uniform_filter

from desktops.worker.checkers import readers
from desktops.worker.checkers.readers import Array

from .registry import metric

Rules = Mapping[str, Any]

SAME_STRUCTURE = 0.9  # structural similarity from which two pictures show the same thing
WINDOW = 7  # pixels a side, as is usual for structural similarity


def similarity(one: Image.Image, other: Image.Image) -> float:
    """Structural similarity (SSIM) of two pictures of one size, in grey, −1 to 1."""
    a, b = (np.asarray(picture.convert("L"), dtype=np.float64) for picture in (one, other))
    if a.shape != b.shape or min(a.shape) < WINDOW:
        return 0.0
    mean_a, mean_b = uniform_filter(a, WINDOW), uniform_filter(b, WINDOW)
    sample = WINDOW**2 / (WINDOW**2 - 1)
    var_a = sample * (uniform_filter(a * a, WINDOW) - mean_a**2)
    var_b = sample * (uniform_filter(b * b, WINDOW) - mean_b**2)
    both = sample * (uniform_filter(a * b, WINDOW) - mean_a * mean_b)
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    top = (2 * mean_a * mean_b + c1) * (2 * both + c2)
    bottom = (mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2)
    edge = WINDOW // 2
    return float((top / bottom)[edge:-edge, edge:-edge].mean())


def _grey(picture: Image.Image) -> Array:
    return np.asarray(picture.convert("L"), dtype=np.float64)


@metric("check_image_size")
def check_image_size(found: Path, expected: Rules) -> float:
    """Width and height in pixels, as far as given; `ignore_transparent` measures what is not transparent."""
    picture = readers.image(found)
    width, height = picture.size
    if expected.get("ignore_transparent") and "A" in picture.getbands():
        box = picture.getchannel("A").getbbox()
        width, height = (box[2] - box[0], box[3] - box[1]) if box else (0, 0)
    same_width = expected.get("width") is None or expected["width"] == width
    return float(same_width and (expected.get("height") is None or expected["height"] == height))


@metric("compare_images")
def compare_images(found: Path, expected: Path, *, reference_base_result: float | None = None) -> float:
    """How alike two pictures are, 0 to 1; one of another size is scaled first."""
    one, other = readers.image(found), readers.image(expected)
    if one.size != other.size:
        one = one.resize(other.size)
    value = max(0.0, similarity(one, other))
    if reference_base_result is not None:
        return min(1.0, max(0.0, (value - reference_base_result) / (1 - reference_base_result)))
    return 1.0 if value > 0.999 else value


@metric("check_structure_sim", "check_file_exists_and_structure_sim")
def check_structure_sim(found: Path, expected: Path) -> float:
    """Both pictures show the same thing."""
    return float(similarity(readers.image(found), readers.image(expected)) >= SAME_STRUCTURE)


@metric("check_structure_sim_with_threshold")
def check_structure_sim_with_threshold(
    found: Path, expected: Path, *, ssim_threshold: float = SAME_STRUCTURE
) -> float:
    return float(similarity(readers.image(found), readers.image(expected)) >= ssim_threshold)


@metric("check_structure_sim_resized")
def check_structure_sim_resized(found: Path, expected: Path) -> float:
    """The same thing at another size."""
    one, other = readers.image(found), readers.image(expected)
    return float(similarity(one.resize(other.size), other) >= SAME_STRUCTURE)


@metric("check_brightness_decrease_and_structure_sim")
def check_brightness_decrease_and_structure_sim(
    found: Path, expected: Path, *, threshold: float = 0.03
) -> float:
    """The found picture is darker than the other and, with the same brightness, shows the same thing."""
    one, other = _grey(readers.image(found)), _grey(readers.image(expected))
    if one.shape != other.shape or one.mean() >= other.mean():
        return 0.0
    levelled = [np.clip(grey * 128 / max(grey.mean(), 1), 0, 255) for grey in (one, other)]
    return float(np.mean(((levelled[0] - levelled[1]) / 255) ** 2) < threshold)


@metric("check_contrast_increase_and_structure_sim")
def check_contrast_increase_and_structure_sim(found: Path, expected: Path) -> float:
    """The found picture has more contrast than the other and shows the same thing."""
    one, other = readers.image(found), readers.image(expected)
    return float(_grey(one).std() > _grey(other).std() and similarity(one, other) > 0.65)


@metric("check_image_mirror")
def check_image_mirror(found: Path, expected: Path) -> float:
    """The found picture is the other one, left and right exchanged."""
    return float(similarity(readers.image(found), ImageOps.mirror(readers.image(expected))) >= 0.99)


@metric("check_palette_and_structure_sim")
def check_palette_and_structure_sim(found: Path, expected: Path) -> float:
    """The found picture uses a palette and shows the same thing."""
    one, other = readers.image(found), readers.image(expected)
    return float(one.mode == "P" and similarity(one, other) >= SAME_STRUCTURE)


@metric("check_grey")
def check_grey(found: Path, expected: Path) -> float:
    """The found picture has no colour left and otherwise shows the same thing."""
    picture = readers.image(found)
    red, green, blue = (np.asarray(band, dtype=np.int16) for band in picture.convert("RGB").split())
    grey = int(max(abs(red - green).max(), abs(green - blue).max())) <= 2
    return float(grey and similarity(picture, readers.image(expected)) >= SAME_STRUCTURE)
