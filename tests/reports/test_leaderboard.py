"""The page in a browser: what a reader can do with it, from file://, without network, by keyboard, on a telephone."""

import csv
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reports import leaderboard
from reports.entry import Entry, Spread
from suite.errors import UserError
from tests.reports.made_entries import PLAIN, bounds, made_entry

playwright = pytest.importorskip("playwright.sync_api")
axe_module = pytest.importorskip("axe_playwright_python.sync_playwright")

TARGETS = ("tiny-sdar-b16", "tiny-llada")
HOSTILE = "</script><img src=x onerror=\"document.title='owned'\"><b>&amp;'\"="


def board() -> list[Entry]:
    """Two targets, two rules, drafters of every kind; one is not ranked."""
    spot = {
        "kind": "learned",
        "home": "tiny-sdar-b16",
        "learned_on": ["tiny-gsm"],
        "split": "train",
        "parameters": 600_000,
    }
    return [
        *(made_entry(f"drafter-{n}", 1.2 + 0.2 * n, target=t) for n in range(5) for t in TARGETS),
        *(made_entry("spot", 3.0, target=t, **spot) for t in TARGETS),
        made_entry("spot-uncoupled", 2.4, temperatures=(1.0,), **spot),
        made_entry("lossy", 5.0, differ=1),
        made_entry("chain", 1.8, rule="threshold(0.9)", device="cpu", speedup=Spread(1.3, 1.2, 1.4)),
        *bounds(),
    ]  # fmt: skip


