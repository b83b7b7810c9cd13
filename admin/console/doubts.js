// What is in doubt: how many, by cause and age, and the list.
import { h, number, span, t } from "./dom.js";
import { list } from "./list.js";
import { View, causeWord } from "./view.js";

// ages are the parts that the API counts, by their bound.
const ages = { 60: 0, 3600: 60, 86400: 3600, 604800: 86400, 0: 604800 };

const link = (query, here, label, count) => {
  const text = new URLSearchParams(query).toString();
  return h("li", h("a.count", { href: `#/doubts${text ? `?${text}` : ""}`, "aria-current": text === here && "true" }, h("strong", number(count)), " ", h("bdi", label)));
};

class Doubts extends View {
  name = "doubts";

  ask() {
    return this.call("/in-doubt", { query: { namespace: this.query.namespace } });
  }

  // note says that there are others now than the view shows.
  note(shown) {
    const box = h("div.news", { role: "status" });
    document.addEventListener("rs-doubts", ({ detail: now }) => {
      if (!now || now.more || this.query.namespace) return;
      box.replaceChildren(...now.total === shown.total ? [] : [h("div.notice.bar", h("span", t("doubts.changed", { n: number(now.total) })), h("button", { type: "button", onclick: () => this.load() }, t("doubts.again")))]);
    }, { signal: this.leave.signal });
    return box;
  }

  show(d) {
    const head = [h("h1", t("nav.doubts")), h("p.lead", t("doubts.lead")), this.note(d)];
    if (!d.total) return [head, h("p.good.big", t("doubts.none"))];
    const here = new URLSearchParams(this.query).toString();
    const [box] = list({ ...this.query, state: "in-doubt", on_doubt: "refuse" }, true, this.leave.signal);
    return [head,
      h("section.card.split", { "aria-label": t("doubts.counts") },
        h("p.total", h("strong.big", d.more ? t("doubts.at-least", { n: number(d.total) }) : number(d.total)), h("span", t("doubts.oldest", { span: span(d.oldest_s) }))),
        h("div", h("h2", t("by-cause")), h("ul.counts", link({}, here, t("all"), d.total), d.causes.map((c) => link({ cause: c.cause }, here, causeWord(c.cause), c.count)))),
        h("div", h("h2", t("by-age")), h("ul.counts", d.ages.filter((a) => a.count).map((a) => link(age(a), here, ageWord(a), a.count))))),
      h("section", h("h2", this.query.cause ? causeWord(this.query.cause) : t("doubts.list")), box)];
  }
}

const age = (a) => ({ older: ages[a.under_s], ...a.under_s ? { younger: a.under_s } : {} });
const ageWord = (a) => a.under_s ? t("under", { span: span(a.under_s) }) : t("over", { span: span(604800) });

customElements.define("rs-doubts", Doubts);
