// Outboxes and dead letters: what was given up, and sending it again or removing it.
import { call } from "./api.js";
import { chip, data, field, h, number, seen, span, t, time, word } from "./dom.js";
import { reasoned } from "./forms.js";
import { View, advice, may, whyNot } from "./view.js";

class Messages extends View {
  name = "messages";

  async ask() {
    const [boxes, queues] = await Promise.all([this.call("/outboxes"), this.call("/deadletters")]);
    return { boxes, queues };
  }

  show({ boxes, queues }) {
    return [h("h1", t("nav.messages")), h("p.lead", t("messages.lead")), !boxes.length && !queues.length && h("p.card", t("messages.none")),
      boxes.map((b) => this.box(b)),
      queues.map((q) => h("section.card", h("h2", t("deadletters"), " ", h("code", seen(q))), new Pile(ofQueue, q)))];
  }

  box(b) {
    const counts = h("div.stack", stats(b));
    const again = async () => {
      const now = (await this.call("/outboxes")).find((one) => one.name === b.name);
      if (now && !now.error) counts.replaceChildren(...stats(now));
    };
    return h("section.card", { "onrs-did": () => again().catch(() => {}) }, h("h2", t("outbox"), " ", h("code", seen(b.name))),
      b.error ? h("p.notice", t("outbox.away")) : [counts, new Pile(ofOutbox, b.name)]);
  }
}

const stats = (b) => [h("ul.counts", ["pending", "waiting", "dead"].map((k) => h("li", h("span.count", h("strong", number(b[k])), " ", t(`outbox.${k}`))))),
  b.pending > 0 && h("p.hint", t("outbox.oldest", { span: span(b.oldest_s) }))].filter(Boolean);

// What the two kinds of piles differ in: names of messages, their rules, and how one looks.
const ofOutbox = {
  path: "/outboxes", list: "/dead", id: "place", named: (picked) => ({ places: picked.map(Number) }), rule: (g) => ({ topic: g.topic }), ruleWord: (g) => seen(g.topic),
  letter: (m) => [h("span.title", data(m.topic), " ", h("code", `#${m.place}`)),
    h("span.meta", t("letter.tries", { n: m.attempts }), " · ", t("letter.died"), " ", time(m.died)), hidden(m)],
};
const ofQueue = {
  path: "/deadletters", list: "", id: "hash", named: (picked) => ({ letters: picked }), rule: (g) => ({ why: g.why }), ruleWord: (g) => word("letter.why", g.why),
  letter: (m) => [h("span.title", h("code", m.hash), " ", chip("warn", word("letter.why", m.why)), " ", chip("plain", t("letter.record", { state: word("state", m.record) }))),
    h("span.meta", t("letter.tries", { n: m.tries }), " · ", t("letter.redrives", { n: m.redrives }), " · ", data(m.consumer), " · ", data(m.source), " · ", time(m.at)), hidden(m)],
  // a letter whose work is in doubt is resolved first
  after: (m) => !["none", "gone", "unknown"].includes(m.record) && h("p", h("a", { href: `#/search?hash=${m.hash}` }, t("letter.see-record"), h("span.unseen", " ", m.hash))),
};

const hidden = (m) => (m.id || m.error || m.body) && h("pre", { tabindex: 0, "aria-label": t("hidden") },
  seen([m.id && `id: ${m.id}`, m.key && `key: ${m.key}`, m.error && `error: ${m.error}`, m.body].filter(Boolean).join("\n"), true));

const mostFailed = 20;

// Pile is a list of messages with checkboxes, and the forms that act on them.
class Pile extends View {
  constructor(kind, name) {
    super();
    Object.assign(this, { kind, path: `${kind.path}/${encodeURIComponent(name)}`, most: 100, opened: null });
  }

  heading() {
    return null;
  }

  ask() {
    return this.opened ?? this.call(this.path + this.kind.list, { query: { limit: this.most } });
  }

  show(all) {
    if (!all.length) return h("p.good", t("letters.none"));
    const one = (m) => h("li", h("label.choice", h("input", { type: "checkbox", name: "one", value: m[this.kind.id], "data-row": true }), h("span", this.kind.letter(m))), this.kind.after?.(m));
    const cut = all.length >= this.most;
    return [may("resolve") && h("p.hint", t("letters.how")), h("ul.rows.letters", { onchange: () => this.count() }, all.map(one)), cut && h("p.hint", t("letters.cut", { n: number(all.length) })),
      cut && this.most < 1000 && h("button", { type: "button", onclick: () => this.grow() }, t("more")),
      may("resolve") ? h("div.forms", this.form("redrive", "primary"), this.form("discard", "danger")) : whyNot("resolve"),
      may("reveal") ? this.reveal() : whyNot("reveal")];
  }

