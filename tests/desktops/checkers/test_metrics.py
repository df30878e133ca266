"""Each metric on something that meets its rule and something that does not."""

import sqlite3
from pathlib import Path
from typing import Any

import docx
import numpy as np
import openpyxl
import pptx
import pytest
from docx.enum.text import WD_ALIGN_PARAGRAPH, WD_BREAK
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import Pt
from openpyxl.styles import Font
from PIL import Image, ImageEnhance, ImageOps

from desktops.worker.checkers.errors import Unreadable
from desktops.worker.checkers.metrics import METRICS
from desktops.worker.checkers.metrics.matching import matches

XCU = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Common/Save/Document"><prop oor:name="AutoSaveTimeIntervall" oor:op="fuse">
<value>3</value></prop></item>
<item oor:path="/org.openoffice.Office.Impress/Misc/Start"><prop oor:name="EnablePresenterScreen" oor:op="fuse">
<value>false</value></prop></item>
<item oor:path="/org.openoffice.Office.Writer/DefaultFont"><prop oor:name="Standard" oor:op="fuse">
<value>Times New Roman</value></prop></item>
</oor:items>"""
FILTERS = """version="9"
name="News"
enabled="yes"
action="Move to folder"
actionValue="mailbox://nobody@Local%20Folders/Promotions"
condition="AND (subject,contains,discount) AND (from,is,shop)"
name="All"
enabled="no"
action="Forward"
condition="ALL"
"""


def measure(name: str, *values: Any, **options: Any) -> float:
    return float(METRICS[name](*values, **options))


@pytest.mark.parametrize(
    ("name", "found", "expected", "reward"),
    [
        ("exact_match", "a\n", {"expected": "a\n"}, 1),
        ("exact_match", "a", {"expected": "a\n"}, 0),
        ("is_in_list", ["/a", "/b"], {"expected": "/a"}, 1),
        ("is_in_list", None, {"expected": "/a"}, 0),
        ("match_in_list", "Bing", {"expected": ["Microsoft Bing", "Bing"]}, 1),
        ("match_in_list", "Google", {"expected": ["Bing"]}, 0),
        ("check_include_exclude", "large text", {"include": ["large"], "exclude": ["error"]}, 1),
        ("check_include_exclude", "large error", {"include": ["large"], "exclude": ["error"]}, 0),
        ("check_include_exclude", "vlc.desktop", {"include": ["vlc.desktop"]}, 1),
        ("check_include_exclude", None, {"include": []}, 0),
        ("is_utc_0", "  Local time: x\n  Time zone: UTC (UTC, +0000)\n", None, 1),
        ("is_utc_0", "  Time zone: Europe/Paris (CET, +0100)", None, 0),
        (
            "check_gnome_favorite_apps",
            "['b.desktop', 'a.desktop']\n",
            {"expected": ["a.desktop", "b.desktop"]},
            1,
        ),
        ("check_gnome_favorite_apps", "@as []\n", {"expected": ["a.desktop"]}, 0),
        ("is_extension_installed", "a.b\n", {"type": "contain", "expected": "a.b"}, 1),
        ("is_extension_installed", "a.b\n", {"type": "not_contain", "expected": "a.b"}, 0),
        ("is_vlc_fullscreen", {"width": 2, "height": 1}, {"width": 2, "height": 1}, 1),
        ("is_vlc_fullscreen", {"width": 2, "height": 1}, {"width": 1, "height": 1}, 0),
        ("is_in_vm_clickboard", {"expected": "/a"}, "/a\n", 1),
        ("is_expected_url_pattern_match", "https://a/b", {"expected": ["a/", "b$"]}, 1),
        ("check_direct_json_object", {"a": 1, "b": 2}, {"expected": {"a": 1}}, 1),
        ("check_direct_json_object", "{'a': True}", {"expected": {"a": True}}, 1),
        ("check_direct_json_object", {"a": 1}, {"expected": {"a": 2}}, 0),
        ("check_direct_json_object", {"a": "xyz"}, {"expected": {"a": ["y"]}, "expect_in_result": True}, 1),
        (
            "check_direct_json_object",
            {"a": [2, 1]},
            {"expected": {"a": [1, 2]}, "ignore_list_order": True},
            1,
        ),
        ("check_direct_json_object", None, {"expected": {"a": 2}}, 0),
        ("check_font_size", {"default_font_size": 20}, {"type": "range", "min": 16, "max": 99}, 1),
        ("check_font_size", {"default_font_size": 16}, {"type": "range", "min": 16, "max": 99}, 0),
        ("check_font_size", {"default_font_size": 16}, {"type": "value", "value": 16}, 1),
        (
            "is_shortcut_on_desktop",
            {"/d": "[Desktop Entry]\nName=Play\n"},
            {"type": "name", "name": "Play"},
            1,
        ),
        ("is_shortcut_on_desktop", {}, {"type": "name", "name": "Play"}, 0),
    ],
)
def test_metrics_on_values(name: str, found: Any, expected: Any, reward: float) -> None:
    assert measure(name, *([found] if expected is None else [found, expected])) == reward


def test_literal_match_compares_texts_or_lists() -> None:
    assert measure("literal_match", "Ab", "aB", ignore_case=True) == 1
    assert measure("literal_match", "Ab", "aB") == 0
    assert measure("literal_match", ["1", 2], [1, "2"], type="list") == 1
    assert measure("literal_match", "1", [1], type="list") == 0


def test_text_that_is_no_object_is_unreadable() -> None:
    with pytest.raises(Unreadable):
        measure("check_direct_json_object", "command not found", {"expected": {"a": 1}})
    with pytest.raises(Unreadable):
        measure("check_gnome_favorite_apps", "No such schema", {"expected": []})


@pytest.mark.parametrize(
    ("name", "content", "expected", "reward"),
    [
        ("file_contains", "CPU %user", {"expected": ["CPU", "%user"]}, 1),
        ("file_contains", "CPU", {"expected": ["CPU", "%user"]}, 0),
        ("check_line_number", "10:00:01 a\nAverage: b\n10:00:02 c\n", {"expected": "2"}, 1),
        ("check_line_number", "10:00:01 a\n", {"expected": "2"}, 0),
        ("check_list", "a1\nb2\n", {"expect": ["^a", r"\d$"], "unexpect": ["c"]}, 1),
        ("check_list", "a1\nc2\n", {"expect": ["^a"], "unexpect": ["c"]}, 0),
        ("check_text", "buy milk\n", {"text": "buy milk"}, 1),
        ("check_text", "buy milk\n", {"include": ["milk"], "exclude": ["buy"]}, 0),
        ("compare_config", "project", {"expected": "project"}, 1),
        ("check_config_status", '# x\n(theme "Light")\n', {"key": "theme", "value": '"Light"'}, 1),
        ("check_config_status", "(undo-levels 5)\n", {"key": "undo-levels", "value": "100"}, 0),
        ("check_config_status", "(a b yes)\n", {"key": ["a", "b"], "value": "yes"}, 1),
        ("check_config_status", "(theme)\n", {"key": "theme", "value": "x"}, 0),
        ("check_qt_bgcone", "qt-bgcone=0\n", {"expected_qt_bgcone": 0}, 1),
        ("check_qt_bgcone", "#qt-bgcone=1\n", {"expected_qt_bgcone": 0}, 0),
        ("check_qt_max_volume", "qt-max-volume=200\n", {"expected_qt_max_volume": 200}, 1),
        ("check_qt_max_volume", "", {"expected_qt_max_volume": 200}, 0),
        ("check_qt_minimal_view", "qt-minimal-view=1\n", {"expected_qt_minimal_view": 1}, 1),
        ("check_qt_minimal_view", "", {"expected_qt_minimal_view": 1}, 0),
        (
            "check_one_instance_when_started_from_file",
            "one-instance-when-started-from-file=0",
            {"expected_one_instance_when_started_from_file": 0},
            1,
        ),
        ("check_play_and_exit", "play-and-exit=1\n", {"expected_play_and_exit": 0}, 0),
        ("check_play_and_exit", "#play-and-exit=0\n", {"expected_play_and_exit": 0}, 1),
        (
            "check_global_key_play_pause",
            "global-key-play-pause=Ctrl+P",
            {"expected_global_key_play_pause": 1},
            1,
        ),
        ("check_global_key_play_pause", "#global-key-play-pause=", {"expected_global_key_play_pause": 1}, 0),
        ("is_vlc_recordings_folder", "input-record-path=/d\n", {"recording_file_path": "/d"}, 1),
        ("check_qt_slider_colours", "qt-slider-colours=1;2;3;4;5;6", {"type": "blackish"}, 1),
        ("check_qt_slider_colours", "", {"type": "blackish"}, 0),
        ("check_vlc_setting", "#random=0\n", {"key": "random", "value": 1, "default": 0}, 0),
        ("check_vlc_setting", "random=1\n", {"key": "random", "value": 1, "default": 0}, 1),
        (
            "is_vlc_playing",
            '<root><state>playing</state><info name="filename">a.mp4</info></root>',
            {"type": "file_name", "file_name": "a.mp4"},
            1,
        ),
        ("is_vlc_playing", "<root><state>stopped</state></root>", {"type": "file_name", "file_name": "a"}, 0),
        ("check_auto_saving_time", XCU, {"minutes": 3}, 1),
        ("check_auto_saving_time", XCU, {"minutes": 5}, 0),
        ("find_default_font", XCU, {"font_name": "Times New Roman"}, 1),
        ("check_json_settings", '{"a": 1, // note\n "b": "http://x",}', {"expected": {"b": "http://x"}}, 1),
        ("check_json_settings", "[]", {"expected": {"a": 1}}, 0),
        ("check_json_keybindings", '[{"key": "k"}]', {"expected": {"key": "k"}}, 1),
        (
            "check_json",
            '{"a": {"b": 2}}',
            {"expect": [{"key": ["a", "b"], "method": "ge", "ref": 2}]},
            1,
        ),
        ("check_json", '{"a": 1}', {"expect": [{"key": ["a", "b"], "method": "eq", "ref": 2}]}, 0),
        ("check_json", '{"a": 1}', {"unexpect": [{"key": ["a"], "method": "eq", "ref": 1}]}, 0),
        ("check_csv", "url,user\nu,x\n", {"expect": [{"url": "u"}], "unexpect": [{"user": "y"}]}, 1),
        ("check_csv", "url,user\nu,x\n", {"unexpect": [{"user": "x"}]}, 0),
        (
            "check_thunderbird_prefs",
            'user_pref("a.b", true);\nuser_pref("t", "dark");\n',
            {"expect": {"a.b": {"method": "eq", "ref": True}, "t": {"method": "re", "ref": "dark"}}},
            1,
        ),
        ("check_thunderbird_prefs", "", {"expect": {"a.b": {"method": "eq", "ref": True}}}, 0),
        (
            "check_thunderbird_prefs",
            'user_pref("a", 1);',
            {"unexpect": {"a": {"method": "eq", "ref": 1}}},
            0,
        ),
        (
            "check_thunderbird_filter",
            FILTERS,
            {
                "expect": [
                    {
                        "enabled": "yes",
                        "condition": ["AND (from,is,shop)", "AND (subject,contains,discount)"],
                    },
                    {"action": "Forward", "condition": ["ALL"]},
                ]
            },
            1,
        ),
        ("check_thunderbird_filter", FILTERS, {"expect": [{"enabled": "yes", "action": "Forward"}]}, 0),
    ],
)
def test_metrics_on_text_files(tmp_path: Path, name: str, content: str, expected: Any, reward: float) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    assert measure(name, path, expected) == reward


def test_yaml_and_the_presenter_console(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text("author:\n  name: Ann\n")
    rules = {"expect": [{"key": ["author", "name"], "method": "eq", "ref": "Ann"}]}
    assert measure("check_json", path, rules, is_yaml=True) == 1
    path.write_text(XCU)
    assert measure("check_presenter_console_disable", path) == 1


def test_two_text_files(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("a  b\nC\n")
    other.write_text("a b\nc")
    assert measure("compare_text_file", one, other) == 0
    assert measure("compare_text_file", one, other, ignore_blanks=True, ignore_case=True) == 1
    assert measure("compare_csv", one, [other, one]) == 1
    assert measure("compare_csv", one, other, strict=False) == 0
    assert 0 <= measure("diff_text_file", one, other) < 1
    assert measure("diff_text_file", one, one) == 1


@pytest.mark.parametrize(
    ("value", "method", "ref", "met"),
    [
        (3, "range.co", [3, 4], True),
        (4, "range.co", [3, 4], False),
        ("3", "range", [3, 4], False),
        ("a", "lt", 3, False),
        ("Dark", "re.I", "dark", True),
        ("a, b", "str_list_eq", ["a", "b"], True),
        ("b,a", "str_set_eq", "a,b", True),
        (1, "ne", 2, True),
    ],
)
def test_the_language_of_rules(value: Any, method: str, ref: Any, met: bool) -> None:
    assert matches(value, {"method": method, "ref": ref}) is met


def test_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(ValueError, match="magic"):
        matches(1, {"method": "magic", "ref": 1})


def test_bookmarks() -> None:
    roots = {
        "bookmark_bar": {
            "children": [
                {
                    "type": "folder",
                    "name": "Favorites",
                    "children": [{"type": "url", "name": "n", "url": "u1"}],
                },
                {"type": "url", "name": "home", "url": "u2"},
            ]
        },
        "version": 1,
    }
    folders = {"type": "bookmark_bar_folders_names", "names": ["Favorites"]}
    assert measure("is_expected_bookmarks", roots, folders) == 1
    assert measure("is_expected_bookmarks", {}, folders) == 0
    assert (
        measure("is_expected_bookmarks", roots, {"type": "bookmark_bar_websites_urls", "urls": ["u2"]}) == 1
    )
    assert measure("check_bookmark", roots, {"name": "n", "url": "u1"}) == 1
    assert measure("check_bookmark", roots, {"name": "n", "url": "u2"}) == 0


def test_history_and_cookies(tmp_path: Path) -> None:
    path = tmp_path / "db"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE urls (url, title, visit_count)")
    database.execute("CREATE TABLE cookies (host_key)")
    database.execute("INSERT INTO urls VALUES ('file:///a.html', 'Guide', 1)")
    database.execute("INSERT INTO cookies VALUES ('.shop.com')")
    database.commit()
    database.close()
    assert measure("check_history", path, {"urls": ["file:///a.html"]}) == 1
    assert measure("check_history", path, {"urls": ["file:///b.html"]}) == 0
    assert measure("check_history_deleted", path, {"keywords": ["youtube"]}) == 1
    assert measure("check_history_deleted", path, {"keywords": ["guide"]}) == 0
    assert measure("is_cookie_deleted", path, {"domains": [".shop.com"]}) == 0
    assert measure("is_cookie_deleted", path, {"domains": [".op.com"]}) == 1
    assert measure("run_sqlite3", path, {"sql": "SELECT count(*) = 1 FROM urls"}) == 1
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(Unreadable):
        measure("check_history", path, {"urls": []})


def test_the_slide_panel_in_the_accessibility_tree() -> None:
    tree = """<desktop xmlns:st="uri:deskat:state.at-spi.gnome.org" xmlns:cp="uri:deskat:component.at-spi.gnome.org">
    <root-pane><panel><split-pane cp:parentcoord="(0, 0)" st:visible="true"/></panel></root-pane></desktop>"""
    assert measure("check_left_panel", tree) == 1
    assert measure("check_left_panel", tree.replace("(0, 0)", "(9, 0)")) == 0


def test_names_in_a_folder() -> None:
    tree = {
        "children": [
            {"type": "file", "name": "a.jpg"},
            {"type": "directory", "name": "sub", "children": [{"type": "file", "name": "b"}]},
        ]
    }
    assert measure("check_folder_names", tree, {"include": ["sub/b"], "exclude": ["b"]}) == 1
    assert measure("check_folder_names", tree, {"include": ["a.jpg", "sub/", "sub/b"], "only": True}) == 1
    assert measure("check_folder_names", tree, {"include": ["a.jpg"], "only": True}) == 0
    assert measure("check_folder_names", tree, {"exclude": ["a.jpg"]}) == 0
    assert measure("check_moved_jpgs", {"children": tree["children"][:1]}, {"expected": ["a.jpg"]}) == 1


def test_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet["A1"], sheet["A2"], sheet["A3"] = "Total", 3, "=SUM(A2:A2)"
    sheet["A1"].font = Font(bold=True)
    book.save(path)
    assert measure("check_cells", path, {"values": {"A1": "Total", "A2": 3.0}, "bold": ["A1"]}) == 1
    assert measure("check_cells", path, {"formulas": {"A3": "=sum(A2:A2)"}, "absent": ["B1"]}) == 1
    assert measure("check_cells", path, {"formulas": {"A2": True}}) == 0
    assert measure("check_cells", path, {"bold": ["A2"]}) == 0
    assert measure("check_cells", path, {"values": {"A2": 4}}) == 0
    assert measure("check_sheet_names", path, {"names": ["Sheet"]}) == 1
    with pytest.raises(Unreadable):
        measure("check_cells", path, {"sheet": "Other"})
    path.write_text("no workbook")
    with pytest.raises(Unreadable):
        measure("check_cells", path, {})


def test_text_documents(tmp_path: Path) -> None:
    path, other = tmp_path / "a.docx", tmp_path / "b.docx"
    document = docx.Document()
    title = document.add_paragraph("Title", style="Heading 1")
    title.alignment = WD_ALIGN_PARAGRAPH.CENTER
    run = document.add_paragraph().add_run("Body")
    run.bold = run.italic = True
    run.font.name, run.font.size = "Times New Roman", Pt(14)
    document.paragraphs[-1].add_run().add_break(WD_BREAK.PAGE)
    document.save(str(path))
    rules = {
        "texts": ["Title", "Body"],
        "styles": {"0": "heading 1"},
        "bold": [1],
        "italic": [1],
        "centered": [0],
    }
    assert measure("check_paragraphs", path, rules) == 1
    assert measure("check_paragraphs", path, {"bold": [0]}) == 0
    assert measure("check_paragraphs", path, {"styles": {"1": "Heading 1"}}) == 0
    assert measure("is_first_line_centered", path) == 1
    assert measure("contains_page_break", path, {"page_break_count": 1}) == 1
    assert measure("contains_page_break", path) == 1
    assert measure("compare_font_names", path, {"font_name": "Times New Roman"}) == 0
    assert measure("check_italic_font_size_14", path, path) == 1
    assert measure("has_page_numbers_in_footers", path) == 0
    run.font.subscript = True
    footer = document.sections[0].footer.paragraphs[0]
    field = OxmlElement("w:instrText")
    field.text = "PAGE"
    footer.add_run()._r.append(field)
    assert field.tag == qn("w:instrText")
    document.save(str(other))
    assert measure("has_page_numbers_in_footers", other) == 1
    assert measure("compare_subscript_contains", other, other) == 1
    assert measure("compare_subscript_contains", path, other) == 0
    path.write_text("no document")
    with pytest.raises(Unreadable):
        measure("is_first_line_centered", path)


def test_slides(tmp_path: Path) -> None:
    path = tmp_path / "a.pptx"
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[0])
    assert slide.shapes.title is not None
    slide.shapes.title.text = "Plan"
    deck.save(str(path))
    assert measure("check_slides", path, {"count": 1, "texts": {"1": ["Plan"]}}) == 1
    assert measure("check_slides", path, {"count": 2}) == 0
    assert measure("check_slides", path, {"texts": {"2": ["Plan"]}}) == 0
    assert measure("check_slides", path, {"texts": {"1": ["Other"]}}) == 0


def test_pictures(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    small = Image.fromarray(rng.integers(0, 255, (3, 4, 3), dtype=np.uint8)).resize((160, 120))
    paths = {
        "plain": small,
        "mirror": ImageOps.mirror(small),
        "dark": ImageEnhance.Brightness(small).enhance(0.6),
        "contrast": ImageEnhance.Contrast(small).enhance(1.4),
        "grey": ImageOps.grayscale(small).convert("RGB"),
        "palette": small.quantize(256, dither=Image.Dither.NONE),
        "large": small.resize((320, 240)),
    }
    for name, picture in paths.items():
        picture.save(tmp_path / f"{name}.png")
    at = {name: tmp_path / f"{name}.png" for name in paths}
    plain = at["plain"]
    assert measure("check_image_size", plain, {"width": 160, "height": 120}) == 1
    assert measure("check_image_size", plain, {"height": 100}) == 0
    assert measure("check_image_mirror", at["mirror"], plain) == 1
    assert measure("check_image_mirror", plain, plain) == 0
    assert measure("check_structure_sim", plain, plain) == 1
    assert measure("check_structure_sim", at["mirror"], plain) == 0
    assert measure("check_structure_sim", at["large"], plain) == 0
    assert measure("check_structure_sim_resized", at["large"], plain) == 1
    assert measure("check_structure_sim_with_threshold", plain, plain, ssim_threshold=0.85) == 1
    assert measure("check_brightness_decrease_and_structure_sim", at["dark"], plain) == 1
    assert measure("check_brightness_decrease_and_structure_sim", plain, at["dark"]) == 0
    assert measure("check_contrast_increase_and_structure_sim", at["contrast"], plain) == 1
    assert measure("check_contrast_increase_and_structure_sim", plain, plain) == 0
    assert measure("check_palette_and_structure_sim", at["palette"], plain) == 1
    assert measure("check_grey", at["grey"], plain) == 1
    assert measure("check_grey", plain, plain) == 0
    assert measure("compare_images", plain, plain) == 1
    assert measure("compare_images", at["large"], plain) > 0.9
    assert measure("compare_images", at["mirror"], plain, reference_base_result=0.6) == 0
    plain.write_text("no picture")
    with pytest.raises(Unreadable):
        measure("check_image_size", plain, {})
