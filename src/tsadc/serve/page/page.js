// The page: entities by severity on the left; one entity, an episode, mutes, models or health on the right. Whatever
// the service reports as changed is fetched again, at most once a second.

import { charts, element, named } from "./chart.js";
import { askWith, follow, Refused, request, TIMEOUT, Unreachable } from "./live.js";
import * as words from "./words.js";

const ROW = 60; // px of an entity in the list; page.css has the same
const CHUNK = 60; // entities of a request
const PAUSE = 1000; // ms between refreshes
const HOLD = 8000; // ms for which a pressed button or an open selection stops them
const POINTS = 400; // of a line
const LATER = 30000; // ms after which what was refused is asked for again
const REST = 10; // times as long as the service took to read rows, it is not asked for them again
const FEW = 3, MORE = 6; // variables shown at first, and with each press of the button
const PERIODS = [[600, "10 minutes"], [3600, "1 hour"], [21600, "6 hours"], [86400, "1 day"], [604800, "7 days"], [2592000, "30 days"]];
const FILTERS = ["", "open", "acknowledged", "muted", "level", "ok", "unscored"];
const EPISODE_STATES = [["open", "Open"], ["acknowledged", "Acknowledged"], ["resolved", "Resolved"], ["expired", "Expired"], ["", "All"]];
const MUTE_MINUTES = [[60, "1 hour"], [480, "8 hours"], [1440, "1 day"], [10080, "1 week"], ["", "until it is removed"]];

const root = document.documentElement;
const by = (id) => document.getElementById(id);
const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined)).toString();
const entityPath = (name) => `v1/entities/${encodeURIComponent(name)}`;
const entityLink = (name) => `#/entity/${encodeURIComponent(name)}`;
const proposalLink = (name) => `#/models/${encodeURIComponent(name)}`;
const episodeLink = (id) => `#/episode/${encodeURIComponent(id)}`;
const remembered = {
  get: (key) => { try { return localStorage.getItem(key); } catch { return null; } },
  set: (key, value) => { try { localStorage.setItem(key, value); } catch { /* without storage it is not remembered */ } },
};
const button = (text, attributes, pressed) => element("button", { type: "button", ...attributes, onclick: pressed }, text);
const facts = (pairs) => element("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "").flatMap(([term, value]) => [element("dt", {}, term), element("dd", {}, value)]));
const bar = (share) => {
  const inner = element("i");
  inner.style.width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  return element("span", { class: "bar", "aria-hidden": "true" }, inner);
};

const expected = (error) => error instanceof Refused || error instanceof Unreachable;
const report = (error) => { if (!expected(error)) console.error(error); };

// ---- Theme

const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
const wear = (name) => {
  if (name === "dark" || name === "light") root.dataset.theme = name;
  by("theme").textContent = isDark() ? "Light" : "Dark";
};
wear(remembered.get("tsadc-theme"));
by("theme").addEventListener("click", () => { wear(isDark() ? "light" : "dark"); remembered.set("tsadc-theme", root.dataset.theme); });

// ---- Notices and dialogs

function notice(text) {
  const box = element("p", {}, text);
  box.append(button("Close", {}, () => box.remove()));
  by("notices").replaceChildren(box);
  setTimeout(() => box.remove(), 15000);
}

/** Send a change, and show what it changed. Return whether the service accepted it. */
async function change(path, options) {
  try {
    await request(path, options);
  } catch (error) {
    if (!expected(error)) throw error;
    notice(error instanceof Refused ? error.message : error.late
      ? `The service has not answered within ${TIMEOUT / 1000} s and may still be at work. Whether this was done, the page shows in a moment; look at Health if it does not.`
      : "The service does not answer, so it is not known whether this was saved. Look here when the page is connected, before you try again.");
    if (error.late) soon();
    return false;
  }
  checked = 0;
  await refresh();
  return true;
}

askWith((why) => new Promise((resolve) => {
  const dialog = by("token-dialog"), form = dialog.querySelector("form");
  by("token-text").textContent = why
    ? `${why} Enter another one; it is kept until this tab is closed.`
    : "The service asks for a token. It is kept until this tab is closed.";
  form.reset();
  dialog.oncancel = (event) => event.preventDefault(); // without a token there is nothing to show
  form.onsubmit = (event) => {
    event.preventDefault();
    dialog.close();
    resolve(form.elements.token.value.trim());
  };
  dialog.showModal();
}));

/** Ask with a form. `fields` are elements; `send(values)` returns whether it was accepted. */
function askForm(title, fields, action, send) {
  const dialog = by("form-dialog");
  const opener = document.activeElement?.dataset.key;
  const submit = element("button", { type: "submit", class: "main" }, action);
  const form = element("form", { method: "dialog" }, element("h2", { id: "form-title" }, title), fields,
    element("p", { class: "buttons" }, submit, button("Cancel", {}, () => dialog.close())));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    if (await send(Object.fromEntries(new FormData(form)))) dialog.close();
    submit.disabled = false;
  });
  dialog.onclose = () => { dialog.replaceChildren(); if (opener) document.querySelector(`[data-key="${CSS.escape(opener)}"]`)?.focus(); };
  dialog.replaceChildren(form);
  dialog.showModal();
}

const whoField = () => element("label", {}, "Your name ", element("input", { name: "by", maxlength: "200", autocomplete: "name", value: remembered.get("tsadc-name") ?? "" }));
const noteField = () => element("label", {}, "Note ", element("textarea", { name: "note", rows: "3", maxlength: "2000" }));
const selectField = (label, name, options, chosen) => element("label", {}, `${label} `, element("select", { name },
  options.map(([value, text]) => element("option", { value, selected: String(value) === String(chosen) }, text))));

