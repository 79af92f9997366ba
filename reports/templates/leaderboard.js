"use strict";
(() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const LIMIT = 200;
  const ALL = "*";
  const $ = (id) => document.getElementById(id);

  // Elements; whatever is not an element becomes text, so nothing from an entry is ever markup.
  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  }
  const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  const fixed = (value, digits = 2) => (value === null ? "–" : value.toFixed(digits));
  const percent = (value) => (value === null ? "–" : `${(100 * value).toFixed(0)} %`);
  const spread = (value, low, high) => `${fixed(value)} [${fixed(low)}, ${fixed(high)}]`;
  const unique = (values) => [...new Set(values)];

  // The rows, with what filters and columns ask of them.
  const ROWS = DATA.rows.map((values, place) => {
    const row = Object.fromEntries(DATA.columns.map((name, n) => [name, values[n]]));
    const entry = DATA.entries[row.entry];
    const plain = ["cached", "whole"].includes(entry.context);
    const target = plain ? entry.target : `${entry.target}, ${entry.context}`;
    const setting = JSON.stringify([target, entry.rule, row.task, row.temperature]);
    return {
      ...row, place, of: entry, target, setting, rule: entry.rule, drafter: entry.drafter, trained: entry.trained,
      kind: entry.card.kind, bound: entry.card.kind === "bound",
      group: JSON.stringify([setting, row.rows]), id: [entry.drafter, target, entry.rule, row.task, row.temperature, row.rows].join("~"),
    };
  });
  const GROUPS = Map.groupBy(ROWS, (row) => row.group); // rows that are ranked together
  const TIMED = ROWS.some((row) => row.speedup !== null);
  const TINY = Object.fromEntries(ROWS.map((row) => [row.target, row.of.tiny]));
  const named = (target) => (TINY[target] ? `${target} (look-alike)` : target);

  // What is shown: filters, sorting, open details. It lives in the address, so that a view can be sent to others.
  const numbers = (values) => unique(values).sort((a, b) => a - b).map(String);
  const FILTERS = [
    { key: "target", label: "Target", of: (row) => row.target, options: unique([...ROWS].sort((a, b) => a.entry - b.entry).map((row) => row.target)), all: "All targets", show: named },
    { key: "task", label: "Task", of: (row) => row.task, options: ["", ...unique(ROWS.map((row) => row.task)).filter(Boolean).sort()], show: (task) => task || "All, pooled" },
    { key: "t", label: "Temperature", of: (row) => String(row.temperature), options: numbers(ROWS.map((row) => row.temperature)), all: "All" },
    { key: "rule", label: "Commit rule", of: (row) => row.rule, options: unique(ROWS.map((row) => row.rule)).sort(), all: "All" },
    { key: "rows", label: "Rows", of: (row) => String(row.rows), options: numbers(ROWS.map((row) => row.rows)), all: "All", initial: String(DATA.usual) },
    { key: "kind", label: "Family", of: (row) => row.kind, options: unique(ROWS.map((row) => row.kind)).filter((kind) => kind !== "bound").sort(), all: "All", initial: ALL, drafters: true },
    { key: "trained", label: "Trained", of: (row) => row.trained, options: unique(ROWS.filter((row) => !row.bound).map((row) => row.trained)).sort(), all: "All", initial: ALL, drafters: true },
  ];
  if (TIMED) FILTERS.push({ key: "by", label: "Rank by", options: ["passes", "speed"], show: (by) => (by === "speed" ? "Speed-up" : "Pass reduction") });
  const INITIAL = { sort: "rank", dir: "ascending", open: "" };
  for (const one of FILTERS) INITIAL[one.key] = one.initial ?? one.options[0];
  let state = { ...INITIAL };

  function readAddress() {
    const told = new URLSearchParams(location.hash.slice(1));
    state = { ...INITIAL };
    for (const one of FILTERS) {
      const value = told.get(one.key);
      if (value !== null && (one.options.includes(value) || (one.all && value === ALL))) state[one.key] = value;
    }
    if (COLUMNS.some((column) => column.key === told.get("sort"))) state.sort = told.get("sort");
    if (["ascending", "descending"].includes(told.get("dir"))) state.dir = told.get("dir");
    state.open = told.get("open") ?? "";
  }
  function writeAddress() {
    const told = new URLSearchParams();
    for (const [key, value] of Object.entries(state)) if (value !== INITIAL[key]) told.set(key, value);
    const text = told.toString();
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  }
  function change(changes) {
    state = { ...state, ...changes };
    writeAddress();
    draw();
  }

  const passes = (row, one) => !one.of || state[one.key] === ALL || (one.drafters && row.bound) || one.of(row) === state[one.key];
  const inView = (row) => FILTERS.every((one) => passes(row, one));
  const rankOf = (row) => (state.by === "speed" ? row.speed_rank : row.rank);
  const whyOf = (row) => (state.by === "speed" ? row.speed_why : row.why);

  // The table.
  const COLUMNS = [
    { key: "rank", label: "Rank", of: (row) => rankOf(row) ?? Infinity, cell: rankCell },
    { key: "drafter", label: "Drafter", of: (row) => row.drafter, text: true, cell: nameCell },
    { key: "target", label: "Target", of: (row) => row.target, text: true, varies: true, show: (row) => row.target },
    { key: "task", label: "Task", of: (row) => row.task, text: true, varies: true, show: (row) => row.task || "all" },
    { key: "t", label: "T", of: (row) => row.temperature, varies: true, show: (row) => String(row.temperature) },
    { key: "rule", label: "Rule", of: (row) => row.rule, text: true, varies: true, show: (row) => row.rule },
    { key: "rows", label: "Rows", of: (row) => row.rows, varies: true, show: (row) => String(row.rows) },
    { key: "reduction", label: "Pass reduction", down: true, of: (row) => row.reduction, cell: reductionCell },
    ...(TIMED ? [{ key: "speedup", label: "Speed-up", down: true, timed: true, of: (row) => row.speedup, cell: speedupCell }] : []),
    { key: "oracle", label: "Of oracle", down: true, of: (row) => row.of_oracle, show: (row) => percent(row.of_oracle), wide: true },
    { key: "passes", label: "Passes", of: (row) => row.passes, show: (row) => fixed(row.passes, 1), wide: true },
    { key: "draft", label: "Draft ms", of: (row) => row.draft_ms, show: (row) => fixed(row.draft_ms, 1), wide: true },
    { key: "accuracy", label: "Accuracy", down: true, of: (row) => row.accuracy, show: (row) => fixed(row.accuracy), wide: true },
    { key: "exact", label: "Same answers", down: true, of: (row) => row.exact / row.prompts, cell: exactCell, wide: true },
    { key: "made", label: "Made", of: made, text: true, show: (row) => (row.bound ? "–" : made(row)), wide: true },
  ];
  function made(row) {
    return row.trained === "no training" ? row.kind : `${row.kind}, ${row.trained}`;
  }
  const compared = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
  const nothing = (value) => value === null || value === Infinity;

  function sorted(rows) {
    const { of } = COLUMNS.find((column) => column.key === state.sort);
    const sign = state.dir === "descending" ? -1 : 1;
    const first = {}; // of each setting: ranks of different ones are not compared
    if (state.sort === "rank") for (const row of rows) first[row.group] = Math.min(first[row.group] ?? Infinity, row.place);
    return [...rows].sort((one, other) => {
      const [a, b] = [of(one), of(other)];
      return (first[one.group] - first[other.group] || 0) || one.bound - other.bound || nothing(a) - nothing(b) || (nothing(a) ? 0 : sign * compared(a, b)) || one.place - other.place;
    });
  }

  let shownColumns = [];
  let whole = false;
  function drawTable(rows) {
    const varying = COLUMNS.filter((column) => column.varies && unique(rows.map(column.of)).length > 1);
    const timed = rows.some((row) => row.speedup !== null);
    const columns = COLUMNS.filter((column) => column.timed ? timed : column.varies ? varying.includes(column) : !column.wide || varying.length < 2 || column.key === "made");
    if (columns.map((column) => column.key).join() !== shownColumns.map((column) => column.key).join()) {
      shownColumns = columns;
      document.querySelector("#board thead").replaceChildren(el("tr", {}, columns.map(header)));
    }
    for (const head of document.querySelectorAll("#board thead th")) {
      if (head.dataset.key === state.sort) head.setAttribute("aria-sort", state.dir);
      else head.removeAttribute("aria-sort");
    }
    const scale = barScale(rows);
    document.querySelector("#board .axis")?.replaceWith(barAxis(scale));
    const shown = whole ? rows : rows.slice(0, LIMIT);
    const body = document.querySelector("#board tbody");
    body.replaceChildren(...shown.flatMap((row, n) => {
      const begins = state.sort === "rank" && n && shown[n - 1].group !== row.group ? "begins" : "";
      const line = el("tr", { class: `${row.bound ? "bound" : whyOf(row) ? "unranked" : ""} ${begins}`, "data-id": row.id },
        shownColumns.map((column) => column.cell ? column.cell(row, scale) : el("td", { class: `${column.text ? "" : "figure"} ${column.wide ? "wide" : ""}${column.varies ? "setting" : ""}` }, column.show(row))));
      return row.id === state.open ? [line, detail(row)] : [line];
    }));
    $("more").hidden = shown.length === rows.length;
    $("more").textContent = `Show the other ${rows.length - shown.length} rows`;
  }

  function header(column) {
    const button = el("button", { type: "button", onclick: () => {
      const turned = state.dir === "ascending" ? "descending" : "ascending";
      change({ sort: column.key, dir: state.sort === column.key ? turned : column.down ? "descending" : "ascending" });
    } }, column.label, el("span", { class: "arrow", "aria-hidden": "true" }));
    const kinds = [column.text || column.key === "reduction" ? "" : "figure", column.wide ? "wide" : "", column.varies ? "setting" : ""];
    return el("th", { scope: "col", "data-key": column.key, class: kinds.filter(Boolean).join(" ") || null },
      button, column.key === "reduction" ? svg("svg", { class: "axis" }) : null);
  }

  function rankCell(row) {
    if (row.bound) return el("td", { class: "rank" }, "bound");
    const rank = rankOf(row);
    if (rank === null) return el("td", { class: "rank" }, "–");
    const shared = GROUPS.get(row.group).some((other) => other !== row && rankOf(other) === rank);
    return el("td", { class: "rank" }, shared ? `${rank}=` : String(rank));
  }

  function nameCell(row) {
    const open = row.id === state.open;
    const facts = shownColumns.filter((column) => column.varies).map((column) => column.key === "t" ? `T ${row.temperature}` : column.key === "rows" ? `${row.rows} rows` : column.show(row));
    return el("th", { scope: "row" },
      el("button", { type: "button", class: "name", "aria-expanded": String(open), onclick: (event) => toggle(event.currentTarget, row) }, swatch(row), row.drafter),
      el("span", { class: "narrow" }, [row.bound ? "" : made(row), ...facts].filter(Boolean).join(" · ")),
      whyOf(row) ? el("span", { class: "why" }, `not ranked: ${whyOf(row)}`) : null);
  }

  function exactCell(row) {
    const differ = row.prompts - row.exact - row.ties;
    const text = differ ? `${differ} of ${row.prompts} differ` : `${row.exact}/${row.prompts}` + (row.ties ? `, ${row.ties} ${row.ties > 1 ? "ties" : "tie"}` : "");
    return el("td", { class: "figure wide" }, text);
  }

  function speedupCell(row) {
    return el("td", { class: "figure" }, row.speedup === null ? "–" : spread(row.speedup, row.speedup_low, row.speedup_high));
  }

  // A bar for each interval, all on one scale.
  const BAR = 168;
  function barScale(rows) {
    const ends = rows.flatMap((row) => [row.reduction_low, row.reduction_high]);
    const low = Math.min(1, ...ends), high = Math.max(1.5, ...ends);
    return { low, high, x: (value) => 14 + ((value - low) / (high - low)) * (BAR - 28) };
  }
  function barAxis(scale) {
    const step = scale.high - scale.low > 6 ? 2 : 1;
    const ticks = [];
    for (let tick = 1; tick <= scale.high; tick += step) ticks.push(tick);
    return svg("svg", { class: "axis", viewBox: `0 0 ${BAR} 16`, "aria-hidden": "true" }, ticks.map((tick) =>
      svg("text", { x: scale.x(tick), y: 12, "text-anchor": "middle" }, `${tick}×`)));
  }
  function reductionCell(row, scale) {
    const bounds = GROUPS.get(row.group).filter((other) => other.bound && other.drafter !== "random");
    const bar = svg("svg", { class: "bar", viewBox: `0 0 ${BAR} 20`, "aria-hidden": "true" },
      svg("line", { class: "bar-rail", x1: 10, x2: BAR - 10, y1: 10, y2: 10 }),
      bounds.map((other) => svg("line", { class: "bar-bound", x1: scale.x(other.reduction), x2: scale.x(other.reduction), y1: 2, y2: 18 })),
      svg("line", { class: "bar-line", x1: scale.x(row.reduction_low), x2: scale.x(row.reduction_high), y1: 10, y2: 10 }),
      svg("circle", { class: "bar-dot", cx: scale.x(row.reduction), cy: 10, r: 4 }));
    return el("td", { class: "reduction" }, el("span", { class: "figures" }, el("strong", {}, fixed(row.reduction)), ` [${fixed(row.reduction_low)}, ${fixed(row.reduction_high)}]`), bar);
  }

  // Colours and marks of the drafters, the same everywhere; an uncoupled twin has its drafter's, hollow.
  const base = (name) => name.replace(/-uncoupled$/, "");
  const ORDER = ["learned", "calibrated", "training-free"];
  const STYLED = unique([...ROWS].filter((row) => !row.bound)
    .sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind) || a.drafter.localeCompare(b.drafter)).map((row) => base(row.drafter)));
  const tone = (row) => (row.bound ? "grey" : `s${STYLED.indexOf(base(row.drafter)) % 8}`);
  const hollow = (row) => row.drafter !== base(row.drafter);
  const SHAPES = [
    (r) => `M${-r} 0A${r} ${r} 0 1 0 ${r} 0A${r} ${r} 0 1 0 ${-r} 0Z`,
    (r) => `M${-r} ${-r}H${r}V${r}H${-r}Z`,
    (r) => `M0 ${-1.3 * r}L${1.2 * r} ${r}H${-1.2 * r}Z`,
    (r) => `M0 ${-1.4 * r}L${1.4 * r} 0L0 ${1.4 * r}L${-1.4 * r} 0Z`,
    (r) => `M0 ${1.3 * r}L${1.2 * r} ${-r}H${-1.2 * r}Z`,
    (r) => `M${-0.4 * r} ${-1.2 * r}h${0.8 * r}v${0.8 * r}h${0.8 * r}v${0.8 * r}h${-0.8 * r}v${0.8 * r}h${-0.8 * r}v${-0.8 * r}h${-0.8 * r}v${-0.8 * r}h${0.8 * r}Z`,
    (r) => `M0 ${-1.2 * r}L${r} ${-0.6 * r}V${0.6 * r}L0 ${1.2 * r}L${-r} ${0.6 * r}V${-0.6 * r}Z`,
    (r) => `M${-1.1 * r} ${-1.1 * r}H${1.1 * r}L${-1.1 * r} ${1.1 * r}H${1.1 * r}Z`,
  ];
  function mark(row, x, y, r = 4) {
    const path = row.bound ? `M${-r} 0H${r}` : SHAPES[STYLED.indexOf(base(row.drafter)) % SHAPES.length](r);
    return svg("path", { class: `mark ${tone(row)}${hollow(row) ? " hollow" : ""}`, d: path, transform: `translate(${x} ${y})` });
  }
  const swatch = (row) => svg("svg", { class: "swatch", width: 14, height: 14, "aria-hidden": "true" }, mark(row, 7, 7, 4.2));

  // The chart: pass reduction against rows, a panel for each setting in view.
  const PANELS = 12;
  function drawChart() {
    const others = FILTERS.filter((one) => one.key !== "rows");
    const rows = ROWS.filter((row) => others.every((one) => passes(row, one)));
    const settings = unique(rows.map((row) => row.setting)).slice(0, PANELS);
    const inPanels = rows.filter((row) => settings.includes(row.setting));
    const width = $("chart").clientWidth || 800;
    const columns = settings.length === 1 ? 1 : width > 900 ? 3 : width > 560 ? 2 : 1;
    const size = { width: Math.floor((width - 16 * (columns - 1)) / columns), height: settings.length === 1 ? Math.min(380, Math.max(260, width * 0.4)) : 230 };
    const most = (setting) => { // one scale for the panels of a rule
      const { rule } = inPanels.find((row) => row.setting === setting);
      return Math.max(...inPanels.filter((row) => row.rule === rule).map((row) => row.reduction_high));
    };
    const titles = settings.map((setting) => titleOf(inPanels.find((row) => row.setting === setting), settings.length > 1));
    const drafters = unique(inPanels.map((row) => row.drafter)).map((name) => inPanels.find((row) => row.drafter === name));
    const labelled = settings.length === 1 && width > 640;
    $("chart").replaceChildren(
      labelled ? "" : el("ul", { class: "key" }, drafters.map((row) => el("li", {}, swatch(row), row.drafter))),
      el("div", { class: "panels", style: `grid-template-columns: repeat(${columns}, 1fr)` }, settings.map((setting, n) =>
        panel(inPanels.filter((row) => row.setting === setting), titles[n], settings.length > 1, labelled, size, most(setting)))));
    const note = rows.length > inPanels.length ? ` The first ${PANELS} settings.` : "";
    const tiny = settings.length && inPanels.some((row) => row.of.tiny) ? ", on tiny look-alikes" : "";
    $("chart-caption").textContent = `Pass reduction against rows a pass${tiny}. Bands: 95 % intervals. Dashed, grey: bounds; dashed, coloured: uncoupled twins.${note}`;
    drawChartTable(inPanels);
  }

  function titleOf(row, brief) {
    const rest = [row.task || (brief ? "" : "all tasks"), `T = ${row.temperature}`, row.rule].filter(Boolean);
    return [named(row.target), ...rest].join(", ");
  }

  function panel(rows, title, titled, labelled, size, most) {
    const budgets = unique(rows.map((row) => row.rows)).sort((a, b) => a - b);
    const area = { left: 42, right: size.width - (labelled ? 168 : 14), top: titled ? 26 : 12, bottom: size.height - 36 };
    const least = Math.log(budgets[0]), span = Math.log(budgets[budgets.length - 1]) - least || 1;
    const x = (n) => budgets.length === 1 ? (area.left + area.right) / 2 : area.left + 10 + ((Math.log(n) - least) / span) * (area.right - area.left - 20);
    const y = (value) => area.bottom - ((value - 1) / (most - 1 || 1)) * (area.bottom - area.top);
    const ticks = [];
    const step = most > 8 ? 2 : most > 2.5 ? 1 : 0.2;
    for (let tick = 1; tick <= most; tick += step) ticks.push(Number(tick.toFixed(1)));
    const lines = unique(rows.map((row) => row.drafter)).map((name) => rows.filter((row) => row.drafter === name).sort((a, b) => a.rows - b.rows));
    const fair = lines.filter((line) => !line[0].bound), bounds = lines.filter((line) => line[0].bound);
    const points = (line, of) => line.map((row) => `${x(row.rows).toFixed(1)},${y(of(row)).toFixed(1)}`);
    return svg("svg", { width: size.width, height: size.height, role: "img", "aria-label": `${title}: ${lines.length} drafters at ${budgets.join(", ")} rows` },
      titled ? svg("text", { class: "title", x: area.left - 28, y: 14 }, title) : "",
      ticks.map((tick) => [svg("line", { class: "grid", x1: area.left, x2: area.right, y1: y(tick), y2: y(tick) }), svg("text", { x: area.left - 8, y: y(tick) + 4, "text-anchor": "end" }, `${tick}×`)]),
      state.rows !== ALL && budgets.includes(Number(state.rows)) ? svg("line", { class: "chosen", x1: x(Number(state.rows)), x2: x(Number(state.rows)), y1: area.top, y2: area.bottom }) : "",
      budgets.map((n) => svg("text", { x: x(n), y: area.bottom + 16, "text-anchor": "middle" }, String(n))),
      svg("text", { x: (area.left + area.right) / 2, y: size.height - 4, "text-anchor": "middle" }, "rows a pass"),
      fair.map((line) => svg("polygon", { class: `band ${tone(line[0])}`, points: [...points(line, (row) => row.reduction_low), ...points(line, (row) => row.reduction_high).reverse()].join(" ") })),
      [...bounds, ...fair].map((line) => svg("polyline", { class: `line ${tone(line[0])}${line[0].bound || hollow(line[0]) ? " dashed" : ""}`, points: points(line, (row) => row.reduction).join(" ") })),
      fair.map((line) => line.map((row) => mark(row, x(row.rows), y(row.reduction), size.width > 400 ? 4 : 3))),
      labelled ? labels(lines, area, x, y) : "");
  }

  // Names at the ends of their lines, apart enough to be read.
  function labels(lines, area, x, y) {
    const ends = lines.map((line) => line[line.length - 1]).map((row) => ({ row, from: y(row.reduction), at: y(row.reduction) })).sort((a, b) => a.at - b.at);
    const gap = Math.min(15, (area.bottom - area.top) / ends.length);
    ends.forEach((end, n) => { end.at = Math.max(end.at, n ? ends[n - 1].at + gap : area.top); });
    for (let n = ends.length - 1; n >= 0; n--) ends[n].at = Math.min(ends[n].at, n === ends.length - 1 ? area.bottom : ends[n + 1].at - gap);
    return ends.map(({ row, from, at }) => [
      svg("line", { class: "leader", x1: x(row.rows) + 6, x2: area.right + 8, y1: from, y2: at }),
      svg("text", { class: `end${row.bound ? " faint" : ""}`, x: area.right + 12, y: at + 4 }, row.drafter),
    ]);
  }

  function drawChartTable(rows) {
    const budgets = unique(rows.map((row) => row.rows)).sort((a, b) => a - b);
    const lines = unique(rows.map((row) => JSON.stringify([row.setting, row.drafter])));
    const at = Object.fromEntries(rows.map((row) => [JSON.stringify([row.setting, row.drafter, row.rows]), row]));
    document.querySelector("#chart-data .scroll").replaceChildren(plainTable(
      "Pass reduction [95 %] by rows", ["Setting", "Drafter", ...budgets.map((n) => `${n} rows`)],
      lines.map((key) => {
        const [setting, drafter] = JSON.parse(key);
        const of = budgets.map((n) => at[JSON.stringify([setting, drafter, n])]);
        return [titleOf(of.find(Boolean), false), drafter, ...of.map((row) => row ? spread(row.reduction, row.reduction_low, row.reduction_high) : "–")];
      })));
  }

  function plainTable(caption, heads, lines, texts = 2) {
    return el("table", { class: "plain" }, el("caption", {}, caption),
      el("thead", {}, el("tr", {}, heads.map((head, n) => el("th", { scope: "col", class: n < texts ? null : "figure" }, head)))),
      el("tbody", {}, lines.map((line) => el("tr", {}, line.map((cell, n) => n ? el("td", { class: n < texts ? null : "figure" }, cell) : el("th", { scope: "row" }, cell))))));
  }

  // Details of a row.
  function toggle(button, row) {
    const line = button.closest("tr");
    const old = document.querySelector("#board tr.detail");
    if (old) {
      old.previousElementSibling.querySelector("button.name").setAttribute("aria-expanded", "false");
      old.remove();
    }
    const opens = state.open !== row.id;
    state = { ...state, open: opens ? row.id : "" };
    writeAddress();
    if (opens) {
      button.setAttribute("aria-expanded", "true");
      line.after(detail(row));
    }
  }

  function detail(row) {
    const cells = row.of.results.filter((result) => result.temperature === row.temperature && (!row.task || result.task === row.task) && result.passes[row.rows]);
    return el("tr", { class: "detail" }, el("td", { colspan: shownColumns.length },
      el("div", { class: "panel" },
        el("section", {}, el("h3", {}, row.drafter), el("p", { class: "about" }, row.of.card.about), facts(row)),
        el("section", {}, el("h3", {}, "Task by task"), cellTable(row, cells)),
        el("section", { class: "broad" }, el("h3", {}, "Prompt by prompt"), dots(row, cells)),
        el("section", { class: "broad" }, el("h3", {}, "Step by step"), steps(row)))));
  }

  function facts(row) {
    const { of } = row, { card, origin } = of;
    const learned = card.home ? `${card.kind === "learned" ? "trained on" : "calibrated for"} ${card.home} (${card.tasks.join(", ")}; ${card.split} split)` : card.kind === "bound" ? "a bound" : "nothing learned";
    const told = {
      Made: learned,
      Parameters: card.parameters ? card.parameters.toLocaleString("en") : "none",
      Target: `${named(row.target)}, weights ${of.weights}`,
      Decoding: `T = ${row.temperature}, ${row.rule}, seed ${of.seed}, ${of.dtype}, ${of.commit} commits`,
      Measured: `${of.replayed ? "replayed from traces" : `live on ${of.device}`}, ${origin.date}, ${origin.machine}, spotbench ${origin.spotbench}`,
      Code: `drafter ${of.code}, suite ${origin.code}${card.data ? `, learned data ${card.data}` : ""}`,
    };
    return el("dl", { class: "facts" }, Object.entries(told).map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
  }

  function cellTable(row, cells) {
    const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
    return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Task by task" }, plainTable(
      `${row.drafter} at ${row.rows} rows`, ["Task", "Prompts", "Plain passes", "Passes", "Pass reduction [95 %]", "Accuracy", "Trace"],
      cells.map((result) => {
        const own = ROWS.find((other) => other.entry === row.entry && other.task === result.task && other.temperature === row.temperature && other.rows === row.rows);
        return [result.task, String(own.prompts), fixed(mean(result.baseline), 1), fixed(own.passes, 1), spread(own.reduction, own.reduction_low, own.reduction_high), fixed(own.accuracy), result.trace];
      }), 1));
  }

  const ratios = (row, result) => result.passes[row.rows].map((n, i) => result.baseline[i] / n);

  function dots(row, cells) {
    const most = Math.max(2, ...cells.flatMap((result) => ratios(row, result)));
    const narrow = window.innerWidth < 640;
    const size = { width: narrow ? Math.max(260, window.innerWidth - 72) : Math.min(1090, window.innerWidth - 100), strip: 64, left: narrow ? 14 : 100, right: 16 };
    const x = (value) => size.left + ((value - Math.min(1, value)) / (most - 1)) * (size.width - size.left - size.right);
    const height = cells.length * size.strip + 24;
    const ticks = [];
    for (let tick = 1; tick <= most; tick += most > 9 ? 2 : 1) ticks.push(tick);
    const picture = svg("svg", { width: size.width, height, role: "img", "aria-label": `Pass reduction of every prompt, ${cells.length} tasks; the table below has the figures` },
      ticks.map((tick) => [svg("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 4, y2: height - 22 }), svg("text", { x: x(tick), y: height - 6, "text-anchor": "middle" }, `${tick}×`)]),
      cells.map((result, n) => {
        const floor = (n + 1) * size.strip - 10, bins = {};
        for (const value of ratios(row, result)) (bins[Math.round(x(value) / 5)] ??= []).push(value);
        const deepest = Math.max(...Object.values(bins).map((bin) => bin.length));
        const rise = Math.min(6, (size.strip - 24) / deepest);
        const own = ROWS.find((other) => other.entry === row.entry && other.task === result.task && other.temperature === row.temperature && other.rows === row.rows);
        return [
          svg("text", { class: "strip", x: narrow ? 0 : size.left - 12, y: narrow ? floor - size.strip + 20 : floor - 4, "text-anchor": narrow ? "start" : "end" }, result.task),
          svg("line", { class: "bar-rail", x1: size.left, x2: size.width - size.right, y1: floor + 4, y2: floor + 4 }),
          Object.entries(bins).map(([bin, values]) => values.map((_, k) => svg("circle", { class: "dot", cx: 5 * bin, cy: floor - 2 - k * rise, r: 2.6 }))),
          svg("line", { class: "bar-line", x1: x(own.reduction_low), x2: x(own.reduction_high), y1: floor + 4, y2: floor + 4 }),
          svg("circle", { class: "bar-dot", cx: x(own.reduction), cy: floor + 4, r: 3.5 }),
        ];
      }));
    const table = el("details", { ontoggle: (event) => {
      const into = event.currentTarget.querySelector(".scroll");
      if (!into.firstChild) into.append(plainTable("Passes of every prompt", ["Task", "Prompt", "Plain passes", "Passes", "Ratio"],
        cells.flatMap((result) => ratios(row, result).map((ratio, i) => [result.task, String(i), String(result.baseline[i]), String(result.passes[row.rows][i]), fixed(ratio)])), 1));
    } }, el("summary", {}, "Every prompt as a table"), el("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "Every prompt" }));
    return [el("p", { class: "fine" }, "A dot for each prompt: plain passes over passes. The bar below: geometric mean and its interval."), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Plot of every prompt" }, picture), table];
  }

  const MARKS = {
    o: ["own", "C", "committed by the target’s own step"],
    a: ["accepted", "A", "drafted and accepted: a step that needed no pass of its own"],
    r: ["rejected", "R", "drafted and rejected (one path of them)"],
    m: ["open", "·", "masked"],
    e: ["earlier", "", "committed earlier"],
  };
  function steps(row) {
    const kept = row.of.steps;
    if (!kept) return el("p", {}, "No decode of this entry was kept.");
    const told = `Prompt ${kept.doc_id} of ${kept.task} at T = ${kept.temperature} and ${kept.rows} rows: a row for each pass, a column for each position of the block.`;
    return [
      el("p", { class: "fine" }, told),
      el("ul", { class: "key" }, Object.values(MARKS).slice(0, 4).map(([kind, letter, text]) => el("li", {}, el("span", { class: `step ${kind}` }, el("b", {}, letter)), text))),
      ...kept.blocks.map((block) => el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Block ${block.index}, pass by pass` }, blockTable(block))),
    ];
  }
  function blockTable(block) {
    const head = ["Pass", "Rows", "Accepted"].map((text) => el("th", { scope: "col" }, text));
    const positions = block.text.map((_, i) => i).slice(block.given);
    return el("table", { class: "steps" },
      el("caption", {}, `Block ${block.index}: ${block.lines.length} passes${block.given ? `; the prompt fills its first ${block.given} positions` : ""}`),
      el("thead", {}, el("tr", {}, head, positions.map((i) => el("th", { scope: "col" }, String(i))))),
      el("tbody", {}, block.lines.map((line, n) => {
        let next = 0;
        const cells = [...line.marks].map((letter) => {
          const [kind, sign] = MARKS[letter];
          const token = "oar".includes(letter) ? line.tokens[next++] : "";
          return el("td", { class: `step ${kind}` }, sign ? el("b", {}, sign) : "", token);
        });
        return el("tr", {}, el("th", { scope: "row" }, String(n + 1)), el("td", { class: "figure" }, String(line.rows)), el("td", { class: "figure" }, String(line.depth)), cells.slice(block.given));
      })),
      el("tfoot", {}, el("tr", {}, el("th", { scope: "row", colspan: 3 }, "Text"), positions.map((i) => el("td", {}, block.text[i])))));
  }

  // What is shown, as a file.
  function csv() {
    const heads = ["rank", "not_ranked", "drafter", "family", "trained", "target", "context", "tiny_look_alike", "task", "temperature", "rule", "rows", "prompts", "passes",
      "pass_reduction", "pass_reduction_low", "pass_reduction_high", "of_oracle", "speedup", "speedup_low", "speedup_high", "steps_per_pass", "draft_ms", "accuracy", "same_answers", "numeric_ties"];
    const lines = sorted(ROWS.filter(inView)).map((row) => [
      rankOf(row), row.bound ? "bound" : whyOf(row), row.drafter, row.kind, row.trained, row.of.target, row.of.context, row.of.tiny, row.task || "all", row.temperature, row.rule, row.rows, row.prompts, row.passes,
      row.reduction, row.reduction_low, row.reduction_high, row.of_oracle, row.speedup, row.speedup_low, row.speedup_high, row.steps_per_pass, row.draft_ms, row.accuracy, row.exact, row.ties]);
    return [heads, ...lines].map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
  }
  function quoted(value) {
    if (typeof value !== "string") return value ?? "";
    const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value; // or a spreadsheet would run it
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }
  function download() {
    const url = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
    el("a", { href: url, download: "spotbench-leaderboard.csv" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  // All of it.
  function drawFilters() {
    $("filters").replaceChildren(...FILTERS.map((one) => {
      const id = `filter-${one.key}`;
      const values = one.all ? [...one.options, ALL] : one.options;
      const choose = el("select", { id, name: one.key, onchange: (event) => change({ [one.key]: event.target.value }) },
        values.map((value) => el("option", { value }, value === ALL ? one.all : (one.show ?? String)(value))));
      return el("div", {}, el("label", { for: id }, one.label), choose);
    }), el("button", { type: "button", id: "reset", onclick: () => change({ ...INITIAL }) }, "Reset"));
  }

  function draw() {
    for (const one of FILTERS) $(`filter-${one.key}`).value = state[one.key];
    const rows = sorted(ROWS.filter(inView));
    const ranked = rows.filter((row) => rankOf(row) !== null).length, bounds = rows.filter((row) => row.bound).length;
    const part = (key, word) => state[key] === ALL ? `every ${word}` : null;
    const title = [part("target", "target") ?? named(state.target), state.task || "all tasks", part("t", "temperature") ?? `T = ${state.t}`, part("rule", "rule") ?? state.rule, part("rows", "budget") ?? `${state.rows} rows`].join(", ");
    $("view-title").textContent = title;
    $("caption").textContent = `Ranked by the lower bound of ${state.by === "speed" ? "speed-up" : "pass reduction"}: ${title}.`;
    $("count").textContent = `${rows.length} rows: ${ranked} ranked, ${rows.length - ranked - bounds} not ranked, ${bounds} bounds`;
    drawTable(rows);
    drawChart();
  }

  for (const id of ["filters", "view", "legend", "csv"]) $(id).hidden = false;
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("csv").addEventListener("click", download);
  $("more").addEventListener("click", () => { whole = true; draw(); });
  window.addEventListener("hashchange", () => { readAddress(); draw(); });
  let width = window.innerWidth;
  window.addEventListener("resize", () => { if (window.innerWidth !== width) { width = window.innerWidth; draw(); } });
  drawFilters();
  readAddress();
  draw();
})();