class Reader:
    """A page that is open, and all that went wrong or left the machine while it was."""

    def __init__(self, page: Any) -> None:
        self.page, self.faults = page, []
        page.on("console", lambda said: self.faults.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", lambda asked: self._asked(asked.url))

    def _asked(self, url: str) -> None:
        if not url.startswith(("file:", "data:", "blob:")):
            self.faults.append(f"asked for {url}")

    def open(self, path: Path, fragment: str = "") -> None:
        self.page.goto("about:blank")
        self.page.goto(f"{path.as_uri()}{fragment}")

    def names(self) -> list[str]:
        found: list[str] = self.page.locator("#board tbody button.name").all_text_contents()
        return found

    def ranks(self) -> list[str]:
        found: list[str] = self.page.locator("#board tbody td.rank").all_text_contents()
        return found

    def count(self) -> str:
        found: str = self.page.locator("#count").text_content()
        return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if not program:
        pytest.skip("no chromium; apt-get install chromium")
    with playwright.sync_playwright() as driver:
        one = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield one
        one.close()


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "leaderboard.html"
    path.write_text(leaderboard.render(board()))
    return path


Opened = Callable[..., Reader]


@pytest.fixture
def reader(browser: Any) -> Iterator[Opened]:
    """Opens pages; at the end none may have complained or asked the network."""
    opened: list[Reader] = []

    def new(path: Path, fragment: str = "", width: int = 1280, scheme: str = "light", **options: Any) -> Reader:
        size = {"width": width, "height": 900}
        one = Reader(browser.new_page(viewport=size, color_scheme=scheme, **options))
        opened.append(one)
        one.open(path, fragment)
        return one

    yield new
    for one in opened:
        one.page.close()
    assert [fault for one in opened for fault in one.faults] == []


def test_the_best_is_first_and_bounds_are_last(html: Path, reader: Opened) -> None:
    page = reader(html)
    assert page.names() == [
        "spot", "drafter-4", "drafter-3", "drafter-2", "drafter-1", "drafter-0", "lossy", "oracle", "random",
    ]  # fmt: skip
    assert page.ranks() == ["1", "2", "3", "4", "5", "6", "–", "bound", "bound"]
    assert page.count() == "9 rows: 6 ranked, 1 not ranked, 2 bounds"
    assert page.page.locator("tr.unranked .why").text_content() == (
        "not ranked: lossy: 2 of 12 answers differ from the baseline's"
    )
    assert "tiny look-alikes" in page.page.locator("#chart-caption").text_content()
    assert "look-alike" in page.page.locator("#view-title").text_content()


def test_the_table_is_there_without_scripts(html: Path, reader: Opened) -> None:
    page = reader(html, java_script_enabled=False).page
    lines = [
        [re.sub(r"\s+", " ", cell).strip() for cell in row.locator("th, td").all_text_contents()]
        for row in page.locator("#board tbody tr").all()
    ]
    assert page.locator("#board").is_visible()
    assert not page.locator("#filters").is_visible()
    with_scripts = reader(html)
    figures = [re.sub(r"\s+", " ", x) for x in with_scripts.page.locator("#board .figures").all_text_contents()]
    shown = [line for line in lines if line[3:6] == ["tiny-sdar-b16", "0", "exact"]]
    assert [line[1].split("not ranked")[0] for line in shown] == with_scripts.names()
    assert [line[2] for line in shown] == figures
    assert [line[0] for line in shown] == with_scripts.ranks()


def test_sorting_by_keyboard_is_told_to_everybody(html: Path, reader: Opened) -> None:
    page = reader(html)
    head = page.page.locator("#board th[data-key=drafter]")
    head.locator("button").focus()
    page.page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert page.page.locator("#board th[aria-sort]").count() == 1
    assert page.names()[0] == "drafter-0"
    page.page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "descending"
    assert page.names()[0] == "spot"
    assert page.names()[-2:] == ["random", "oracle"], "bounds stay last"
    assert page.page.evaluate("document.activeElement.textContent").startswith("Drafter"), "the focus stays"


def test_filters_change_rows_and_the_address_and_the_address_brings_them_back(html: Path, reader: Opened) -> None:
    page = reader(html)
    for name, value in [("target", "*"), ("t", "1"), ("kind", "learned"), ("trained", "transferred"), ("rows", "3")]:
        page.page.select_option(f"#filter-{name}", value)
    assert [name for name in page.names() if name not in ("oracle", "random")] == ["spot"]
    page.page.locator("#board th[data-key=reduction] button").click()
    told = page.page.evaluate("location.hash")
    assert "trained=transferred" in told
    again = reader(html, told)
    assert again.names() == page.names()
    assert again.count() == page.count()
    assert again.page.locator("#filter-target").input_value() == "*"
    assert again.page.locator("#board th[aria-sort=descending]").get_attribute("data-key") == "reduction"
    again.page.evaluate("location.hash = '#t=1'")
    again.page.wait_for_function("document.querySelector('#filter-target').value === 'tiny-sdar-b16'")
    assert "spot-uncoupled" in again.names()
    again.page.locator("#reset").click()
    assert again.page.evaluate("location.hash") == ""
    assert again.names() == reader(html).names()


def test_a_damaged_address_shows_the_usual_view(html: Path, reader: Opened) -> None:
    assert reader(html, "#target=nowhere&t=hot&sort=luck&dir=up&open=%00~<b>").names() == reader(html).names()


def test_ranks_are_those_of_the_setting_whatever_is_filtered(html: Path, reader: Opened) -> None:
    page = reader(html, "#kind=training-free")
    assert page.ranks()[0] == "2", "the learned one is first, shown or not"


def test_speed_ups_are_ranked_where_they_were_measured(html: Path, reader: Opened) -> None:
    page = reader(html, "#rule=threshold(0.9)&by=speed")
    assert page.names() == ["chain"]
    assert page.ranks() == ["1"]
    replayed = reader(html, "#by=speed")
    assert "not ranked: not timed: replayed from traces" in replayed.page.locator("#board").text_content()


def test_a_row_opens_to_cells_prompts_and_steps(html: Path, reader: Opened) -> None:
    page = reader(html)
    button = page.page.locator("button.name", has_text="spot").first
    assert button.get_attribute("aria-expanded") == "false"
    button.focus()
    page.page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    detail = page.page.locator("tr.detail")
    text = detail.text_content()
    assert "trained on tiny-sdar-b16 (tiny-gsm; train split)" in text
    assert "600,000" in text
    assert detail.locator("table.plain").first.locator("tbody tr").count() == 2
    assert detail.locator("circle.dot").count() == 2 * len(PLAIN)
    detail.locator("summary").click()
    assert detail.locator("details tbody tr").count() == 2 * len(PLAIN)
    assert detail.locator("details tbody tr").first.locator("td").all_text_contents()[1] == str(PLAIN[0])
    steps = detail.locator("table.steps tbody tr").first
    assert [cell.text_content() for cell in steps.locator("td.step").all()] == ["Ab", "Cc"]
    assert "open=spot" in page.page.evaluate("location.hash")
    again = reader(html, page.page.evaluate("location.hash"))
    assert again.page.locator("tr.detail h3").first.text_content() == "spot"
    button.click()
    assert page.page.locator("tr.detail").count() == 0


def test_the_csv_is_what_is_shown(html: Path, reader: Opened) -> None:
    page = reader(html, "#target=*&sort=drafter", accept_downloads=True)
    with page.page.expect_download() as waiting:
        page.page.locator("#csv").click()
    lines = list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text())))
    assert [line["drafter"] for line in lines] == page.names()
    shown = page.page.locator("#board .figures strong").all_text_contents()
    assert [f"{float(line['pass_reduction']):.2f}" for line in lines] == shown
    assert {line["target"] for line in lines} == {"tiny-sdar-b16", "tiny-llada"}
    assert {line["not_ranked"].split(":")[0] for line in lines} == {"", "lossy", "bound"}


def test_charts_come_with_their_figures(html: Path, reader: Opened) -> None:
    page = reader(html, "#target=*").page
    assert page.locator("#chart svg[role=img]").count() == 2, "a panel for each target"
    page.locator("#chart-data summary").click()
    assert "spot" in page.locator("#chart-data tbody").text_content()