function askVerdict(episode, chosen) {
  const choice = element("fieldset", {}, element("legend", {}, "What was it?"), Object.entries(words.VERDICTS).map(([value, text]) =>
    element("label", { class: "choice" }, element("input", { type: "radio", name: "verdict", value, required: true, checked: value === chosen, autofocus: value === chosen }), ` ${text}`)));
  const about = element("p", { class: "lead" }, named(episode.entity), `, ${words.when(episode)}.`);
  askForm("Verdict", [about, choice, noteField(), whoField()], "Save the verdict", (values) => {
    remembered.set("tsadc-name", values.by);
    return change(`v1/episodes/${encodeURIComponent(episode.id)}/verdict`, { method: "POST", body: values });
  });
}

function askMute(entity, variables) {
  const about = element("p", { class: "lead" }, "Muted episodes are recorded and shown, but no alert is sent. ", element("code", {}, "*"), " in the name stands for any characters.");
  const fields = [
    about,
    element("label", {}, "Entity ", element("input", { name: "entity", required: true, maxlength: "200", value: entity, autocomplete: "off" })),
    selectField("Variable", "variable", [["", "all variables"], ...variables.map((name) => [name, name])], ""),
    selectField("For", "minutes", MUTE_MINUTES, 60), noteField(), whoField(),
  ];
  askForm("Mute", fields, "Mute", ({ minutes, ...values }) => {
    remembered.set("tsadc-name", values.by);
    return change("v1/mutes", { method: "POST", body: { ...values, until: minutes === "" ? null : new Date(Date.now() + 60000 * minutes).toISOString() } });
  });
}

// ---- The list of entities: only the rows in view are in the document

const list = { search: "", state: "", total: 0, counts: {}, proposals: 0, chunks: new Map(), focus: 0, loaded: false, generation: 0, focusing: false };
const entityAt = (index) => list.chunks.get(Math.floor(index / CHUNK))?.[index % CHUNK];

function inView() {
  const box = by("entities");
  const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 4);
  return [first, Math.min(list.total, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + 4)];
}

async function loadList() {
  const generation = list.generation;
  const [start, stop] = inView();
  const chunks = new Map();
  for (let chunk = Math.floor(start / CHUNK); chunk * CHUNK < Math.max(stop, start + 1); chunk += 1) {
    const found = await request(`v1/entities?${query({ search: list.search, state: list.state, limit: CHUNK, offset: chunk * CHUNK })}`);
    if (generation !== list.generation) return; // the filter has changed meanwhile
    chunks.set(chunk, found.entities);
    Object.assign(list, { total: found.total, counts: found.counts, proposals: found.proposals });
  }
  const first = !list.loaded;
  Object.assign(list, { chunks, loaded: true });
  if (first || !isHeld()) drawList();
}

let loading = null;
const loadMissing = () => {
  const [first, stop] = inView();
  const again = () => { loading = null; if (inView()[0] !== first) loadMissing(); };
  const missing = [first, stop - 1].some((index) => index >= 0 && index < list.total && !entityAt(index));
  if (missing) loading ??= loadList().catch(report).finally(again);
};

const going = new Map(); // the worst open episode of each entity that has one

/** The latest score may be above the threshold without an open episode, before one is opened or after it has ended. */
const stateOf = (entity) => (entity.state === "ok" && entity.anomalous ? "unusual" : entity.state);

function about(entity) {
  const state = words.STATES[stateOf(entity)] ?? entity.state;
  const last = entity.last_time === null ? "no row yet" : `last row ${words.brief(entity.last_time)}`;
  const episode = going.get(entity.name);
  if (entity.state !== "ok" && episode) {
    const blamed = Object.keys(episode.variables ?? {}).slice(0, 3);
    return [`${state} ${begun(entity, episode)}${entity.level_since ? ", at a new level" : ""}`, blamed.length ? ": " : "", ...blamed.flatMap((name, i) => [i ? ", " : "", named(name)])];
  }
  return [`${state}, ${last}`];
}

/** Since when an entity has its state. */
function begun({ state }, { start, acknowledged }) {
  if (state === "acknowledged" && acknowledged) return `at ${words.brief(acknowledged)}`;
  return state === "muted" ? `alarm since ${words.brief(start)}` : `since ${words.brief(start)}`;
}

function entityRow(index) {
  const entity = entityAt(index);
  const row = element("li", { "aria-setsize": list.total, "aria-posinset": index + 1 });
  row.style.top = `${ROW * index}px`;
  if (!entity) {
    row.append(element("span", { class: "entity loading" }, "…"));
    return row;
  }
  const chosen = place.kind === "entity" && place.key === entity.name;
  const worst = entity.open_severity ?? entity.severity;
  const scored = typeof worst === "number";
  const grade = element("span", { class: "grade" }, scored ? words.severity(worst) : "", scored ? bar(worst / 100) : null);
  if (scored) grade.title = `severity ${words.severity(worst)}, ${words.severityWord(worst)}`;
  row.append(element("a", {
    class: "entity", href: entityLink(entity.name), "data-key": `entity ${entity.name}`, "data-index": index, "data-state": stateOf(entity),
    tabindex: index === list.focus ? 0 : -1, "aria-current": chosen ? "true" : null,
  }, element("i", { class: "dot", "aria-hidden": "true" }), element("span", { class: "name" }, named(entity.name)), grade, element("span", { class: "sub" }, about(entity))));
  return row;
}

