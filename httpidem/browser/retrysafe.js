// retrysafe in the browser: one idempotency key per action, kept until it has its answer
// (docs/browser.md). Licence: Apache-2.0.

const DONE = ["already-done", "answer-not-kept", "resolved-failed"]; // there is no other answer
const FINAL = ["outcome-unknown", "principal-changed", "time-refused", "body-incomplete"]; // they say nothing about earlier tries
const BUSY = ["in-progress", "attempt-failed", "lease-lost"];
const PASSING = [408, 425, 429, 502, 503, 504];
const NOT_RUN = [401, 403, 407, 421, 426, 428, 431]; // an earlier try may have acted
const [ENDED, AGAIN, OPEN] = [0, 1, 2]; // the key has its answer; retry; leave it to the next press

const memory = new Map(); // for pages that cannot store
const live = new Map(); // running in this page, or just ended

function store(use) {
  try {
    return use(sessionStorage);
  } catch {}
}
const keep = (name, key) => store((s) => (s.setItem(name, key), true)) ?? memory.set(name, key);
const kept = (name) => store((s) => s.getItem(name)) ?? memory.get(name);
const drop = (name) => store((s) => s.removeItem(name)) ?? memory.delete(name);
const slot = (...parts) => `retrysafe:${parts.map((part) => encodeURIComponent(part) + ":").join("")}`;
const slots = (start) => [...(store(Object.keys) ?? []), ...memory.keys(), ...live.keys()].filter((name) => name.startsWith(start));

const hex = (buffer) => [...new Uint8Array(buffer)].map((b) => b.toString(16).padStart(2, "0")).join("");

/** A new random key: 128 bits, 32 characters. */
export const newKey = () => hex(crypto.getRandomValues(new Uint8Array(16)).buffer);

/** Whether an action was sent in this tab and has no answer yet. */
export const pending = (action, scope = "") => slots(slot(action, scope)).some((name) => kept(name));

/** Forgets the keys of an action: the next press is a new action, and may do it a second time. */
export const forget = (action, scope = "") => clear(slot(action, scope));

/** Forgets the keys of all actions, for a logout. */
export function forgetAll() {
  age++;
  clear(slot());
}

let age = 0;

function clear(start) {
  for (const name of slots(start)) {
    drop(name);
    live.delete(name);
  }
}

// Plain http has no crypto.subtle; a weak sum is enough, since the server compares too.
async function digest(parts) {
  const bytes = await new Blob(parts.flatMap((part) => [part, "\0"])).arrayBuffer();
  if (crypto.subtle) return hex(await crypto.subtle.digest("SHA-256", bytes));
  let [a, b] = [0, 1];
  for (const byte of new Uint8Array(bytes)) {
    a = Math.imul(a ^ byte, 2654435761);
    b = Math.imul(b ^ byte ^ (a >>> 15), 1597334677);
  }
  return `${a}.${b}.${bytes.byteLength}`;
}

// The boundary of a form is new each time, so compare its fields, not its bytes.
const content = (body, bytes) =>
  body instanceof FormData ? [...body].flatMap(([name, v]) => (v instanceof File ? [name, v.name, v.type, `${v.size}`, v] : [name, v])) : [bytes ?? ""];

function field(key) {
  if (!/^[ -~]{1,255}$/.test(key)) throw new TypeError("retrysafe: a key has 1 to 255 characters of printable ASCII; nothing was sent");
  return /[^\w.:-]/.test(key) ? `"${key.replace(/["\\]/g, "\\$&")}"` : key;
}

/** Sends an action, and retries with the same key until it is answered; see retrysafe.d.ts. */
export async function fetchOnce(action, url, init = {}, opts = {}) {
  const { signal, ...rest } = init;
  const req = new Request(url, { method: "POST", ...rest });
  const bytes = rest.body == null ? undefined : await req.arrayBuffer();
  const born = age;
  const name = slot(action, opts.scope ?? "") + (await digest([req.method, req.url, opts.key ?? "", ...content(rest.body, bytes)]));
  let shared = live.get(name);
  if (!shared) {
    let key = opts.key ?? kept(name);
    const first = key == null;
    key ??= newKey();
    req.headers.set(opts.header ?? "Idempotency-Key", field(key));
    if (opts.key == null && born === age) keep(name, key);
    shared = tries(req, bytes, signal, first, opts);
    live.set(name, shared);
    const gone = () => live.get(name) === shared && live.delete(name);
    shared.then(({ verdict }) => {
      if (verdict !== ENDED) return gone();
      if (kept(name) === key) drop(name);
      setTimeout(gone, opts.hold ?? 1000); // a second click may come after a fast answer
    }).catch(gone);
  }
  return (await shared).res.clone();
}

