// Records that are read part by part: lists, and the search for a hash.
import { Problem, call } from "./api.js";
import { h, number, t } from "./dom.js";
import { advice, row } from "./view.js";

// parts shows what read gives, part by part: { records, next }. It goes on until so many are shown,
// a person stops it, or the signal of the view ends it. say makes the text of how far it is.
function parts({ read, say, enough, rowOf, signal }) {
  const items = h("ul.rows");
  const note = h("p.hint", { role: "status", tabindex: -1 });
  const bar = h("progress.late", { "aria-label": t("reading"), hidden: true });
  const more = h("button", { type: "button", hidden: true }, t("more"));
  const end = h("button.late", { type: "button", hidden: true }, t("stop"));
  const box = h("div.list", items, note, bar, h("div.bar", more, end));
  const got = { after: "", read: 0, shown: 0, unreadable: 0, answers: 0, sealed: 0, scans: false, stopped: false };
  let stop = null;
  end.addEventListener("click", () => stop.abort());
  const next = async () => {
    const until = got.shown + enough;
    stop = new AbortController();
    got.stopped = bar.hidden = end.hidden = false;
    more.hidden = true;
    box.querySelector(".problem")?.remove();
    try {
      do {
        const page = await read(got, AbortSignal.any([signal, stop.signal]));
        got.after = page.next ?? "";
        got.read += page.read;
        got.shown += page.records.length;
        for (const k of ["unreadable", "answers", "sealed"]) got[k] += page[k] ?? 0;
        got.scans ||= page.scans;
        items.append(...page.records.map(rowOf));
        note.textContent = say(got, true);
      } while (got.after && got.shown < until);
    } catch (e) {
      if (signal.aborted) return;
      if (e instanceof Problem) box.append(advice(e, next));
      else if (e.name !== "AbortError") throw e;
      got.stopped = true;
    }
    const focused = document.activeElement === end;
    bar.hidden = end.hidden = true;
    more.hidden = !got.after && !got.stopped;
    if (focused && !more.hidden) more.focus();
    if (!box.querySelector(".problem") || got.read) note.textContent = say(got, false);
  };
  // The button goes while the records are read: the focus goes to the first of them.
  more.addEventListener("click", async () => {
    const before = items.childElementCount;
    await next();
    if (document.activeElement !== document.body) return;
    (items.children[before]?.querySelector("[data-row]") ?? (more.hidden ? note : more)).focus();
  });
  return [box, next()];
}

// list lists records. What the store has no index for is read in larger parts once few fit. A caller
// and what an answer has go in a body: they stand in no address and no log.
export function list(query, advise, signal, body) {
  const path = body ? "/records/list" : "/records";
  const known = new Set();
  return parts({ signal, enough: 100,
    read: (got, signal) => call(path, { signal, body, query: { ...query, after: got.after, limit: got.scans && got.shown < got.read / 10 ? 1000 : 100 } }),
    rowOf: (r) => {
      const one = row(r, advise && r.state === "in-doubt" && !known.has(r.cause));
      known.add(r.cause);
      return one;
    },
    say: (got, going) => [got.scans && t("list.scans", { n: number(got.read) }), got.unreadable && t("list.unreadable", { n: number(got.unreadable) }),
      (body?.location || body?.text) && t("list.answers", { n: number(got.answers) }), got.sealed > 0 && t("list.sealed", { n: number(got.sealed) }),
      t(going ? "list.going" : got.stopped ? "list.stopped" : got.after ? "list.more" : got.shown ? "list.all" : "list.none", { n: number(got.shown) })].filter(Boolean).join(" ") });
}

// search reads records until one has the hash.
export const search = (query, signal) => parts({ signal, enough: 1,
  read: (got, signal) => call("/records/search", { signal, query: { ...query, after: got.after } }),
  rowOf: (r) => row(r, r.state === "in-doubt"),
  say: (got, going) => t(got.shown ? "search.found" : going && got.after ? "search.read" : got.stopped ? "search.stopped" : "search.none", { n: number(got.read) }) });
