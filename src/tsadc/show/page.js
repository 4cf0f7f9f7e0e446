"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  window.addEventListener("error", (event) => { root.dataset.error = event.message; });

  const theme = document.getElementById("theme");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const wear = (name) => {
    if (name) root.dataset.theme = name;
    theme.textContent = dark() ? "Light" : "Dark";
  };
  // A page opened from a file may have no storage.
  const remembered = (name) => {
    try {
      if (name) localStorage.setItem("tsadc-theme", name);
      return localStorage.getItem("tsadc-theme");
    } catch { return null; }
  };
  const known = remembered();
  wear(known === "dark" || known === "light" ? known : null);
  theme.hidden = false;
  theme.addEventListener("click", () => { wear(dark() ? "light" : "dark"); remembered(root.dataset.theme); });

  for (const table of all("table.sortable")) {
    const heads = all("thead th", table);
    const body = table.tBodies[0];
    const key = (row, column) => {
      const cell = row.cells[column];
      return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
    };
    // Cells without a number come last in both directions.
    const order = (a, b, way) => typeof a === "number" && typeof b === "number"
      ? Number.isNaN(a) - Number.isNaN(b) || way * (a - b) || 0
      : way * String(a).localeCompare(String(b), "en", { numeric: true });
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const sorted = head.getAttribute("aria-sort");
        const up = sorted ? sorted === "descending" : !head.classList.contains("num");
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...body.rows].sort((a, b) => order(key(a, column), key(b, column), up ? 1 : -1));
        body.append(...rows);
      });
    });
  }

  for (const choice of all(".choice")) {
    const select = choice.querySelector("select");
    const show = () => all(".map").forEach((map) => { map.hidden = map.id !== select.value; });
    select.addEventListener("change", show);
    choice.hidden = false;
    show();
  }

  const reveal = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    const fold = target && target.closest("details");
    if (fold && !fold.open) { fold.open = true; target.scrollIntoView(); }
  };
  window.addEventListener("hashchange", reveal);
  window.addEventListener("beforeprint", () => all("details").forEach((fold) => { fold.open = true; }));

  // The style shows which tables continue to the right or below.
  const measure = () => all(".scroll").forEach((box) => {
    box.toggleAttribute("data-cut", box.scrollWidth > box.clientWidth + 1);
    box.toggleAttribute("data-long", box.scrollHeight > box.clientHeight + 1);
  });
  window.addEventListener("resize", measure);
  document.addEventListener("change", measure);

  const two = (value) => String(value).padStart(2, "0");
  const days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
  const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const moment = (clock, row) => {
    const piece = clock.pieces.filter(([first]) => first <= row).pop();
    const at = piece[1] + (row - piece[0]) * clock.step;
    if (!clock.dated) return `row ${at.toLocaleString("en")}`;
    const date = new Date(at);
    let hour = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
    if (clock.step % 60000) hour += `:${two(date.getUTCSeconds())}`;
    if (clock.step % 1000) hour += `.${String(date.getUTCMilliseconds()).padStart(3, "0")}`;
    return `${days[date.getUTCDay()]} ${date.getUTCDate()} ${months[date.getUTCMonth()]} ${date.getUTCFullYear()}, ${hour}`;
  };

  const lines = new WeakMap();
  const points = (path) => {
    if (!lines.has(path)) lines.set(path, [...path.getAttribute("d").matchAll(/(\d+),(\d+)/g)].map((m) => [+m[1], +m[2]]));
    return lines.get(path);
  };
  const valueAt = (chart, kind, share) => {
    const path = chart.querySelector(`path.${kind}`);
    if (!path) return null;
    const near = points(path).reduce((best, p) => (Math.abs(p[0] - 1000 * share) < Math.abs(best[0] - 1000 * share) ? p : best), [Infinity, 0]);
    if (Math.abs(near[0] - 1000 * share) > 8) return null;
    const low = Number(chart.dataset.low), range = Number(chart.dataset.high) - low;
    const decimals = Math.min(Math.max(0, Math.floor(-Math.log10(range / 1000))), 12);
    return (low + (1 - near[1] / 2000) * range).toFixed(decimals);
  };
  const say = {
    score(chart, share) {
      const values = chart.dataset.values.split(" ");
      const clock = JSON.parse(chart.dataset.clock);
      const wide = Number(chart.dataset.wide);
      const value = values[Math.min(Math.floor(share * clock.rows / wide), values.length - 1)];
      return value === "-" ? "not scored" : `score ${wide > 1 ? "up to " : ""}${value}`;
    },
    values(chart, share) {
      return ["measured", "expected"].map((kind) => [kind, valueAt(chart, kind, share)])
        .filter(([, value]) => value !== null).map((pair) => pair.join(" ")).join("\n") || "no value";
    },
    cells(chart, share, depth) {
      const labels = all(".labels span", chart.closest(".map"));
      return labels[Math.min(Math.floor(depth * labels.length), labels.length - 1)].textContent;
    },
  };
  all(".track [title]").forEach((mark) => { mark.dataset.tip = mark.title; mark.removeAttribute("title"); });
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  const cursor = document.createElement("i");
  cursor.id = "cursor";
  document.body.append(tip);
  const inside = (value) => Math.min(Math.max(value, 0), 0.999999);
  const point = (event) => {
    const from = event.target instanceof Element ? event.target : root;
    const chart = from.closest("[data-hover]"), marked = from.closest("[data-tip]");
    tip.hidden = !chart && !marked;
    if (tip.hidden) { cursor.remove(); return; }
    const text = [];
    if (chart) {
      const box = chart.getBoundingClientRect();
      const share = inside((event.clientX - box.left) / box.width), depth = inside((event.clientY - box.top) / box.height);
      const clock = JSON.parse(chart.dataset.clock);
      text.push(moment(clock, Math.floor(share * clock.rows)), say[chart.dataset.hover](chart, share, depth));
      if (chart.dataset.hover !== "cells") { cursor.style.left = `${100 * share}%`; chart.append(cursor); }
    }
    if (marked) text.push(marked.dataset.tip);
    tip.textContent = text.join("\n");
    const right = event.clientX > innerWidth / 2;
    tip.style.transform = `translate(${event.clientX + (right ? -12 : 12)}px, ${event.clientY + 14}px) translateX(${right ? "-100%" : "0"})`;
  };
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  reveal();
  measure();
  if (!root.dataset.error) root.dataset.ready = "true";
})();
