// Charts of one entity over one period: the score with its threshold, and variables with their usual bands. Drawings
// stretch to the available width, so they contain no text; labels are HTML beside them. All share one cursor.

import { clock, measured, moment, number, timeTicks, valueTicks } from "./words.js";

const WIDTH = 1000, HEIGHT = 2000, LARGEST = 1e300;
const SVG = "http://www.w3.org/2000/svg";

/** Build an element. Text is set as text, never as markup; `on...` are listeners. */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

/** A name from outside: its writing direction cannot reorder the surrounding text. */
export const named = (text) => element("bdi", {}, text);

const shape = (tag, attributes) => {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};
const path = (d, kind) => shape("path", { d, class: kind });
const drawing = (...shapes) => {
  const node = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  node.append(...shapes);
  return node;
};
const limited = (value) => (value === null || !Number.isFinite(value) ? null : Math.min(Math.max(value, -LARGEST), LARGEST));
const middle = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];
const across = (share) => Math.round(10 * WIDTH * share) / 10;
const down = (height) => Math.round(HEIGHT * (1 - Math.min(Math.max(height, 0), 1)));

/** Index of the last time at or before `time`; -1 if there is none. */
function before(times, time) {
  let low = 0, high = times.length;
  while (low < high) {
    const half = (low + high) >> 1;
    if (times[half] <= time) low = half + 1; else high = half;
  }
  return low - 1;
}

/** Times at which the line must break: a step much longer than usual. */
function longestStep(times) {
  const steps = times.slice(1).map((time, i) => time - times[i]);
  return steps.length ? 2.5 * middle(steps) : Infinity;
}

function pieces(times, present) {
  const longest = longestStep(times), found = [];
  let piece = [];
  times.forEach((time, i) => {
    if (piece.length && time - times[piece[piece.length - 1]] > longest) { found.push(piece); piece = []; }
    if (present(i)) piece.push(i);
    else if (piece.length) { found.push(piece); piece = []; }
  });
  if (piece.length) found.push(piece);
  return found;
}

class Axis {
  constructor(from, to) {
    this.from = from;
    this.to = Math.max(to, from + 1);
  }
  share(time) { return (time - this.from) / (this.to - this.from); }
  x(time) { return across(Math.min(Math.max(this.share(time), 0), 1)); }
  time(share) { return this.from + share * (this.to - this.from); }
}

function shades(axis, spans, kind) {
  return spans.filter(({ start, end }) => end > axis.from && start < axis.to).map(({ start, end }) => {
    const left = Math.max(axis.share(start), 0), right = Math.min(axis.share(end), 1);
    const node = element("i", { class: kind });
    node.style.left = `${100 * left}%`;
    node.style.width = `${100 * (right - left)}%`;
    return node;
  });
}

function figure(title, value, labels, plot) {
  const values = element("div", { class: "values", "aria-hidden": "true" }, labels.map(([text, height]) => {
    const label = element("span", {}, text);
    label.style.bottom = `${100 * height}%`;
    return label;
  }));
  return element("figure", {}, element("figcaption", {}, title, value), values, plot);
}