  async grow() {
    const shown = this.querySelectorAll("[data-row]").length;
    Object.assign(this, { most: 1000, opened: null });
    await this.load();
    this.querySelectorAll("[data-row]")[shown]?.focus();
  }

  // count says in the forms how many messages are chosen.
  count() {
    const n = number(this.querySelectorAll("input[name=one]:checked").length);
    for (const e of this.querySelectorAll("[data-chosen]")) e.textContent = t(e.dataset.chosen, { n });
  }

  reveal() {
    return h("details", h("summary", t("letters.reveal")), reasoned(t("reveal"), async (reason) => {
      this.opened = await this.call(`${this.path}${this.kind.list}/reveal`, { query: { limit: this.most }, body: { reason } });
      await this.load();
    }, { tone: "quiet", hint: t("reveal.hint"), changes: false }));
  }

  // form is one that acts on the chosen messages, or on all of a rule. Those of a rule are counted
  // first, and the person confirms the number. Messages that are given up later are not touched.
  form(action, tone) {
    const which = h("select", { name: "which" }, h("option", { value: "chosen", "data-chosen": "which.chosen" }, t("which.chosen", { n: 0 })));
    const note = h("p.hint", { role: "status" });
    const confirmed = h("div");
    let rules = [];
    const counted = async () => {
      note.textContent = t("which.counting");
      try {
        const c = await this.call(`${this.path}/counts`);
        rules = [{ ...c, label: t("which.all") }, ...c.groups.map((g) => ({ ...g, label: this.kind.ruleWord(g) }))];
        which.append(...rules.map((r, i) => h("option", { value: i }, t("which.rule", { label: r.label, n: number(r.count) }))));
        note.textContent = c.more ? t("which.more", { n: number(c.count) }) : "";
      } catch (e) {
        if (e.name !== "AbortError") note.replaceChildren(advice(e));
      }
    };
    which.addEventListener("change", () => confirmed.replaceChildren(...rules[which.value] ? [confirm(action, rules[which.value])] : []));
    const form = reasoned(t(`${action}.go`), (reason, f) => this.dispose(action, rules[which.value], reason, f), { tone, before: [
      h("p", t(`${action}.what`)), field(t("which"), which), note, confirmed,
      action === "redrive" && this.kind === ofQueue && h("label.choice", h("input", { type: "checkbox", name: "not_done" }),
        h("span", h("strong", t("letters.not-done")), h("span.hint", t("letters.not-done.hint")))),
    ] });
    const box = h("details", h("summary", { "data-chosen": action }, t(action, { n: 0 })), form);
    box.addEventListener("toggle", () => { if (box.open && !rules.length) counted(); });
    return box;
  }

  async dispose(action, rule, reason, form) {
    const picked = [...this.querySelectorAll("input[name=one]:checked")].map((e) => e.value);
    if (!rule && !picked.length) return h("p.notice", t("letters.choose"));
    const body = { reason, ...rule ? { all: true, ...this.kind.rule(rule), until: rule.until, count: rule.count } : this.kind.named(picked) };
    if (form.elements.not_done?.checked) body.not_done = true;
    const did = await call(`${this.path}/${action}`, { body });
    this.opened = null;
    this.dispatchEvent(new CustomEvent("rs-did", { bubbles: true }));
    await this.load();
    const failed = did.failed ?? [];
    const said = h("div.notice.good", { role: "status", tabindex: -1 },
      h("p", h("strong", t(`did.${action}`, { n: number(did.done) })), " ", did.gone > 0 && t("did.gone", { n: number(did.gone) }), " ", did.more && t("did.more"), " ", h("a", { href: "#/audit" }, t("see-audit"))),
      failed.length > 0 && [h("p", t("did.failed", { n: number(failed.length) })), h("ul", failed.slice(0, mostFailed).map((f) => h("li", h("code", f))), failed.length > mostFailed && h("li", "…"))]);
    this.prepend(said);
    said.focus();
  }
}

// confirm is a field for the number of messages of a rule.
function confirm(action, rule) {
  const input = h("input", { name: "confirmed", inputmode: "numeric", required: true, autocomplete: "off" });
  const check = () => input.setCustomValidity(input.value.replace(/\D/g, "") === String(rule.count) ? "" : t("which.wrong", { n: number(rule.count) }));
  input.addEventListener("input", check);
  check();
  return field(t(`${action}.confirm`, { n: number(rule.count) }), input, t("which.until"));
}

customElements.define("rs-pile", Pile);
customElements.define("rs-messages", Messages);
