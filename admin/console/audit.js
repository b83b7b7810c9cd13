// The audit log of a day.
import { Problem } from "./api.js";
import { chip, data, field, h, seen, t, time, word } from "./dom.js";
import { View, advice } from "./view.js";

const day = (at) => at.toISOString().slice(0, 10);

class Audit extends View {
  name = "audit";

  ask() {
    return this.call("/audit", { query: { day: this.query.day } });
  }

  show(log) {
    const at = Date.parse(log.day);
    const go = (to) => { location.hash = `#/audit?day=${to}`; };
    const picker = h("input", { type: "date", value: log.day, max: day(new Date()), required: true, onchange: (e) => e.target.value && go(e.target.value) });
    const step = (days, label) => h("button", { type: "button", disabled: day(new Date(at + days * 864e5)) > day(new Date()), onclick: () => go(day(new Date(at + days * 864e5))) }, t(label));
    const items = h("ul.rows.audit");
    const more = h("button", { type: "button", hidden: true }, t("more"));
    const said = h("div");
    const results = new Map();
    let before = 0;
    const add = (part) => {
      for (const e of part.entries) {
        if (e.of) results.set(e.of, e);
        else items.append(entry(e, results.get(e.number)));
      }
      before = part.before ?? 0;
      more.hidden = !before;
    };
    more.addEventListener("click", async () => {
      if (more.hasAttribute("aria-disabled")) return;
      more.setAttribute("aria-disabled", "true");
      const shown = items.childElementCount;
      try {
        said.replaceChildren();
        add(await this.call("/audit", { query: { day: log.day, before } }));
      } catch (e) {
        if (e instanceof Problem) said.replaceChildren(advice(e));
        else if (e.name !== "AbortError") throw e;
      }
      more.removeAttribute("aria-disabled");
      const first = items.children[shown];
      if (!more.hidden || !first) return;
      first.tabIndex = -1;
      first.focus();
    });
    add(log);
    return [h("h1", t("nav.audit")), h("p.lead", t("audit.lead")), h("div.bar.days", step(-1, "day.before"), field(t("day"), picker), step(1, "day.after")),
      items.childElementCount || before ? items : h("p.card", t("audit.none")), said, more];
  }
}

function entry(e, end) {
  if (e.unreadable) return h("li", h("p.title", word("audit.unreadable", e.unreadable)), h("p.meta", time(e.at), ` · #${e.number}`));
  const result = end?.result ?? e.result;
  const tone = result === "done" ? "good" : "warn";
  const hash = /^[0-9a-f]{16}$/.test(e.object);
  return h("li", h("p.title", h("strong", data(e.who)), " ", word("action", e.action), " ",
    hash ? h("a", { href: `#/search?hash=${e.object}`, "data-row": true }, h("code", e.object)) : h("code", seen(e.object)), " ",
    e.action === "resolve" && chip("plain", word("outcome", e.detail)), " ", chip(tone, end ? word("result", result) : t("result.begun"))),
  h("p.reason", e.reason ? ["“", data(e.reason), "”"] : t("audit.no-reason")),
  e.action !== "resolve" && e.detail && h("p.meta", data(e.detail), end && end.detail !== e.detail && [" → ", data(end.detail)]), h("p.meta", time(e.at), ` · #${e.number}`, e.origin && [" · ", t("origin", { how: e.origin })]), !end && h("p.hint", t("result.begun.hint")));
}

customElements.define("rs-audit", Audit);
