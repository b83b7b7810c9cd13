// What is held: locks and their leases, what a tenant uses of its limits, and worker numbers.
import { call } from "./api.js";
import { chip, facts, field, h, number, precise, seen, span, t, time } from "./dom.js";
import { question, reasoned } from "./forms.js";
import { input } from "./search.js";
import { View, may, me, whyNot } from "./view.js";

class Locks extends View {
  name = "locks";

  ask() {
    return me?.locks ? this.call("/locks") : [];
  }

  show(names) {
    return [h("h1", t("nav.locks")), h("p.lead", t("locks.lead")), !names.length && h("p.card", t("locks.off")),
      names.map((name) => h("section.card", h("h2", t("locks.of"), " ", h("code", seen(name))), new Backend(name)))];
  }
}

const left = (seconds) => chip(seconds > 0 ? "good" : "plain", seconds > 0 ? t("lease.left", { span: span(seconds) }) : t("lease.ended"));

// since returns when the holder got a lock, if its fence tells: it is a time in microseconds unless
// it had to be greater.
function since(fence) {
  const at = fence / 1000;
  return at > Date.now() - 365 * 864e5 && at < Date.now() + 60000 ? [" · ", t("locks.since"), " ", time(at)] : null;
}

// Backend lists the locks of one backend, anew each time: leases end meanwhile.
class Backend extends View {
  constructor(name) {
    super();
    Object.assign(this, { path: `/locks/${encodeURIComponent(name)}`, most: 100, opened: null });
  }

  heading() {
    return null;
  }

  // ask returns the locks. Names that were revealed are shown once.
  ask() {
    const opened = this.opened;
    this.opened = null;
    return opened ?? this.read(this.path);
  }

  // read reads pages until there are enough: a page can be empty and be followed by others.
  async read(path, body) {
    const all = [];
    let after = "";
    do {
      const page = await this.call(path, { body, query: { after, limit: Math.min(1000, this.most - all.length) } });
      all.push(...page.locks);
      after = page.next ?? "";
    } while (after && all.length < this.most);
    return { all, more: Boolean(after) };
  }

  show({ all, more }) {
    const reveal = h("details", h("summary", t("reveal")), reasoned(t("reveal"), async (reason) => {
      this.opened = await this.read(`${this.path}/reveal`, { reason });
      await this.load();
    }, { tone: "quiet", hint: t("reveal.hint"), changes: false }));
    if (!all.length) return h("p.good", t("locks.none"));
    return [h("ul.rows.plain", all.map((l) => h("li", { tabindex: -1, "data-row": true },
      h("p.title", h("code", l.name === undefined ? l.hash : seen(l.name)), " ", left(l.lease_s)),
      h("p.meta", l.name !== undefined && [h("code", l.hash), " · "], t("fence"), " ", h("code", String(l.fence)), since(l.fence), l.waiting !== undefined && [" · ", t("locks.waiting", { n: number(l.waiting) })])))),
    h("p.hint", { role: "status" }, t(more ? "locks.more" : "locks.all", { n: number(all.length) })),
    more && h("button", { type: "button", onclick: () => this.grow() }, t("more")), may("reveal") ? reveal : whyNot("reveal")];
  }

  grow() {
    this.most *= 10;
    this.load();
  }
}

class Quotas extends View {
  name = "quotas";

  ask() {}

  show() {
    if (!me?.quotas) return [h("h1", t("nav.quotas")), h("p.card", t("problem.no-quotas"))];
    // the tenant goes in a body: it stands in no address and no log
    const form = question("quota", [field(t("user"), input("user"), t("quota.user.hint")), field(t("tenant"), input("tenant"), t("quota.tenant.hint")), field(t("namespace"), input("namespace", me.namespace))],
      async (v) => used(await this.call("/quotas/find", { body: v })));
    return [h("h1", t("nav.quotas")), h("p.lead", t("quotas.lead")), form];
  }
}

const used = (q) => [h("h3", t("quota.uses")), facts(
  [t("quota.keys"), number(q.keys)], [t("quota.bytes"), t("bytes", { n: number(q.bytes) })], [t("quota.frees"), q.frees ? time(q.frees) : t("quota.none")],
  ...q.rates.map((r) => [t("quota.rate", { n: precise(r.per_second) }), t("quota.burst", { n: number(r.used) }), r.idle_s > 0 && [" · ", t("quota.idle", { span: span(r.idle_s) })]])),
q.rates.length ? null : h("p.hint", t("quota.no-rate")), h("p.hint", t("quota.limits"))];

class Workers extends View {
  name = "workers";

  ask() {
    return this.call("/workers");
  }

  show(all) {
    return [h("h1", t("nav.workers")), h("p.lead", t("workers.lead")), !all.length && h("p.card", t("workers.none")),
      h("ul.rows", all.map((w) => h("li", h("a.row", { href: `#/record/${w.ref}`, "data-row": true },
        h("span.title", t("worker", { n: w.number }), " ", w.lease_s > 0 ? left(w.lease_s) : chip("plain", t("worker.free"))),
        h("span.meta", t("fence"), " ", h("code", String(w.fence)))))))];
  }
}

customElements.define("rs-backend", Backend);
customElements.define("rs-locks", Locks);
customElements.define("rs-quotas", Quotas);
customElements.define("rs-workers", Workers);
