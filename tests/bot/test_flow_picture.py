"""The flow of participants as a picture."""

from __future__ import annotations

from xml.etree import ElementTree

from bot.flow_picture import STEPS, picture

FLOW = {("allocated", "a<b"): 6, ("came", "a<b"): 5, ("withdrawn", "a<b"): 1, ("allocated", "vanilla"): 3}


def test_every_step_of_every_arm_has_its_box_and_number() -> None:
    drawn = ElementTree.fromstring(picture(FLOW, title="Ours & theirs"))
    texts = [t.text for t in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "Ours & theirs" and texts.count("allocated: 6") == texts.count("allocated: 3") == 1
    assert len(texts) == 1 + 2 * (1 + len(STEPS)) and "withdrew: 1" in texts and "a<b" in texts
    assert "a<b: allocated 6" in str(drawn.get("aria-label"))
