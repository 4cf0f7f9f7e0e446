// Numbers, times and states in words, as in the report. Times are those of the browser's time zone.

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const THIN = "\u202f", DASH = "\u2013", MINUS = "\u2212";
const two = (value) => String(value).padStart(2, "0");
const finite = (value) => typeof value === "number" && Number.isFinite(value);

export const STATES = { open: "Alarm", acknowledged: "Acknowledged", muted: "Muted", level: "At a new level", ok: "Normal", unscored: "Not scored yet", unusual: "Unusual now", resolved: "Resolved", expired: "Expired" };
export const VERDICTS = { true: "Real", false: "False alarm", planned: "Planned" };

const KINDS = {
  missing: "Not measured", stuck: "Stuck", spike: "Far outside its usual range", level: "Unusual level", frequency: "Varies faster or slower than usual",
  spread: "Varies more or less than usual", correlation: "Unusual relationship",
};
export const title = (episode) => KINDS[episode.kind] ?? "Unlike the history";

export const count = (amount, singular, plural) => `${amount.toLocaleString("en")} ${amount === 1 ? singular : plural}`;

/** Three significant digits. */
export function number(value) {
  if (!finite(value)) return DASH;
  const size = Math.abs(value);
  let text;
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) text = value.toExponential(2).replace(/e([+-])(\d)$/, "e$10$2");
  else if (size >= 99.95) text = Math.round(value).toLocaleString("en");
  else text = size ? value.toPrecision(3) : "0";
  return text.replace(/-/g, MINUS);
}

/** Numbers of one variable, with decimals that fit the range of its axis. */
export function measured(value, range) {
  if (!finite(value)) return DASH;
  if (Math.abs(value) >= 1e6 || !(range > 0)) return number(value);
  const decimals = Math.min(Math.max(0, Math.ceil(-Math.log10(range / 300))), 9);
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }).replace("-", MINUS);
}

export function percent(share) {
  const value = 100 * share;
  return `${value > 0 && value < 9.95 ? value.toFixed(1) : Math.round(value)}${THIN}%`;
}

export const severityWord = (value) => (value < 90 ? "slight" : value < 99 ? "moderate" : "severe");
export const severity = (value) => (value > 99 ? "> 99" : value < 1 ? "< 1" : String(Math.floor(value)));

/** How often a normal entity scores as high. */
export function returnPeriod(seconds) {
  if (!finite(seconds)) return "";
  const units = [["year", 31557600], ["month", 2629800], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60]];
  const [unit, size] = units.find(([, size]) => seconds / size >= 2) ?? units[5];
  return `once in ${count(Math.max(1, Math.round(seconds / size)), unit, `${unit}s`)}`;
}

/** The two largest units. */
export function duration(milliseconds) {
  let left = Math.max(0, milliseconds);
  const parts = [];
  for (const [unit, size] of [["d", DAY], ["h", HOUR], ["min", MINUTE], ["s", SECOND], ["ms", 1]]) {
    const amount = Math.floor(left / size);
    left -= amount * size;
    if (amount) parts.push(`${amount.toLocaleString("en")}${THIN}${unit}`);
    else if (parts.length) break;
  }
  return parts.slice(0, 2).join(" ") || `0${THIN}s`;
}

export function clock(time, seconds = true) {
  const date = new Date(time);
  return `${two(date.getHours())}:${two(date.getMinutes())}${seconds ? `:${two(date.getSeconds())}` : ""}`;
}

const whole = (...times) => times.every((time) => time % MINUTE === 0);
const sameDay = (a, b) => new Date(a).toDateString() === new Date(b).toDateString();

export function moment(time, seconds = !whole(time)) {
  if (!finite(time)) return DASH;
  const date = new Date(time);
  return `${DAYS[date.getDay()]} ${date.getDate()} ${MONTHS[date.getMonth()]} ${date.getFullYear()}, ${clock(time, seconds)}`;
}

/** The hour if it is today, otherwise the date and the hour. */
export function brief(time) {
  if (!finite(time)) return DASH;
  if (sameDay(time, Date.now())) return clock(time, !whole(time));
  const date = new Date(time), year = date.getFullYear() === new Date().getFullYear() ? "" : ` ${date.getFullYear()}`;
  return `${date.getDate()} ${MONTHS[date.getMonth()]}${year}, ${clock(time, false)}`;
}

export function span(start, end) {
  const seconds = !whole(start, end);
  return `${moment(start, seconds)} ${DASH} ${sameDay(start, end) ? clock(end, seconds) : moment(end, seconds)}`;
}

/** When an episode is: one that is open goes on, and its end is only that of the latest rows that were judged. */
export const goesOn = (episode) => episode.state === "open" || episode.state === "acknowledged";
export const when = (episode) => (goesOn(episode) ? `since ${moment(episode.start)}, ongoing` : span(episode.start, episode.end));

export function zone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "the browser's time zone";
}

const STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((k) => k * SECOND), ...[1, 2, 5, 10, 15, 30].map((k) => k * MINUTE),
  ...[1, 2, 3, 6, 12].map((k) => k * HOUR), ...[1, 2, 7, 14, 28, 56, 112, 224, 448].map((k) => k * DAY),
];

const offset = (time) => -new Date(time).getTimezoneOffset() * MINUTE;

/** Times at which clocks show `wall`, the local time as if it were UTC: none or two when clocks are changed. */
const timesOf = (wall) => [...new Set([offset(wall - DAY), offset(wall + DAY)])].map((shift) => wall - shift).filter((time) => time + offset(time) === wall);

/** About `most` round times within [from, to], with labels. */
export function timeTicks(from, to, most = 6) {
  const step = STEPS.find((size) => (to - from) / size <= most) ?? STEPS[STEPS.length - 1];
  const shifts = [offset(from), offset(to)], last = to + Math.max(...shifts);
  const ticks = [];
  for (let wall = Math.ceil((from + Math.min(...shifts)) / step) * step; wall <= last; wall += step) {
    for (const time of timesOf(wall)) {
      const date = new Date(time);
      const label = wall % DAY === 0 ? `${date.getDate()} ${MONTHS[date.getMonth()]}` : clock(time, step < MINUTE);
      if (time >= from && time <= to) ticks.push({ time, label });
    }
  }
  return ticks.sort((a, b) => a.time - b.time);
}

/** At most `most` multiples of 1, 2 or 5 times a power of ten within [low, high], with labels. */
export function valueTicks(low, high, most = 3) {
  if (!(high > low)) return [];
  const unit = 10 ** Math.floor(Math.log10((high - low) / most));
  for (const factor of [1, 2, 5, 10, 20, 50]) {
    const step = factor * unit;
    const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
    if (last - first + 1 > most) continue;
    const decimals = Math.min(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), 12);
    const large = Math.max(Math.abs(low), Math.abs(high)) >= 1e6 || decimals > 4;
    return Array.from({ length: last - first + 1 }, (_, i) => {
      const value = (first + i) * step;
      const text = large ? Number(value.toPrecision(3)).toString() : value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
      return { value, label: text.replace("-", MINUS) };
    });
  }
  return [];
}