function drawList() {
  const { counts, total, state, search, proposals } = list;
  const everything = Object.values(counts).reduce((sum, value) => sum + value, 0);
  const alarms = counts.open ?? 0;
  const verdict = by("verdict");
  const others = [["muted", "a muted alarm"], ["level", "a new level"]].filter(([name]) => counts[name]).map(([name, text]) => `${counts[name].toLocaleString("en")} ${counts[name] === 1 ? "has" : "have"} ${text}`);
  verdict.classList.toggle("calm", alarms === 0);
  if (!list.loaded) verdict.replaceChildren();
  else if (!everything) verdict.replaceChildren("No entity has sent rows yet.");
  else if (alarms) verdict.replaceChildren(element("strong", {}, words.count(alarms, "entity", "entities")), ` of ${everything.toLocaleString("en")} ${alarms === 1 ? "has" : "have"} an alarm.`);
  else verdict.replaceChildren(others.length ? "No alarm" : element("strong", {}, "No alarm"), ` on ${words.count(everything, "entity", "entities")}${others.length ? `, but ${others.join(" and ")}` : ""}.`);
  by("proposed").hidden = !proposals;
  by("proposed").replaceChildren(element("span", { "aria-hidden": "true" }, String(proposals)), element("span", { class: "unseen" }, ` ${words.count(proposals, "new level", "new levels")} to decide about`));
  document.title = `${alarms ? `(${alarms}) ` : ""}tsadc`;

  keepFocus(by("states"), () => by("states").replaceChildren(...FILTERS.filter((name) => name === "" || name === state || counts[name]).map((name) =>
    button(`${name ? words.STATES[name] : "All"} ${(name ? counts[name] ?? 0 : everything).toLocaleString("en")}`,
      { "data-key": `filter ${name}`, "data-filter": name, "aria-pressed": String(name === state) }, () => filter({ state: name })))));

  const empty = by("empty");
  empty.hidden = !list.loaded || total > 0;
  empty.textContent = everything ? `No entity${search ? ` matches “${search}”` : ""}${state ? `${search ? " and" : ""} is ${words.STATES[state].toLowerCase()}` : ""}.` : "Send rows to POST /v1/rows, or configure a reader; entities appear here by themselves.";
  by("entities").hidden = total === 0;

  list.focus = Math.min(list.focus, Math.max(0, total - 1));
  const [first, stop] = inView();
  const indices = Array.from({ length: Math.max(0, stop - first) }, (_, i) => first + i);
  if (list.focus < first || list.focus >= stop) indices.push(list.focus); // the row that Tab reaches
  const rows = by("rows");
  rows.style.height = `${ROW * total}px`;
  keepFocus(rows, () => rows.replaceChildren(...(total ? indices.map(entityRow) : [])));
  const link = list.focusing ? rows.querySelector(`[data-index="${list.focus}"]`) : null;
  if (!link) return; // if it is not loaded yet, it gets the focus when it is
  list.focusing = false;
  link.focus({ preventScroll: true });
}

function focusRow(index) {
  if (!list.total) return;
  list.focus = Math.min(Math.max(index, 0), list.total - 1);
  const box = by("entities"), top = list.focus * ROW;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
  list.focusing = true;
  drawList();
  loadMissing();
}

function filter(values) {
  Object.assign(list, values, { chunks: new Map(), focus: 0 });
  list.generation += 1;
  by("entities").scrollTop = 0;
  loadList().catch(report);
}

by("filters").addEventListener("submit", (event) => { event.preventDefault(); focusRow(0); });
let typing = 0;
by("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => filter({ search: by("search").value.trim() }), 150);
});
by("search").addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") { event.preventDefault(); focusRow(0); }
});
let drawing = 0;
by("entities").addEventListener("scroll", () => {
  drawing ||= requestAnimationFrame(() => { drawing = 0; drawList(); loadMissing(); });
}, { passive: true });
by("rows").addEventListener("keydown", (event) => {
  const jump = Math.max(1, Math.floor(by("entities").clientHeight / ROW) - 1);
  const target = { ArrowDown: list.focus + 1, ArrowUp: list.focus - 1, PageDown: list.focus + jump, PageUp: list.focus - jump, Home: 0, End: list.total - 1 }[event.key];
  if (target === undefined) return;
  event.preventDefault();
  if (target < 0 && event.key === "ArrowUp") by("search").focus(); else focusRow(target);
});
by("rows").addEventListener("focusin", (event) => {
  const index = Number(event.target.dataset.index);
  if (index >= 0) list.focus = index;
});
new ResizeObserver(() => { drawList(); loadMissing(); }).observe(by("entities"));