/** The score, drawn relative to the threshold: the threshold lies at 1/2, twice its distance from the median at 3/4. */
function scorePlot(axis, scores, episodes) {
  const shown = scores.end.map((_, i) => i).filter((i) => limited(scores.score[i]) !== null && scores.end[i] > axis.from && scores.start[i] < axis.to);
  const known = shown.map((i) => scores.score[i]);
  const lowest = Math.min(...known), median = known.length ? middle(known) : 0;
  const height = (i) => {
    const score = scores.score[i], threshold = scores.threshold[i];
    if (score <= threshold) return 0.5 * Math.max(0.04, (score - lowest) / Math.max(threshold - lowest, 1e-12));
    const excess = (score - threshold) / Math.max(threshold - median, 1e-12);
    return 0.5 + (0.5 * excess) / (1 + excess);
  };
  // What is final covers its whole observation; a provisional verdict only the rows that no final one covers.
  const settled = Math.max(-Infinity, ...shown.filter((i) => scores.final[i]).map((i) => scores.end[i]));
  const boxes = { scored: "", below: "", above: "", early: "", "early above": "" };
  let covered = settled;
  for (const i of shown) {
    const final = scores.final[i];
    if (!final && scores.end[i] <= settled) continue;
    const start = final ? scores.start[i] : Math.max(scores.start[i], covered);
    if (!final) covered = scores.end[i];
    const left = axis.x(start), right = axis.x(scores.end[i]), top = height(i);
    const box = (low, high) => `M${left},${down(low)}H${right}V${down(high)}H${left}Z`;
    boxes.scored += box(0, 1);
    boxes[final ? "below" : "early"] += box(0, Math.min(top, 0.5));
    if (top > 0.5) boxes[final ? "above" : "early above"] += box(0.5, top);
  }
  const plot = element("div", { class: "plot score-plot" },
    shades(axis, episodes, "shade"),
    drawing(...Object.entries(boxes).map(([kind, d]) => path(d, kind)), path(`M0,${down(0.5)}H${WIDTH}`, "threshold")));
  const value = element("span", { class: "readout" });
  const latest = shown.length ? shown[shown.length - 1] : null;
  const say = (time) => {
    const inside = time === null ? (latest === null ? [] : [latest])
      : shown.filter((i) => scores.start[i] <= time && time < scores.end[i] && (scores.final[i] || scores.end[i] > settled));
    if (!inside.length) return "not scored";
    const i = inside.reduce((best, other) => (scores.score[other] > scores.score[best] ? other : best));
    return `${number(scores.score[i])}, threshold ${number(scores.threshold[i])}${scores.final[i] ? "" : ", provisional"}`;
  };
  return { name: "Score", figure: figure(element("span", {}, "Score"), value, [["threshold", 0.5]], plot), plot, value, say };
}

function valuePlot(axis, times, name, data, share, episodes) {
  const low = data.min.map(limited), high = data.max.map(limited);
  const lower = (data.lower ?? []).map(limited), upper = (data.upper ?? []).map(limited);
  const all = [...low, ...high, ...lower, ...upper].filter((value) => value !== null && value !== undefined);
  let bottom = Math.min(...all), top = Math.max(...all);
  if (!all.length) [bottom, top] = [0, 1];
  const margin = top - bottom > 1e-9 * Math.max(Math.abs(bottom), Math.abs(top)) ? 0.06 * (top - bottom) : Math.max(0.05 * Math.abs(top), 0.5);
  bottom -= margin;
  top += margin;
  const range = top - bottom, y = (value) => down((value - bottom) / range);
  const ticks = valueTicks(bottom, top);
  const point = (i, value) => `${axis.x(times[i])},${y(value)}`;
  const line = pieces(times, (i) => low[i] !== null && high[i] !== null).map((piece) => {
    const points = piece.flatMap((i) => (low[i] === high[i] ? [point(i, low[i])] : [point(i, low[i]), point(i, high[i])]));
    return `M${(points.length > 1 ? points : [points[0], points[0]]).join("L")}`;
  }).join("");
  const band = pieces(times, (i) => typeof lower[i] === "number" && typeof upper[i] === "number").map((piece) =>
    `M${[...piece.map((i) => point(i, upper[i])), ...piece.reverse().map((i) => point(i, lower[i]))].join("L")}Z`).join("");
  const plot = element("div", { class: "plot" }, shades(axis, episodes, "shade"),
    drawing(path(band, "usual"), ...ticks.map((tick) => path(`M0,${y(tick.value)}H${WIDTH}`, "grid")), path(line, "measured")));
  const value = element("span", { class: "readout" });
  const longest = longestStep(times);
  const say = (time) => {
    const i = time === null ? times.length - 1 : before(times, time);
    if (i < 0 || low[i] === null || (time !== null && time - times[i] > longest)) return "no value";
    const text = low[i] === high[i] ? measured(low[i], range) : `${measured(low[i], range)} to ${measured(high[i], range)}`;
    const usual = typeof lower[i] === "number" && typeof upper[i] === "number" ? `, usual ${measured(lower[i], range)} to ${measured(upper[i], range)}` : "";
    return text + usual;
  };
  const title = element("span", {}, named(name), share ? element("em", {}, ` ${share}`) : null);
  return { name, figure: figure(title, value, ticks.map((tick) => [tick.label, (tick.value - bottom) / range]), plot), plot, value, say };
}

