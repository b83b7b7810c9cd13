// Routes and traffic of a gateway, asked for every five seconds.
import { h, number, rate, seen, svg, t, when, word } from "./dom.js";
import { View, me } from "./view.js";

const every = 5000;

// kinds are what outcomes mean for those who run the service, in the order of the chart.
const kinds = { done: ["executed", "replayed", "duplicate", "unguarded", "issued"], doubt: ["doubt", "late", "in-doubt"] };
const kindOf = (outcome) => Object.keys(kinds).find((k) => kinds[k].includes(outcome)) ?? "refused";
const names = ["done", "refused", "doubt"];
const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);
const sums = (counts) => names.map((k) => Object.entries(counts).reduce((n, [o, c]) => n + (kindOf(o) === k ? c : 0), 0));

class Traffic extends View {
  name = "traffic";

  ask() {
    return me?.traffic ? this.call("/traffic") : null;
  }

  show(flow) {
    if (!flow) return [h("h1", t("nav.traffic")), h("p.card", t("traffic.none"))];
    this.timer = setTimeout(() => this.load(), every);
    const before = this.last;
    this.last = { at: Date.now(), routes: new Map(flow.routes.map((r) => [r.name, sum(r.outcomes)])) };
    const hour = {};
    for (const p of flow.history) for (const [o, n] of Object.entries(p.outcomes)) hour[o] = (hour[o] ?? 0) + n;
    return [h("h1", t("nav.traffic")), h("p.lead", t("traffic.lead")),
      h("section.card", h("h2", t("traffic.hour")), flow.history.length ? chart(flow.history) : h("p.hint", t("traffic.soon")),
        h("ul.legend", names.map((k, i) => h("li", h(`span.key.${k}`, { "aria-hidden": "true" }), t(`kind.${k}`), " ", h("strong", number(sums(hour)[i])))))),
      h("section", h("h2", t("routes")), !flow.routes.length && h("p.hint", t("routes.none")),
        h("ul.rows", flow.routes.map((r) => this.route(r, before))))];
  }

  route(r, before) {
    const all = sum(r.outcomes);
    const seconds = before && (this.last.at - before.at) / 1000;
    const now = before?.routes.has(r.name) ? Math.max(0, all - before.routes.get(r.name)) / seconds : null;
    return h("li", h("p.title", h("code", seen(r.name)), " ", now === null ? "" : h("span.chip.info", t("per-second", { n: rate(now) }))),
      h("ul.counts", Object.entries(r.outcomes).sort((a, b) => b[1] - a[1]).map(([o, n]) => h("li", h(`span.count.${kindOf(o)}`, h("strong", number(n)), " ", word("traffic", o))))));
  }
}

// chart draws a bar for each minute.
function chart(history) {
  const last = Date.parse(history.at(-1).at);
  const minutes = Array.from({ length: 60 }, () => [0, 0, 0]);
  for (const p of history) {
    const i = 59 - Math.floor((last - Date.parse(p.at)) / 60000);
    if (i >= 0) sums(p.outcomes).forEach((n, k) => { minutes[i][k] += n; });
  }
  const top = Math.max(1, ...minutes.map((m) => m[0] + m[1] + m[2]));
  const bars = minutes.flatMap((m, i) => {
    let y = 100;
    return m.map((n, k) => {
      const height = n ? Math.max(1, n / top * 96) : 0;
      y -= height;
      return n > 0 && svg("rect", { class: names[k], x: i * 10 + 1, y, width: 8, height });
    });
  });
  const label = t("chart", { n: number(top), from: when(last - 36e5), to: when(last) });
  return h("figure", svg("svg", { viewBox: "0 0 600 101", role: "img", "aria-label": label, preserveAspectRatio: "none" },
    svg("line", { x1: 0, x2: 600, y1: 100.5, y2: 100.5 }), bars), h("figcaption.hint", label));
}

customElements.define("rs-traffic", Traffic);