async function tries(req, bytes, signal, first, { max = 4, total = 60000, minWait = 300, maxWait = 10000, onRetry }) {
  const stop = new AbortController();
  const abort = () => stop.abort();
  const end = performance.now() + total;
  const timer = setTimeout(abort, total);
  signal?.addEventListener("abort", abort);
  if (signal?.aborted) abort();
  try {
    for (let n = 1; ; n++) {
      let res, error;
      let verdict = AGAIN;
      try {
        res = await fetch(new Request(req, { body: bytes, signal: stop.signal }));
        await res.clone().arrayBuffer(); // half an answer is no answer
        verdict = await judge(res, first);
      } catch (e) {
        [res, error] = [undefined, e];
      }
      signal?.throwIfAborted();
      first = false;
      const offline = !res && !navigator.onLine;
      const wait = retryAfter(res) + Math.random() * Math.min(maxWait, minWait * 2 ** (n - 1));
      if (verdict === AGAIN && !stop.signal.aborted && (offline || (n < max && performance.now() + wait < end))) {
        onRetry?.({ n, wait, offline, res, error });
        if (offline) {
          n--; // it was not sent
          await until(stop.signal, (go) => addEventListener("online", go, { once: true, signal: stop.signal }));
        }
        await until(stop.signal, (go) => setTimeout(go, wait));
        continue;
      }
      if (res) return { res, verdict };
      throw new Error("retrysafe: no answer came, and it may have been done; sent again, it has the same key", { cause: error });
    }
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

// until waits for an event, or for the end of the tries.
const until = (signal, start) =>
  new Promise((go) => {
    if (signal.aborted) go();
    signal.addEventListener("abort", go, { once: true });
    start(go);
  });

// judge returns what an answer means for the key.
async function judge(res, first) {
  const { status, headers } = res;
  if (res.ok || res.type === "opaqueredirect") return ENDED;
  let problem;
  try {
    if (/\bjson/.test(headers.get("Content-Type"))) problem = await res.clone().json();
  } catch {}
  const { code, error_code } = problem ?? {};
  if (DONE.includes(code) || error_code === 202) return ENDED;
  if (FINAL.includes(code)) return OPEN;
  if (status < 500 && headers.has("Idempotency-Replayed")) return ENDED;
  if (PASSING.includes(status) || (status === 409 && (BUSY.includes(code) || headers.has("Retry-After")))) return AGAIN;
  return status >= 500 || NOT_RUN.includes(status) || (!first && /409|423/.test(status)) || res.redirected ? OPEN : ENDED; // a redirect is the answer; its target is not
}

// retryAfter returns milliseconds. Other origins must expose the header.
function retryAfter(res) {
  const after = res?.headers.get("Retry-After");
  if (/^\d+$/.test(after)) return after * 1000;
  return Math.max(0, Date.parse(after) - (Date.parse(res?.headers.get("Date")) || Date.now())) || 0;
}

/**
 * Guards a form: one press, one submit, and a button that shows it. Returns a function that gives the button back.
 */
export function enhance(form, opts = {}) {
  const texts = { busy: "Sending…", failed: "That did not work. Please try again.", ...opts.texts };
  const status = opts.status ?? document.createElement("output"); // a live region, not in the form, which is busy
  if (!opts.status) form.after(status);
  let [busy, passing, focused, disabled, timer] = [false, false, null, []];

  function input() {
    const name = opts.field ?? "idempotency_key";
    return form.elements.namedItem(name) ?? form.appendChild(Object.assign(document.createElement("input"), { type: "hidden", name }));
  }

  function take(event, own) {
    busy = true;
    form.setAttribute("aria-busy", "true");
    status.textContent = texts.busy;
    setTimeout(() => { // the form has been read: a disabled button's value is not sent
      if (!busy) return;
      if (event.defaultPrevented && !own) return release(); // another listener refused it
      focused ??= document.activeElement;
      disabled = [...new Set([...form.elements, event.submitter])].filter((e) => /^(submit|image)$/.test(e?.type) && !e.disabled);
      able(false);
    });
    clearTimeout(timer);
    timer = setTimeout(release, opts.giveBack ?? 30000); // a file as the answer leaves the page open
  }

  const able = (yes) => disabled.forEach((e) => (e.disabled = !yes));

  function release(text) {
    clearTimeout(timer);
    able(true);
    form.removeAttribute("aria-busy");
    status.textContent = text ?? "";
    if (disabled.includes(focused) && [focused, document.body].includes(document.activeElement)) focused.focus();
    [busy, passing, focused, disabled] = [false, false, null, []];
  }

  async function send(submitter) {
    try {
      if (opts.send) {
        await opts.send(form, submitter);
        return release();
      }
      const answer = await fetch(opts.token, { method: "POST" });
      if (!answer.ok) throw new Error(`retrysafe: no token, status ${answer.status}; nothing was sent`);
      input().value = (await answer.json()).token;
      able(true);
      passing = true;
      form.requestSubmit(submitter);
      if (passing) release(); // the browser has refused it
    } catch (error) {
      release(texts.failed);
      opts.onError?.(error);
    }
  }

  form.addEventListener("submit", (event) => {
    if (busy && !passing) {
      event.preventDefault();
      event.stopImmediatePropagation();
    } else if (!event.defaultPrevented) {
      const own = !passing && (opts.send || (opts.token && !input().value));
      passing = false;
      if (opts.key && !input().value) input().value = newKey();
      take(event, own);
      if (!own) return;
      event.preventDefault();
      send(event.submitter);
    }
  });
  addEventListener("pageshow", (event) => event.persisted && release());
  return () => release();
}
