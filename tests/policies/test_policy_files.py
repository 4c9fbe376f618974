"""What ships loads, agrees with itself, and is refused with file and entry when it does not."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
import yaml

from policies import classifiers, crisis, guidance, questions, thresholds
from policies.attributes import SPECS, Attribute
from policies.domains import Domain, Stakes
from policies.errors import EncoderError, PolicyFileError
from policies.planning.starter import path_weights, read_starter, starter_entries

POLICIES = Path(__file__).resolve().parents[2] / "policies"


def test_the_ten_attributes_are_the_papers() -> None:
    assert len(Attribute) == 10
    assert all(SPECS[a].tags and SPECS[a].paper_name and SPECS[a].official_name for a in Attribute)


def test_every_attribute_is_asked_in_every_domain_in_two_wordings_or_more() -> None:
    shipped = questions.shipped()
    for attribute in Attribute:
        for domain in Domain:
            question = shipped.get(attribute, domain)
            assert len(set(question.phrasings)) >= 2
            assert all("?" in p and len(p.split()) <= 32 for p in question.phrasings), question.phrasings
            assert 3 <= len(question.choices) <= 6
            assert question.why.strip() and question.declined.strip()


def test_no_question_leads() -> None:
    for question in questions.shipped().by_place.values():
        for phrasing in question.phrasings:
            assert "you're not" not in phrasing.lower() and "you don't have a plan" not in phrasing.lower()


def test_there_are_sixty_lines_a_domain_or_more_of_every_stakes() -> None:
    for domain in Domain:
        lines = [e for e in starter_entries() if e.domain is domain]
        assert len(lines) >= 60
        assert {e.stakes for e in lines} == set(Stakes)


def test_every_group_can_answer_any_profile() -> None:
    shipped = guidance.shipped()
    for (domain, name), group in shipped.groups.items():
        steps = [
            b
            for b in shipped.blocks[domain]
            if name in b.groups and b.slot == "step" and not b.when and not b.unless
        ]
        assert len(steps) >= 3, name
        assert group.human and group.would_change and len(group.acknowledge) >= 2


def test_every_block_cites_a_source_that_is_listed() -> None:
    shipped = guidance.shipped()
    assert all(b.source in shipped.sources for b in shipped.all_blocks())


def test_an_unsourced_block_does_not_load(tmp_path: Path) -> None:
    folder = tmp_path / "guidance"
    shutil.copytree(POLICIES / "guidance", folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    raw = yaml.safe_load((folder / "health.yaml").read_text())
    del raw["blocks"][0]["source"]
    (folder / "health.yaml").write_text(yaml.safe_dump(raw))
    with pytest.raises(PolicyFileError, match=r"health\.yaml: .* unsourced"):
        guidance.load(folder)


def test_a_threshold_without_a_reason_does_not_load(tmp_path: Path) -> None:
    raw = yaml.safe_load((POLICIES / "abstention.yaml").read_text())
    del raw["floor"]["reason"]
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(raw))
    with pytest.raises(PolicyFileError, match=r"a\.yaml: floor\.reason"):
        thresholds.load(tmp_path / "a.yaml")


def test_contradicting_thresholds_do_not_load(tmp_path: Path) -> None:
    raw = yaml.safe_load((POLICIES / "abstention.yaml").read_text())
    raw["budget"]["high"] = 9
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(raw))
    with pytest.raises(PolicyFileError, match=r"budget\.high is more than most_questions"):
        thresholds.load(tmp_path / "a.yaml")


def test_broken_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("most_questions:\n  value: [4\n")
    with pytest.raises(PolicyFileError, match=r"a\.yaml, line \d+: not YAML"):
        thresholds.load(tmp_path / "a.yaml")


def test_a_bad_library_line_is_named(tmp_path: Path) -> None:
    for domain in Domain:
        (tmp_path / f"{domain.value}.jsonl").write_text(
            '{"query": "q", "group": "g", "stakes": "high", "path": ["age"]}\n'
        )
    (tmp_path / "social.jsonl").write_text(
        '{"query": "q", "group": "g", "stakes": "high", "path": ["shoe size"]}\n'
    )
    with pytest.raises(PolicyFileError, match=r"social\.jsonl, entry 1"):
        read_starter(tmp_path)


def test_path_weights_sum_to_one_and_fall_along_the_path() -> None:
    weights = path_weights([((Attribute.HEALTH, Attribute.AGE, Attribute.EMOTION), 1.0)])
    assert sum(weights.values()) == pytest.approx(1.0)
    assert list(weights) == [Attribute.HEALTH, Attribute.AGE, Attribute.EMOTION]
    assert path_weights([]) == {}


def test_the_classifiers_were_trained_on_the_lines_that_ship() -> None:
    """`make train` after a line file changes; the file itself says what it was made from."""
    made_from = classifiers.shipped().meta["sources"]
    for name, digest in made_from.items():
        assert hashlib.sha256((POLICIES / name).read_bytes()).hexdigest() == digest, (
            f"{name} changed: run 'make train'"
        )


def test_a_damaged_classifier_file_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"not a zip")
    with pytest.raises(PolicyFileError, match="make train"):
        classifiers.load(tmp_path / "x.npz")


def test_altered_weights_are_refused(tmp_path: Path) -> None:
    from policies.encoder import MiniLM

    (tmp_path / "model.onnx").write_bytes(b"x")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(EncoderError, match="is not the file we know"):
        MiniLM(tmp_path / "model.onnx", tmp_path / "tokenizer.json")


RETIRED = ["1-800-931-2237", "1-833-456-4566", "1393", "1800-221-4444", "03-7956 8144", "08457 90 90 90"]


def test_no_retired_number_ships() -> None:
    numbers = crisis.shipped().numbers()
    for number in RETIRED:
        assert "".join(c for c in number if c.isdigit()) not in numbers


def test_a_retired_number_is_refused(tmp_path: Path) -> None:
    raw = yaml.safe_load((POLICIES / "crisis" / "resources.yaml").read_text())
    raw["countries"]["KR"]["lines"][0]["phones"] = ["1393"]
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(raw))
    with pytest.raises(PolicyFileError, match="1393 is retired"):
        crisis.load(tmp_path / "r.yaml")


@pytest.mark.parametrize(
    ("said", "iso"),
    [
        ("I'm in the UK", "GB"),
        ("france", "FR"),
        ("DE", "DE"),
        ("de", None),
        ("no", None),
        ("is", None),
        ("south korea", "KR"),
        ("nowhere", None),
    ],
)
def test_a_country_is_found_when_named_and_never_guessed(said: str, iso: str | None) -> None:
    assert crisis.shipped().find_country(said) == iso
