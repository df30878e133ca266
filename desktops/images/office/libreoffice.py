"""Write the switches into a LibreOffice profile that keep its first window free of tips, news and surveys."""

import pathlib
import re
import sys

MISC = "/org.openoffice.Office.Common/Misc"
WINDOW = "160,70,1500,900;1;0,0,0,0;"  # x, y, width, height; 1: neither minimised nor maximised
SETUP = "/org.openoffice.Setup/Product"


def item(path: str, name: str, value: str) -> str:
    return (
        f'<item oor:path="{path}"><prop oor:name="{name}" oor:op="fuse"><value>{value}</value></prop></item>'
    )


def main(profile: pathlib.Path, version: str) -> None:
    items = [
        item(MISC, "ShowTipOfTheDay", "false"),
        item(MISC, "FirstRun", "false"),
        item(MISC, "UseOpenCL", "false"),
        item("/org.openoffice.Office.Common/Save/Document", "WarnAlienFormat", "true"),
        item(SETUP, "ooSetupLastVersion", version),
        item(SETUP, "LastTimeDonateShown", "4102444800"),
        item(SETUP, "LastTimeGetInvolvedShown", "4102444800"),
        item("/org.openoffice.Office.Common/Security/Scripting", "MacroSecurityLevel", "2"),
        item("/org.openoffice.Office.Impress/Misc/Start", "StartWithTemplate", "false"),
    ]
    text = profile.read_text()
    if "</oor:items>" not in text:
        raise SystemExit(f"{profile} is no LibreOffice profile")
    # The headless first run noted a window of 800×600 in the corner, its title bar off the screen.
    text = re.sub(r"<value>0,0,800,600;[^<]*</value>", f"<value>{WINDOW}</value>", text)
    profile.write_text(text.replace("</oor:items>", "\n".join(items) + "\n</oor:items>"))


main(pathlib.Path(sys.argv[1]), sys.argv[2])