/** Change part of the page; an element with the same key gets the focus back. */
function keepFocus(container, update) {
  const active = document.activeElement;
  const key = container.contains(active) ? active.dataset.key : null;
  update();
  if (!key || container.contains(document.activeElement)) return;
  container.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

// ---- Episodes

function grade(episode) {
  const word = words.severityWord(episode.severity);
  const often = words.returnPeriod(episode.return_period);
  return element("span", { class: "severity", title: `score ${words.number(episode.score)}${often ? `; a score like this: ${often} of normal operation` : ""}` },
    bar(episode.severity / 100), `${word}, ${words.severity(episode.severity)}`, often ? element("span", { class: "often" }, often) : null);
}

function actions(episode, variables) {
  const acknowledge = () => change(`v1/episodes/${encodeURIComponent(episode.id)}/acknowledge`, { method: "POST", body: { by: remembered.get("tsadc-name") ?? "" } });
  return element("p", { class: "buttons" },
    words.goesOn(episode) ? button(episode.acknowledged ? "Acknowledged" : "Acknowledge", { class: episode.acknowledged ? null : "main", "aria-disabled": episode.acknowledged ? "true" : null, "data-key": "acknowledge" }, episode.acknowledged ? () => {} : acknowledge) : null,
    element("span", { class: "group", role: "group", "aria-label": "Verdict" }, Object.entries(words.VERDICTS).map(([value, text]) =>
      button(text, { "aria-pressed": String(episode.verdict === value), "data-key": `verdict ${value}`, "data-verdict": value }, () => askVerdict(episode, value)))),
    button("Mute …", { "data-key": "mute" }, () => askMute(episode.entity, variables)));
}

function why(episode) {
  const shares = Object.entries(episode.variables ?? {});
  return element("div", { class: "why" }, element("h4", {}, words.title(episode)), episode.reason ? element("p", {}, episode.reason) : null,
    element("ol", { class: "contributions" }, shares.map(([name, share]) =>
      element("li", {}, element("span", { class: "label" }, named(name)), element("span", { class: "figure" }, words.percent(share)), bar(share)))));
}

function handled(episode) {
  const who = (name) => (name ? [" by ", named(name)] : []);
  const changed = Math.abs(episode.alarm_severity - episode.severity) >= 1;
  return facts([
    ["Alarm", [`${words.moment(episode.alarm_time)}, severity ${words.severity(episode.alarm_severity)}, score ${words.number(episode.alarm_score)}`]],
    ["Now", changed || episode.score !== episode.alarm_score ? [`severity ${words.severity(episode.severity)}, score ${words.number(episode.score)}`] : null],
    ["According to the present model", typeof episode.present_score === "number" ? [`score ${words.number(episode.present_score)}`] : null],
    ["Acknowledged", episode.acknowledged ? [words.moment(episode.acknowledged, true), ...who(episode.acknowledged_by)] : null],
    ["Verdict", episode.verdict ? [words.VERDICTS[episode.verdict] ?? episode.verdict, ...who(episode.verdict_by), episode.verdict_note ? `: ${episode.verdict_note}` : ""] : null],
    ["Resolved", episode.resolved ? [words.moment(episode.resolved, true), episode.withdrawn ? "; the final verdict did not confirm it" : ""] : null],
    ["Muted", episode.muted ? ["no alert is sent"] : null],
    ["Model", [named(episode.model)]],
    ["Name", [element("code", {}, episode.id)]],
  ]);
}

/** How long an episode lasted, if it is over. */
const lasted = (episode) => (words.goesOn(episode) ? "" : `, ${words.duration(episode.end - episode.start)}`);
const capital = (text) => text[0].toUpperCase() + text.slice(1);

function episodeRow(episode, withEntity) {
  const verdict = episode.verdict ? `, ${words.VERDICTS[episode.verdict]?.toLowerCase() ?? episode.verdict}` : "";
  const state = episode.withdrawn ? "Not confirmed" : words.STATES[episode.state] ?? episode.state;
  return element("li", {}, element("a", { class: "episode", href: episodeLink(episode.id), "data-key": `episode ${episode.id}`, "data-state": episode.state },
    element("i", { class: "dot", "aria-hidden": "true" }),
    element("span", { class: "name" }, withEntity ? [named(episode.entity), " "] : null, element("time", {}, words.when(episode))),
    element("span", { class: "grade" }, words.severity(episode.severity), bar(episode.severity / 100)),
    element("span", { class: "sub" }, `${state}${episode.muted ? ", muted" : ""}${verdict}${lasted(episode)}: ${words.title(episode).toLowerCase()}`)));
}

// ---- Views of the right side: `load` fetches, `draw` returns the content

const legend = () => element("p", { class: "legend" }, [["measured", "measured"], ["usual", "usual"], ["shaded", "episode"]].map(([kind, text]) =>
  element("span", {}, element("i", { class: `swatch ${kind}`, "aria-hidden": "true" }), text)));
const heading = (...content) => element("h2", { tabindex: "-1" }, content);
const rowsOf = (name, from, to, variables) => request(`${entityPath(name)}/rows?${new URLSearchParams([["from", from], ["to", to], ["max_points", POINTS], ...variables.map((own) => ["variable", own])])}`);

/** What a chart leaves out. */
function leftOut(entity, rows) {
  const said = [];
  const shown = entity.scores.end.length;
  if (entity.verdicts > shown) said.push(`Each column of the score is the highest of about ${Math.round(entity.verdicts / shown).toLocaleString("en")} verdicts.`);
  if (rows.coverage < 1) said.push(`The lines show ${words.percent(rows.coverage)} of the rows, evenly spread; a shorter period shows all.`);
  return said.length ? element("p", { class: "note left-out" }, said.join(" ")) : null;
}

/** Blamed variables first. The order stays while the same episode goes on, so that charts do not jump. */
function ordered(here, names, open) {
  const about = open?.id ?? "";
  if (here.order?.about !== about) {
    const blamed = Object.keys(open?.variables ?? {}).filter((name) => names.includes(name));
    here.order = { about, names: [...blamed, ...names.filter((name) => !blamed.includes(name))] };
  }
  return here.order.names;
}

const VIEWS = {
  entity: {
    async load(name) {
      const here = place;
      const { episodes } = await request(`v1/episodes?${query({ entity: name, limit: 50 })}`);
      const open = episodes.filter(words.goesOn).sort((a, b) => b.severity - a.severity)[0];
      if (!here.period) { // by default the service returns a few observations; a round period that is a little longer
        const { from, to } = await request(`${entityPath(name)}/rows?max_points=2`);
        here.period = 1000 * (PERIODS.find(([seconds]) => 1000 * seconds >= to - from) ?? PERIODS[PERIODS.length - 1])[0];
      }
      here.last ??= (await request(`${entityPath(name)}?limit=1`)).last_time ?? Date.now();
      const entity = await request(`${entityPath(name)}?${query({ from: here.last - here.period, max_points: POINTS })}`);
      here.last = entity.last_time;
      const to = entity.last_time ?? Date.now(), from = to - here.period;
      const shown = ordered(here, entity.names, open).slice(0, here.shown ?? FEW);
      const about = JSON.stringify([here.period, shown]), asked = Date.now();
      if (here.rows?.about !== about || asked > here.rows.until) {
        const rows = await rowsOf(name, from, to + 1, shown);
        here.rows = { about, rows, until: Date.now() + REST * (Date.now() - asked) };
      } else {
        setTimeout(soon, here.rows.until - asked);
      }
      return { entity, episodes, open, from, to, shown, rows: here.rows.rows };
    },
    draw({ entity, episodes, open, from, to, shown, rows }) {
      const state = element("p", { class: "state", "data-state": stateOf(entity) }, element("i", { class: "dot", "aria-hidden": "true" }), element("span", {}, about(entity)));
      const period = element("select", { "aria-label": "Period", "data-key": "period", onchange: (event) => { place.period = Number(event.target.value); busy(); show(); } },
        PERIODS.map(([seconds, text]) => element("option", { value: 1000 * seconds, selected: 1000 * seconds === place.period }, text)));
      const total = entity.names.length;
      const more = total > shown.length ? button(`Show ${Math.min(MORE, total - shown.length)} more of ${total} variables`, { "data-key": "more" }, () => { place.shown = shown.length + MORE; busy(); show(); }) : null;
      const fewer = shown.length > FEW ? button("Show fewer", { "data-key": "fewer" }, () => { place.shown = FEW; show(); }) : null;
      const withdrawn = episodes.filter((episode) => episode.withdrawn), others = episodes.filter((episode) => episode !== open && !episode.withdrawn);
      const share = (name) => { const value = (open?.variables ?? {})[name]; return value ? words.percent(value) : ""; };
      return [
        element("header", { class: "head" }, heading(named(entity.name)), state,
          entity.level_since ? element("p", { class: "new-level" }, `At a new level since ${words.moment(entity.level_since)}: `, element("a", { href: proposalLink(entity.name), "data-key": "level" }, "learn it as normal?")) : null,
          open ? null : element("p", { class: "buttons" }, button("Mute …", { "data-key": "mute" }, () => askMute(entity.name, entity.names)))),
        open ? element("article", { class: "card" },
          element("header", {}, element("h3", {}, element("a", { href: episodeLink(open.id), "data-key": "open" }, capital(words.when(open)))), grade(open)),
          why(open), actions(open, entity.names)) : null,
        element("div", { class: "chart-head" }, element("label", {}, "Last ", period), legend()),
        charts({
          label: `Chart of ${entity.name}`, from, to, scores: entity.scores, episodes: episodes.filter((episode) => !episode.withdrawn), times: rows.times, cursor: place.cursor ?? null,
          moved: (time) => { place.cursor = time; }, variables: shown.filter((name) => rows.variables[name]).map((name) => [name, rows.variables[name], share(name)]),
        }),
        leftOut(entity, rows),
        element("p", { class: "buttons" }, more, fewer),
        element("h3", {}, open ? "Earlier episodes" : "Episodes"),
        others.length ? element("ol", { class: "episodes" }, others.map((episode) => episodeRow(episode, false))) : element("p", { class: "note" }, "None."),
        withdrawn.length ? element("details", { open: place.unfolded, ontoggle: (event) => { place.unfolded = event.target.open; } }, element("summary", { "data-key": "withdrawn" }, `${words.count(withdrawn.length, "early alarm", "early alarms")} that the final verdict did not confirm`),
          element("ol", { class: "episodes" }, withdrawn.map((episode) => episodeRow(episode, false)))) : null,
        facts([["Model", [named(entity.model)]], ["Last row", [words.moment(entity.last_time)]],
          ["Score", typeof entity.score === "number" ? [`${words.number(entity.score)}, threshold ${words.number(entity.threshold)}`] : null]]),
      ];
    },
  },

  episode: {
    async load(id) {
      const episode = await request(`v1/episodes/${encodeURIComponent(id)}`);
      const around = Math.max(episode.end - episode.start, 1000), from = episode.start - around;
      let to = episode.end + around;
      const shown = Object.keys(episode.variables ?? {}).slice(0, FEW);
      const entity = await request(`${entityPath(episode.entity)}?${query({ from, to, max_points: POINTS })}`);
      to = Math.max(episode.end, Math.min(to, entity.last_time ?? to));
      return { episode, entity, from, to, rows: shown.length ? await rowsOf(episode.entity, from, to, shown) : { times: [], variables: {}, coverage: 1 }, shown };
    },
    draw({ episode, entity, from, to, rows, shown }) {
      return [
        element("header", { class: "head" }, element("p", { class: "note" }, element("a", { href: entityLink(episode.entity), "data-key": "entity" }, named(episode.entity))), heading(capital(words.when(episode))),
          element("p", { class: "state", "data-state": episode.state }, element("i", { class: "dot", "aria-hidden": "true" }),
            element("span", {}, `${words.STATES[episode.state] ?? episode.state}${episode.muted ? ", muted" : ""}${lasted(episode)}`), grade(episode)),
          actions(episode, entity.names)),
        element("div", { class: "body" }, why(episode), element("div", {}, legend(), charts({
          label: `Chart of ${episode.entity} around the episode`, from, to, scores: entity.scores, episodes: [episode], times: rows.times, cursor: place.cursor ?? null,
          moved: (time) => { place.cursor = time; }, variables: shown.filter((name) => rows.variables[name]).map((name) => [name, rows.variables[name], ""]),
        }), leftOut(entity, rows))),
        handled(episode),
      ];
    },
  },

  episodes: {
    load: () => request(`v1/episodes?${query({ state: place.state ?? "open", limit: 200 })}`),
    draw({ episodes, total }) {
      const chosen = place.state ?? "open";
      const states = element("div", { class: "states", role: "group", "aria-label": "Filter by state" }, EPISODE_STATES.map(([name, text]) =>
        button(text, { "data-key": `state ${name}`, "aria-pressed": String(name === chosen) }, () => { place.state = name; show(); })));
      const rest = (total ?? episodes.length) - episodes.length;
      return [heading("Episodes"), states, episodes.length ? element("ol", { class: "episodes" }, episodes.map((episode) => episodeRow(episode, true))) : element("p", { class: "note" }, "None."),
        rest > 0 ? element("p", { class: "note" }, `${rest.toLocaleString("en")} more are not shown.`) : null];
    },
  },

  mutes: {
    load: () => request("v1/mutes"),
    draw({ mutes }) {
      const rows = mutes.map((mute) => element("tr", {},
        element("td", {}, named(mute.entity)), element("td", {}, mute.variable && mute.variable !== "*" ? named(mute.variable) : "all variables"),
        element("td", {}, mute.until ? words.moment(mute.until, false) : "until it is removed"), element("td", {}, mute.note ?? ""), element("td", {}, mute.by ? named(mute.by) : ""),
        element("td", {}, button("Remove", { "data-key": `mute ${mute.id}`, "aria-label": `Remove the mute of ${mute.entity}` }, () => change(`v1/mutes/${encodeURIComponent(mute.id)}`, { method: "DELETE" })))));
      return [heading("Mutes"), element("p", { class: "lead" }, "Muted episodes are recorded and shown, but no alert is sent."),
        rows.length ? table(["Entity", "Variable", "Until", "Note", "By", ""], rows) : element("p", { class: "note" }, "Nothing is muted."),
        element("p", { class: "buttons" }, button("Mute …", { "data-key": "mute" }, () => askMute("", [])))];
    },
  },

  models: {
    load: async () => ({ ...await request("v1/models"), ...await request("v1/proposals") }),
    draw({ models, refits, proposals }) {
      const rows = models.map((model) => element("tr", {},
        element("td", {}, named(model.name)), element("td", {}, model.state), element("td", { class: "time" }, words.moment(model.since, false)), element("td", { class: "time" }, model.until ? words.moment(model.until, false) : ""),
        element("td", { class: "num" }, (model.variables ?? []).length), element("td", {}, element("code", {}, String(model.digest ?? "").slice(0, 12))), element("td", {}, model.note ?? "")));
      const former = new Set(models.filter((model) => model.state === "previous").map((model) => model.name));
      const current = models.filter((model) => model.state === "current").map((model) => model.name);
      const levels = newLevels(proposals);
      return [heading("Models"), ...levels, levels.length ? element("h3", {}, "All models") : null, element("p", { class: "lead" }, "The models that judge, or have judged, the entities; those in use first."),
        rows.length ? table(["Model", "State", "Since", "Until", ["Variables", "num"], "Version", "Note"], rows) : element("p", { class: "note" }, "None."),
        element("p", { class: "buttons" }, current.flatMap((name) => [
          button(`Train ${name} again`, { "data-key": `train ${name}` }, () => change(`${modelPath(name)}/refresh`, { method: "POST" })),
          former.has(name) ? button(`Use the former ${name} again`, { "data-key": `former ${name}` }, () => change(`${modelPath(name)}/rollback`, { method: "POST" })) : null])),
        ...refits.flatMap(refit)];
    },
  },

  health: {
    load: () => request("v1/health"),
    draw(health) {
      const problems = health.problems ?? [];
      const noted = health.status === "ok" && problems.length > 0;
      const status = noted ? "The service works, but not all is well:" : { ok: "The service works.", starting: "The service is starting.", degraded: "The service works in part.", failing: "The service does not work." }[health.status] ?? health.status;
      const times = (problem) => `${problem.count > 1 ? `${words.count(problem.count, "time", "times")}, last ` : ""}${words.moment(1000 * problem.last, true)}`;
      return [heading("Health"), element("p", { class: `lead ${noted ? "noted" : health.status}` }, status),
        problems.length ? element("ul", { class: "problems" }, problems.map((problem) => element("li", {}, problem.problem, element("span", { class: "note" }, times(problem))))) : null,
        facts([["Running since", health.since ? [words.moment(1000 * health.since, true)] : null],
          ["Rows that wait to be scored", typeof health.backlog === "number" ? [health.backlog.toLocaleString("en")] : null],
          ["Scoring", health.scoring ? [health.scoring.running ? "runs" : "does not run", health.scoring.restarts ? `; restarted ${words.count(health.scoring.restarts, "time", "times")}` : ""] : null],
          ["Times", [`shown in ${words.zone()}`]]])];
    },
  },
};

const modelPath = (name) => `v1/models/${encodeURIComponent(name)}`;

/** Two buttons of a decision; the name of the person who decides is sent along. */
const decision = (path, key, yes, no) => element("p", { class: "buttons" }, [["accept", yes], ["refuse", no]].map(([what, text]) =>
  button(text, { "data-key": `${what} ${key}` }, () => askForm(text, [whoField()], text, (values) => {
    remembered.set("tsadc-name", values.by);
    return change(`${path}/${what}`, { method: "POST", body: values });
  }))));

/** The latest refit of a model, compared with the one that was in use. */
function refit({ model, state, started, note, comparison }) {
  const said = { running: "A new model is being trained.", used: "The new model is in use.", replaced: "The new model was in use; another one is now.", candidate: "The new model waits for a decision.", refused: "The new model was refused.", failed: "The training failed." }[state] ?? state;
  const compared = (name, title, show = (value) => value) => (comparison[name]
    ? element("tr", {}, element("th", { scope: "row" }, title), element("td", { class: "num" }, show(comparison[name].present)), element("td", { class: "num" }, show(comparison[name].candidate)))
    : null);
  const rows = [compared("alarms", "Alarms"), compared("flagged", "Flagged observations"), compared("threshold", "Threshold", words.number),
    compared("drifting", "Entities that drift", (names) => (names.length ? names.join(", ") : "none"))].filter(Boolean);
  const share = typeof comparison.agreement === "number" ? `${Math.round(100 * comparison.agreement)} % of ${words.count(comparison.compared.observations, "observation", "observations")}` : null;
  return [element("h3", {}, "Refit of ", named(model)), element("p", { class: "lead" }, `${said} ${note ?? ""}`),
    rows.length ? table([`The last ${words.number(comparison.compared.days)} days`, ["Present model", "num"], ["New model", "num"]], rows) : null,
    facts([["Started", started ? [words.moment(started, false)] : null], ["Same verdict", share ? [share] : null],
      ["Against it", (comparison.objections ?? []).length ? [comparison.objections.join("; ")] : null]]),
    state === "candidate" ? decision(`${modelPath(model)}/candidate`, `refit ${model}`, "Use the new model", "Remove the new model") : null];
}

/** Entities whose level has changed and stays so: is it the new normal? */
function newLevels(proposals) {
  const open = proposals.filter((proposal) => ["open", "adapting"].includes(proposal.state));
  if (!open.length) return [];
  return [element("h3", {}, "New levels"), element("p", { class: "lead" }, "These entities have been unusual for long, at another level. If that is normal now, let the model learn it."),
    ...open.map((proposal) => element("section", {}, element("h4", proposal.entity === place.key ? { class: "target", tabindex: "-1" } : {}, element("a", { href: entityLink(proposal.entity) }, named(proposal.entity))),
      facts([["Since", [words.moment(proposal.since, false)]], ["Unusual", [`${proposal.above} of ${words.count(proposal.observations, "observation", "observations")}`]],
        ...proposal.variables.map((own) => [own.name, [`usually ${words.number(own.usual)}, now ${words.number(own.now)}`]])]),
      proposal.note ? element("p", { class: "note" }, proposal.note) : null,
      proposal.state === "adapting" ? element("p", { class: "note" }, "The model learns the new level; that can take minutes.")
        : decision(`v1/proposals/${proposal.id}`, `proposal ${proposal.id}`, "It is the new normal", "It is not normal")))];
}

/** A head is a text, or a text and the class of its column. */
function table(heads, rows) {
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table" }, element("table", {}, element("thead", {}, element("tr", {}, heads.map((head) => [head].flat()).map(([text, kind]) => element("th", { scope: "col", class: kind }, text)))), element("tbody", {}, rows)));
}

// ---- Where the user is: the part of the address after #

let place = { kind: null, key: "" };
let drawn = ""; // what the right side shows, to leave it alone if nothing has changed
let reached = null; // the place that was drawn; the first drawing of a place moves the focus to its heading, later ones leave it

function route() {
  const [kind = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  let key = rest.join("/");
  try { key = decodeURIComponent(key); } catch { /* shown as it is: no such entity */ }
  if (location.hash && !location.hash.startsWith("#/")) return; // the skip link
  if (kind === place.kind && key === place.key) return;
  const before = place;
  place = { kind: VIEWS[kind] ? kind : "", key };
  drawn = "";
  by("panes").dataset.shown = place.kind ? "detail" : "list";
  const current = ["entity", "episode", ""].includes(place.kind) ? (place.kind === "episode" ? "episodes" : "entities") : place.kind;
  document.querySelectorAll("nav [data-view]").forEach((link) => { if (link.dataset.view === current) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current"); });
  drawList();
  by("detail").scrollTop = 0;
  busy();
  show();
  if (!place.kind && before.kind) backToList(before.kind === "entity" ? before.key : null);
}

function backToList(name) {
  const index = name === null ? -1 : [...list.chunks].flatMap(([chunk, entities]) => entities.map((entity, i) => [entity.name, chunk * CHUNK + i])).find(([own]) => own === name)?.[1] ?? -1;
  focusRow(index >= 0 ? index : list.focus);
}

const busy = () => by("detail").setAttribute("aria-busy", "true");

/** Fetch and draw the right side. Two calls may overlap; whichever is answered first draws the place for the first time. */
async function show() {
  const here = place, detail = by("detail");
  const view = VIEWS[here.kind] ?? VIEWS.episodes; // beside the list, what is going on
  let content;
  try {
    const data = await view.load(here.key);
    if (here !== place) return;
    const text = JSON.stringify(data) + JSON.stringify({ ...here, cursor: null, unfolded: null, rows: null });
    if (text === drawn) return;
    if (here === reached && (selecting(detail) || isHeld())) return;
    content = view.draw(data);
    drawn = text;
  } catch (error) {
    if (here !== place || (here === reached && error instanceof Unreachable && !error.late)) return; // the bar at the top says so
    drawn = "";
    if (here === reached && expected(error) && error.status !== 404) return refuse(error.late ? `The service has not answered within ${TIMEOUT / 1000} s, so this is not up to date. The page asks again.` : error.message);
    const sentence = error instanceof Refused ? error.message : "The service does not answer. This page fills when it is connected again.";
    content = [heading(here.key ? named(here.key) : "Not available"), element("p", { class: "lead" }, sentence)];
    report(error);
  }
  const top = detail.scrollTop, arrived = here !== reached;
  reached = here;
  keepFocus(detail, () => detail.replaceChildren(...content.filter(Boolean)));
  detail.scrollTop = arrived ? 0 : top;
  detail.removeAttribute("aria-busy");
  if (!arrived || !here.kind) return;
  const target = detail.querySelector(".target");
  if (target) target.focus(); else detail.querySelector("h2")?.focus({ preventScroll: true });
}

/** Say above what is drawn why it is not drawn anew, and ask again later; the next drawing removes it. */
let later = 0;
function refuse(sentence) {
  const detail = by("detail");
  const said = detail.querySelector(".refused") ?? element("p", { class: "refused", role: "status" });
  if (said.textContent !== sentence) said.textContent = sentence;
  if (!said.isConnected) detail.prepend(said);
  detail.removeAttribute("aria-busy");
  clearTimeout(later);
  later = setTimeout(soon, LATER);
}

function selecting(container) {
  const selection = getSelection();
  return Boolean(selection && !selection.isCollapsed && container.contains(selection.anchorNode));
}

window.addEventListener("hashchange", route);
document.addEventListener("pointerdown", () => { list.focusing = false; });
document.addEventListener("keydown", (event) => {
  if (event.key === "Tab") list.focusing = false;
  if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
  const field = event.target instanceof Element && event.target.matches("input, select, textarea");
  if (event.key === "/" && !field && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    if (by("panes").dataset.shown !== "list" && getComputedStyle(by("list")).display === "none") location.hash = "#/";
    by("search").focus();
  } else if (event.key === "Escape" && event.target === by("search") && by("search").value) {
    by("search").value = "";
    filter({ search: "" });
  } else if (event.key === "Escape" && place.kind) {
    location.hash = place.kind === "episode" ? (by("detail").querySelector('[data-key="entity"]')?.getAttribute("href") ?? "#/") : "#/";
  }
});

// ---- Live

// While a button is pressed or a selection is open, nothing is drawn anew, or the click would be lost.
let held = 0, postponed = false;
const isHeld = () => Date.now() - held < HOLD && (postponed = true);
const release = () => setTimeout(() => { held = 0; if (postponed) { postponed = false; soon(); } });
document.addEventListener("pointerdown", () => { held = Date.now(); });
const isChoice = (event) => event.target instanceof HTMLSelectElement;
["pointerup", "pointercancel"].forEach((kind) => document.addEventListener(kind, (event) => { if (!isChoice(event)) release(); }));
["change", "focusout"].forEach((kind) => document.addEventListener(kind, (event) => { if (isChoice(event)) release(); }));

let known = null; // ids of open episodes; null before the first answer

async function announce() {
  const { episodes } = await request("v1/episodes?state=open&limit=300");
  going.clear();
  for (const episode of episodes) if (!(going.get(episode.entity)?.severity >= episode.severity)) going.set(episode.entity, episode);
  const fresh = known === null ? [] : episodes.filter((episode) => !known.has(episode.id) && !episode.muted && episode.state === "open");
  known = new Set([...(known ?? []), ...episodes.map((episode) => episode.id)]);
  if (!fresh.length) return;
  const [worst] = [...fresh].sort((a, b) => b.severity - a.severity);
  const rest = fresh.length > 1 ? ` And ${words.count(fresh.length - 1, "other new alarm", "other new alarms")}.` : "";
  by("announced").textContent = `New alarm: ${worst.entity}, ${words.severityWord(worst.severity)}. ${worst.reason || words.title(worst)}${rest}`;
}

let checked = 0;
async function checkService() {
  if (Date.now() - checked < 10000) return;
  checked = Date.now();
  const [{ status, problems = [] }, { mutes }] = await Promise.all([request("v1/health"), request("v1/mutes")]);
  showMuted(mutes);
  const wrong = status !== "ok";
  by("problems").hidden = !wrong && !problems.length;
  by("banner").hidden = !wrong;
  by("banner").textContent = !wrong ? "" : status === "starting" ? "The service is starting; rows are stored and scored soon." : problems[0]?.problem ?? "The service does not work as it should: see Health.";
}

/** Show that all alerts are muted, and until when. */
function showMuted(mutes) {
  const ends = mutes.filter(({ entity, variable, until }) => /^\*+$/.test(entity) && ["", "*"].includes(variable) && (until === null || until > Date.now())).map(({ until }) => until);
  by("muted").hidden = !ends.length;
  if (!ends.length) return;
  const end = ends.includes(null) ? "until the mute is removed" : `until ${words.moment(Math.max(...ends))}`;
  const text = `All entities are muted ${end}: no alert is sent. `;
  if (!by("muted").textContent.startsWith(text)) by("muted").replaceChildren(text, element("a", { href: "#/mutes" }, "See Mutes"));
}

let running = null, again = false;
async function refresh() {
  if (running) { again = true; return running; }
  running = (async () => {
    do {
      again = false;
      const parts = document.hidden ? [announce()] : [announce(), loadList(), show(), checkService()];
      const done = await Promise.allSettled(parts);
      done.filter(({ status }) => status === "rejected").forEach(({ reason }) => report(reason));
    } while (again);
  })().finally(() => { running = null; });
  return running;
}

let waiting = 0, latest = 0;
function soon() {
  if (waiting) return;
  waiting = setTimeout(() => { waiting = 0; latest = Date.now(); refresh(); }, Math.max(0, latest + PAUSE - Date.now()));
}

let since = Date.now();
const retry = follow("v1/changes", soon, (connected, seconds) => {
  const box = by("connection");
  if (connected) { since = Date.now(); soon(); } else if (box.dataset.state === "live") since = Date.now();
  box.dataset.state = connected ? "live" : "lost";
  const state = connected ? "Live" : `Not connected since ${words.clock(since)}`;
  const status = box.querySelector("[role=status]");
  if (status.textContent !== state) status.textContent = state; // read aloud once, unlike the attempts
  by("retry").textContent = connected ? "" : `, next attempt in ${seconds} s`;
  root.dataset.connected = String(connected);
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) { retry(); soon(); } });
setInterval(() => { if (root.dataset.connected === "true") checkService().catch(report); }, 15000);

route();
refresh();