def test_hostile_names_and_texts_stay_text(tmp_path: Path, reader: Opened) -> None:
    bad = made_entry(HOSTILE, 3.0, about=HOSTILE, home=HOSTILE, learned_on=[HOSTILE], split="train", machine=HOSTILE)
    block = bad.steps.blocks[0].model_copy(update={"text": [HOSTILE] * 3})  # type: ignore[union-attr]
    bad = bad.model_copy(update={"steps": bad.steps.model_copy(update={"blocks": [block]})})  # type: ignore[union-attr]
    path = tmp_path / "page.html"
    path.write_text(leaderboard.render([bad, made_entry("=1+1", target=HOSTILE), *bounds()]))
    page = reader(path, "#target=tiny-sdar-b16")
    page.page.locator("button.name").first.click()
    assert page.names()[0] == HOSTILE
    assert HOSTILE in page.page.locator("tr.detail tfoot").text_content()
    assert page.page.title() == "spotbench leaderboard (tiny look-alikes)"
    assert page.page.locator("img").count() == 0
    plain = reader(path, java_script_enabled=False)
    assert HOSTILE in plain.page.locator("#board tbody").text_content()
    assert plain.page.locator("img").count() == 0
    other = reader(path, "#target=*&open=x", accept_downloads=True)
    with other.page.expect_download() as waiting:
        other.page.locator("#csv").click()
    names = {line["drafter"] for line in csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text()))}
    assert names == {HOSTILE, "'=1+1", "oracle", "random"}, "a spreadsheet shall not run a name"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (375, "dark")])
def test_the_page_is_accessible_and_fits(html: Path, reader: Opened, width: int, scheme: str) -> None:
    page = reader(html, "", width, scheme)
    page.page.locator("button.name").first.click()
    for summary in page.page.locator("summary").all():
        summary.click()
    found = axe_module.Axe().run(page.page)
    assert found.response["passes"], "axe has looked"
    faults = [(fault["id"], [node["target"] for node in fault["nodes"]][:3]) for fault in found.response["violations"]]
    assert faults == []
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width, "no sideways scrolling"


def test_drafters_are_told_apart_by_mark_and_colour(html: Path, reader: Opened) -> None:
    marks = reader(html, "#t=1&target=tiny-sdar-b16", 375).page.locator(".key .swatch path")
    assert marks.count() == 10, "seven drafters, a twin that has its drafter's, two bounds that look alike"
    looks = {mark.get_attribute("d") for mark in marks.all()}
    colours = {mark.evaluate("one => getComputedStyle(one).stroke") for mark in marks.all()}
    assert len(looks) == len(colours) == 8


@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("fragment", ["", "#rule=threshold(0.9)"])
def test_no_label_of_a_chart_is_cut_off(html: Path, browser: Any, width: int, fragment: str) -> None:
    with browser.new_page(viewport={"width": width, "height": 900}) as page:
        page.goto(f"{html.as_uri()}{fragment}")
        assert page.locator("svg text").count() > 3
        cut = page.evaluate("""() => [...document.querySelectorAll("svg text")].filter(text => {
            const [box, all] = [text.getBoundingClientRect(), text.closest("svg").getBoundingClientRect()];
            return box.left < all.left - 0.5 || box.right > all.right + 0.5;
        }).map(text => text.textContent)""")
    assert cut == []


def test_many_settings_fit_a_narrow_screen(html: Path, reader: Opened) -> None:
    for width in (375, 768, 1280):
        page = reader(html, "#target=*&t=*&rule=*&rows=*", width).page
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_long_table_is_cut_and_says_so(tmp_path: Path, reader: Opened) -> None:
    many = [made_entry(f"d{n}", 1 + n / 40, tasks=("tiny-gsm",), rows=(3, 5, 9)) for n in range(40)]
    path = tmp_path / "page.html"
    path.write_text(leaderboard.render(many))
    page = reader(path, "#t=*&rows=*")
    assert page.count() == "240 rows: 240 ranked, 0 not ranked, 0 bounds"
    assert len(page.names()) == 200
    page.page.locator("#more").click()
    assert len(page.names()) == 240
    assert not page.page.locator("#more").is_visible()


def test_the_same_entries_make_the_same_page() -> None:
    assert leaderboard.render(board()) == leaderboard.render(board()[::-1])


def test_the_page_holds_what_the_board_says(html: Path) -> None:
    data = json.loads(re.search(r'id="data">(.*?)</script>', html.read_text(), re.S)[1])  # type: ignore[index]
    assert len(data["rows"][0]) == len(data["columns"])
    assert "http" not in html.read_text().replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_without_entries_there_is_no_page() -> None:
    with pytest.raises(UserError, match="no entries; spotbench leaderboard add GRID makes some"):
        leaderboard.render([])
