// The service: requests with a token if it wants one, and its stream of changes, which is opened again when it breaks.

const KEY = "tsadc-token";
const SILENCE = 30000; // ms; the service sends at least a comment every 15 s
const LONGEST = 15000; // ms between attempts to connect
export const TIMEOUT = 20000;

// Fields with a time: text in ISO 8601, milliseconds since 1970 from here on.
const TIMES = new Set(["start", "end", "from", "to", "since", "until", "created", "started", "finished", "last_time", "last_seen", "alarm_time", "opened", "resolved", "acknowledged", "verdict_time", "level_since"]);
const revive = (key, value) => (typeof value === "string" && TIMES.has(key) ? Date.parse(value) : value);

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The service did not answer; `late` if it was reached, as far as is known, but took too long. */
export class Unreachable extends Error {
  constructor(error) {
    super(String(error));
    this.late = error.name === "TimeoutError";
  }
}

const token = {
  get: () => { try { return sessionStorage.getItem(KEY) ?? ""; } catch { return ""; } },
  set: (value) => { try { sessionStorage.setItem(KEY, value); } catch { /* without storage it is asked for again */ } },
};

let asking = null; // the question for a token, which all requests wait for
let ask = async () => "";

/** Set the function that asks the user for a token; it is given why the present one, if any, does not do, and resolves to the token. */
export function askWith(question) { ask = question; }

function headers(more = {}) {
  const own = token.get();
  return own ? { ...more, Authorization: `Bearer ${own}` } : more;
}

async function newToken(used, why) {
  if (token.get() !== used) return; // another request has asked meanwhile
  asking ??= ask(why).then((value) => token.set(value)).finally(() => { asking = null; });
  await asking;
}

/** Return the answer of the service. Without a token that may read, the user is asked for one. */
async function answer(path, options, signal) {
  for (;;) {
    const used = token.get();
    const response = await fetch(path, { ...options, headers: headers(options.headers), signal: signal(), cache: "no-store", redirect: "error" })
      .catch((error) => { throw new Unreachable(error); });
    const reads = (options.method ?? "GET") === "GET";
    if (response.status === 403 && reads && used) await newToken(used, reason(response, await response.json().catch(() => null)));
    else if (response.status === 401) await newToken(used, used ? "The service did not accept the token." : "");
    else return response;
  }
}

/** Why the service refuses a request; `content` is null if the answer is not from the service. */
const reason = (response, content) => (typeof content?.error === "string" ? content.error : `The service answered ${response.status}.`);

/** Return the JSON that the service answers; throw `Refused` with its sentence if it refuses. */
export async function request(path, { method = "GET", body, signal } = {}) {
  const options = { method };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  const response = await answer(path, options, () => AbortSignal.any([AbortSignal.timeout(TIMEOUT), ...(signal ? [signal] : [])]));
  const text = await response.text().catch((error) => { throw new Unreachable(error); });
  let content = null;
  try { content = text ? JSON.parse(text, revive) : null; } catch { /* not from the service */ }
  if (response.ok) return content;
  throw new Refused(response.status, reason(response, content));
}

/** Follow the changes. `onState(connected, seconds)` reports the connection and when it is tried again. */
export function follow(path, onChange, onState) {
  let last = "", attempt = 0, controller = null, timer = 0, watch = 0;

  const alive = () => {
    clearTimeout(watch);
    watch = setTimeout(() => controller?.abort(), SILENCE);
  };

  const handle = (block) => {
    let data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("data:")) data += line.slice(5).trimStart();
      else if (line.startsWith("id:")) last = line.slice(3).trim();
    }
    if (data) {
      try { onChange(JSON.parse(data)); } catch (error) { if (!(error instanceof SyntaxError)) throw error; }
    }
  };

  const connect = async () => {
    clearTimeout(timer);
    controller = new AbortController();
    alive();
    try {
      const response = await answer(path, { headers: { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) } }, () => controller.signal);
      if (!response.ok || !response.body) throw new Refused(response.status, "");
      attempt = 0;
      onState(true, 0);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        alive();
        const blocks = (rest + value.replace(/\r\n?/g, "\n")).split("\n\n");
        rest = blocks.pop();
        blocks.forEach(handle);
      }
    } catch { /* whatever broke the stream, it is opened again */ }
    controller.abort();
    clearTimeout(watch);
    const wait = Math.min(LONGEST, 1000 * 2 ** attempt) * (0.75 + Math.random() / 2);
    attempt += 1;
    onState(false, Math.ceil(wait / 1000));
    timer = setTimeout(connect, wait);
  };

  const now = () => { if (timer && controller?.signal.aborted) { attempt = 0; clearTimeout(timer); connect(); } };
  window.addEventListener("online", now);
  connect();
  return now;
}
