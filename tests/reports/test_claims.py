"""The claims page: what was measured, and a verdict only where one can be given."""

from pathlib import Path

from reports import claims, frame, pooled
from suite.records import Stale
from suite.store import Store
from tests.suite.tiny_grid import finish, made_cell, made_sample


def rows(folder: Path, *, tiny: bool, stale: int = 19, passes: int = 1, rule: str = "exact") -> dict[str, claims.Row]:
    """The page of a grid in which the baseline needs 8 passes a prompt, chain 4 and spot `passes`."""
    store, cells = Store(folder), [made_cell(drafter, rule=rule) for drafter in ("none", "chain", "spot")]
    settings = {"metric": "exact_match", "tiny": tiny, "weights": "w1"}
    samples = {
        "none": {"verify_passes": 8, "depths": [0] * 8, "stale": Stale(commits=20, tokens=stale, steps=20, choices=14)},
        "chain": {"verify_passes": 4, "depths": [1] * 4},
        "spot": {"verify_passes": passes, "depths": [7] * passes},
    }
    for cell in cells:
        made = [made_sample(n, baseline_passes=8, **samples[cell.drafter]) for n in range(4)]
        finish(store, cell, made, settings=settings)
    return {
        row.claim.id: row for row in claims.rows(list(pooled.parts(frame.build(store, cells))), "spotbench run mine")
    }


def test_every_claim_has_a_line_measured_or_not(tmp_path: Path) -> None:
    assert [row.measured for row in claims.rows([])] == [claims.NOTHING] * 7
    found = rows(tmp_path, tiny=False)
    assert list(found) == ["C1", "C2", "C3", "C4", "C5", "C6", "C7"]
    assert found["C6"].measured == claims.NOTHING, "no commit sets in this grid"


def test_a_published_model_gets_a_verdict(tmp_path: Path) -> None:
    good = rows(tmp_path / "good", tiny=False)
    assert good["C1"].measured.startswith("95.0%")
    assert (good["C2"].measured, good["C2"].interval) == ("up to 8.00x", "[8, 8]")
    assert (good["C2"].where, good["C2"].command) == ("tiny-sdar-b16, T = 1, exact, 3 rows", "spotbench run mine")
    assert {good[name].verdict for name in ("C1", "C2", "C4")} == {"reproduced"}
    bad = rows(tmp_path / "bad", tiny=False, stale=17, passes=5)
    assert {bad[name].verdict for name in ("C1", "C2", "C4")} == {"not reproduced in this grid"}
    assert "in 0 of 1 comparisons" in bad["C4"].measured
    assert "behind in 1" in bad["C4"].measured


def test_a_look_alike_gets_none_and_is_called_one(tmp_path: Path) -> None:
    for row in rows(tmp_path, tiny=True).values():
        assert row.verdict.startswith("not measurable here: ")
        assert ("look-alike" in row.measured) == (row.measured != claims.NOTHING)


def test_what_is_claimed_of_exact_decoding_is_not_taken_from_another_rule(tmp_path: Path) -> None:
    found = rows(tmp_path, tiny=False, rule="threshold(0.9)")
    assert {found[name].measured for name in ("C2", "C3", "C4", "C5")} == {claims.NOTHING}