/**
 * Draw the charts of an entity.
 * `times` are those of the values; `variables` are [name, data, share in words]; `cursor` is the time that was pointed at, or null; `moved(time)`
 * reports it when it changes.
 */
export function charts({ label, from, to, scores, times, variables, episodes, cursor, moved }) {
  const axis = new Axis(from, to);
  const plots = [...(scores ? [scorePlot(axis, scores, episodes)] : []), ...variables.map(([name, data, share]) => valuePlot(axis, times, name, data, share, episodes))];
  const ticks = element("div", { class: "axis", "aria-hidden": "true" }, timeTicks(from, to).map(({ time, label: text }, i) => {
    const place = axis.share(time), edge = place > 0.94 ? " end" : place < 0.04 ? " start" : "";
    const tick = element("span", { class: `tick${edge}${i % 2 ? " odd" : ""}` }, text);
    tick.style.left = `${100 * place}%`;
    return tick;
  }));
  const now = element("span", { class: "cursor-time", "aria-hidden": "true", hidden: true });
  const spoken = element("span", { class: "unseen", "aria-live": "polite" });
  const help = "Left and right arrow keys read the values along the time, Home and End go to its ends, Escape leaves.";
  const root = element("div", { class: "plots charts", tabindex: "0", role: "group", "data-key": "charts", "aria-label": `${label}. ${help}` },
    plots.map((plot) => plot.figure), element("div", { class: "under" }, ticks, now), spoken);
  const lines = plots.map((plot) => {
    const line = element("i", { class: "cursor", hidden: true });
    plot.plot.append(line);
    return line;
  });

  let at = null;
  const show = (time) => {
    at = time;
    const share = time === null ? 0 : axis.share(time);
    lines.forEach((line) => { line.hidden = time === null; line.style.left = `${100 * share}%`; });
    plots.forEach((plot) => { plot.value.textContent = plot.say(time); plot.value.classList.toggle("latest", time === null); });
    now.hidden = time === null;
    if (time === null) return;
    now.textContent = moment(time, to - from < 48 * 3600000);
    now.style.left = `${100 * share}%`;
    now.style.transform = `translateX(${-100 * share}%)`; // so that it ends where the chart ends
  };
  const move = (time) => { show(time === null ? null : Math.min(Math.max(time, from), to)); moved?.(at); };
  show(cursor !== null && cursor >= from && cursor <= to ? cursor : null);

  root.addEventListener("pointermove", (event) => {
    const box = plots[0]?.plot.getBoundingClientRect();
    const share = box ? (event.clientX - box.left) / box.width : -1;
    move(share >= 0 && share <= 1 ? axis.time(share) : null);
  });
  root.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") move(null); });
  root.addEventListener("keydown", (event) => {
    const step = (to - from) / 100, start = at ?? to;
    const target = { ArrowLeft: start - step, ArrowRight: start + step, PageUp: start - 10 * step, PageDown: start + 10 * step, Home: from, End: to }[event.key];
    if (target === undefined && !(event.key === "Escape" && at !== null)) return;
    event.preventDefault();
    event.stopPropagation();
    move(target ?? null);
    spoken.textContent = at === null ? "" : [clock(at), ...plots.map((plot) => `${plot.name} ${plot.say(at)}`)].join("; ");
  });
  return root;
}
